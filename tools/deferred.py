"""Tools and skills that the model asks for: the manifest, `load_tools`, `activate_skill`, `read_skill_file`."""

import asyncio
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from turngraph.state.errors import InputError
from turngraph.tools.effects import TurnEffects
from turngraph.tools.policy import tool_policy
from turngraph.tools.skills import Skill

_LINE = 160
"""Characters of a tool's description in the manifest."""


def manifest(tools: Sequence[BaseTool]) -> str:
    """A line for each deferred tool, in place of its schema; "" where there are none. Order: by name."""
    if not tools:
        return ""
    lines = "\n".join(f"- {tool.name}: {_line(tool.description)}" for tool in sorted(tools, key=lambda tool: tool.name))
    return f"More tools exist. Load the ones you need with load_tools before you call them:\n{lines}"


def _line(description: str) -> str:
    """The first paragraph of a description as one line."""
    line = " ".join(description.strip().split("\n\n")[0].split())
    return line if len(line) <= _LINE else f"{line[: _LINE - 1].rstrip()}…"


def load_tools_tool(names: Sequence[str]) -> BaseTool:
    """The tool `load_tools(names)`; the tools are there from the next round on. `names`: what may be loaded."""
    known = list(dict.fromkeys(names))

    def load_tools(names: list[str]) -> tuple[str, TurnEffects]:
        wanted = [name.strip() for name in names if name.strip()]
        found = [name for name in dict.fromkeys(wanted) if name in known]
        missing = [name for name in dict.fromkeys(wanted) if name not in known]
        if not found:
            raise ToolException(_unknown("tool", missing, known) if missing else "Name at least one tool in 'names'.")
        said = f"Loaded: {', '.join(found)}. You can call them from your next message on."
        return (f"{said} {_unknown('tool', missing, known)}" if missing else said), TurnEffects(load_tools=tuple(found))

    return _built(load_tools, "Load tools of the list of more tools, by name, so that you can call them.")


def activate_skill_tool(skills: Sequence[Skill]) -> BaseTool:
    """The tool `activate_skill(name)`; the skill is in force from the next round on."""
    by_name = {skill.name: skill for skill in skills}

    def activate_skill(name: str) -> tuple[str, TurnEffects]:
        skill = by_name.get(name.strip())
        if skill is None:
            raise ToolException(_unknown("skill", [name], list(by_name)))
        tools = f" Its tools: {', '.join(tool.name for tool in skill.tools)}." if skill.tools else ""
        said = f"Activated {skill.name}: its instructions are in the system prompt from your next message on.{tools}"
        return said, TurnEffects(activate_skills=(skill.name,), load_tools=skill.loads)

    return _built(activate_skill, "Activate a skill: its instructions and tools are yours from your next message on.")


def read_skill_file_tool(skills: Sequence[Skill]) -> BaseTool:
    """The tool `read_skill_file(skill, path)`: one file inside a skill's folder, and nothing outside it."""
    by_name = {skill.name: skill for skill in skills}

    async def read_skill_file(skill: str, path: str) -> str:
        found = by_name.get(skill.strip())
        if found is None:
            raise ToolException(_unknown("skill", [skill], list(by_name)))
        try:
            return await asyncio.to_thread(found.read, path)
        except InputError as error:
            raise ToolException(str(error)) from None
        except OSError as error:
            raise ToolException(
                f"The file {path!r} cannot be read: {error.strerror or type(error).__name__}."
            ) from None

    tool = StructuredTool.from_function(
        coroutine=read_skill_file, name="read_skill_file", description="Read a file that belongs to a skill."
    )
    return tool_policy(tool, effect="read")


def _built(function: Any, description: str) -> BaseTool:
    """A tool with effects on the turn; running it again does no harm, so it counts as a read."""
    tool = StructuredTool.from_function(function, description=description, response_format="content_and_artifact")
    return tool_policy(tool, effect="read")


def _unknown(what: str, missing: Sequence[str], known: Sequence[str]) -> str:
    """Names that do not exist, the one that may have been meant, and all that do."""
    close = get_close_matches(missing[0], known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"There is no {what} named {', '.join(map(repr, missing))}.{hint} Known: {', '.join(known) or 'none'}."
