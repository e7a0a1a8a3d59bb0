"""The tools of one round: what is offered to the model, what may be executed, and what the prompt says of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.tools import BaseTool

from turngraph.nodes.parts import Visit
from turngraph.state.channels import TurnState
from turngraph.tools.deferred import activate_skill_tool, load_tools_tool, manifest, read_skill_file_tool
from turngraph.tools.policy import ToolPolicy, policy_of
from turngraph.tools.results import read_tool_result_tool
from turngraph.tools.skills import skills_block


@dataclass(frozen=True)
class Belt:
    """`offered` is bound to the model; `known` may run; `deferred` must be loaded first; `blocks` join the prompt."""

    offered: tuple[BaseTool | dict[str, Any], ...]
    known: Mapping[str, BaseTool]
    deferred: Mapping[str, BaseTool]
    blocks: tuple[str, ...]

    def policies(self) -> dict[str, ToolPolicy]:
        """The declared policy of every tool that may be executed."""
        return {name: policy_of(tool) for name, tool in self.known.items()}


def belt_of(visit: Visit, state: TurnState) -> Belt:
    """The tools in force: those built in, less the ones not enabled, less deferred ones not loaded, plus our own.

    Deterministic in build, settings and progress, so that requests of a turn extend each other.
    """
    enabled, loaded = visit.settings.enabled_tools, visit.progress.get("loaded", [])
    active = visit.progress.get("skills", [])
    usable = {name: tool for name, tool in visit.parts.tools.items() if enabled is None or name in enabled}
    for skill in visit.parts.skills:
        if skill.name in active:
            usable |= {tool.name: tool for tool in skill.tools}
    deferred = {name: tool for name, tool in usable.items() if policy_of(tool).deferred and name not in loaded}
    known = {name: tool for name, tool in usable.items() if name not in deferred}
    if deferred or any(policy_of(tool).deferred for tool in usable.values()):
        known["load_tools"] = load_tools_tool(list(visit.parts.tools))
    if visit.parts.skills:
        known["activate_skill"] = activate_skill_tool(visit.parts.skills)
        known["read_skill_file"] = read_skill_file_tool(visit.parts.skills)
    if offers_originals(state):
        known["read_tool_result"] = read_tool_result_tool()
    blocks = [capability.prompt for capability in visit.parts.capabilities if capability.prompt]
    if visit.parts.skills:
        blocks.append(skills_block(visit.parts.skills, active))
    if deferred:
        blocks.append(manifest(list(deferred.values())))
    provider = tuple(tool for tool in visit.parts.provider_tools if enabled is None or _name(tool) in enabled)
    return Belt((*known.values(), *provider), known, deferred, tuple(blocks))


def offers_originals(state: TurnState) -> bool:
    """`read_tool_result` is offered from the first result on that was cut or folded on this thread."""
    return bool(state.get("originals")) or any(
        anchor["kind"] in ("fold", "shorten") for anchor in state.get("anchors", [])
    )


def _name(tool: dict[str, Any]) -> str:
    """The name of a provider-side tool dict, in its several shapes."""
    return str(tool.get("name") or tool.get("function", {}).get("name") or tool.get("type", ""))
