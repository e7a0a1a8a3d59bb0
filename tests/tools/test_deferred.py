"""The manifest, and the tools that load tools and skills."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool, ToolException

from turngraph.tools.deferred import activate_skill_tool, load_tools_tool, manifest, read_skill_file_tool
from turngraph.tools.effects import TurnEffects
from turngraph.tools.policy import policy_of
from turngraph.tools.skills import Skill


def named(name: str, description: str) -> BaseTool:
    return StructuredTool.from_function(lambda: None, name=name, description=description)


def called(tool: BaseTool, **args: Any) -> Any:
    """Text and artifact of a call, as LangChain's tool message carries them."""
    message = tool.invoke({"type": "tool_call", "id": "c1", "name": tool.name, "args": args})
    return message.content, message.artifact


def test_a_line_for_each_deferred_tool() -> None:
    text = manifest([named("zeta", "Last.\n\nMore about it."), named("alpha", "First\n  one. " + "x" * 500)])
    lines = text.splitlines()[1:]
    assert lines[0].startswith("- alpha: First one. xxx")
    assert lines[0].endswith("…")
    assert len(lines[0]) < 180
    assert lines[1] == "- zeta: Last."
    assert "load_tools" in text
    assert manifest([]) == ""


def test_loading_tools() -> None:
    tool = load_tools_tool(["weather", "stocks"])
    assert policy_of(tool).effect == "read"
    text, effects = called(tool, names=["weather", " weather ", "wether"])
    assert effects == TurnEffects(load_tools=("weather",))
    assert "Loaded: weather." in text
    assert "no tool named 'wether'. Did you mean 'weather'?" in text
    for wrong, says in ((["x"], "Known: weather, stocks"), ([], "at least one"), (["  "], "at least one")):
        with pytest.raises(ToolException, match=says):
            called(tool, names=wrong)


@pytest.fixture
def skill(tmp_path: Path) -> Skill:
    (tmp_path / "notes").write_text("some notes")
    return Skill("pdf", "PDFs", "body", tmp_path, ("notes", "gone"), (named("fill", "Fill."),), ("extra",))


def test_activating_a_skill(skill: Skill) -> None:
    text, effects = called(activate_skill_tool([skill]), name="pdf")
    assert effects == TurnEffects(activate_skills=("pdf",), load_tools=("extra",))
    assert "fill" in text
    with pytest.raises(ToolException, match=r"no skill named 'pfd'\. Did you mean 'pdf'\?"):
        called(activate_skill_tool([skill]), name="pfd")


async def test_reading_a_file_of_a_skill(skill: Skill) -> None:
    tool = read_skill_file_tool([skill])
    assert await tool.ainvoke({"skill": "pdf", "path": "notes"}) == "some notes"
    for args, says in (
        ({"skill": "pdf", "path": "../x"}, "no file '../x'"),
        ({"skill": "pdf", "path": "gone"}, "not inside"),
        ({"skill": "doc", "path": "notes"}, "no skill named 'doc'"),
    ):
        with pytest.raises(ToolException, match=says):
            await tool.ainvoke(args)
