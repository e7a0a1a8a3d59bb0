"""What a graph was built with, and what one node visit works with."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore

from turngraph.llm.loading import model_window, resolve_model
from turngraph.llm.structured import OutputFormat
from turngraph.nodes.emit import emitter
from turngraph.nodes.nesting import outer_turn
from turngraph.nodes.place import Place, place_of
from turngraph.nodes.progress import whole
from turngraph.nodes.scope import RunScope, current_scope
from turngraph.state.anchors import TurnAnchor
from turngraph.state.channels import Progress, TurnState
from turngraph.state.errors import InputError
from turngraph.state.events import Emit
from turngraph.state.settings import TurnSettings
from turngraph.tools.journal import Journal
from turngraph.tools.permission import tighten
from turngraph.tools.skills import Skill


@dataclass(frozen=True)
class Capability:
    """A bundle that a turn can have: a block of the system prompt, tools, a minimum of rounds, and a seed.

    `seed(question)` is awaited before the first round and returns a knowledge block or None; all seeds run in
    parallel, are capped, and a failing one is left out.
    """

    name: str
    prompt: str = ""
    tools: Sequence[Any] = ()
    min_rounds: int = 0
    seed: Callable[[str], Awaitable[str | None]] | None = None


RESERVED_NAMES = frozenset({"read_tool_result", "load_tools", "activate_skill", "read_skill_file"})
"""Tools that turngraph brings itself."""


@dataclass(frozen=True)
class TurnParts:
    """What `build_turn_graph` was given, normalised once."""

    model: BaseChatModel | str | None
    tools: Mapping[str, BaseTool]
    provider_tools: tuple[dict[str, Any], ...]
    capabilities: tuple[Capability, ...]
    skills: tuple[Skill, ...]
    fallback_models: tuple[BaseChatModel | str, ...]
    response_format: OutputFormat | None
    journal_of: Callable[[Any, BaseStore | None], Journal]

    @property
    def tool_names(self) -> frozenset[str]:
        """Every name that a call of this graph may have, loaded and active or not."""
        skills = (tool.name for skill in self.skills for tool in skill.tools)
        return frozenset([*self.tools, *skills, *RESERVED_NAMES])

    def unknown_names(self, settings: TurnSettings) -> dict[str, list[str]]:
        """Names in the settings that this graph does not have, by field: most likely misspelt."""
        provider = {str(tool.get("name") or tool.get("type", "")) for tool in self.provider_tools}
        named = {
            "permissions": set(settings.permissions) - self.tool_names - provider,
            "enabled_tools": set(settings.enabled_tools or ()) - self.tool_names - provider,
            "active_skills": set(settings.active_skills) - {skill.name for skill in self.skills},
        }
        return {field: sorted(names) for field, names in named.items() if names}

    @property
    def min_rounds(self) -> int:
        return max((capability.min_rounds for capability in self.capabilities), default=0)


@dataclass
class Visit:
    """One visit of one node: the settings in force, where events go, which thread and turn this is."""

    parts: TurnParts
    config: RunnableConfig
    settings: TurnSettings
    anchor: TurnAnchor | None
    progress: Progress
    thread: str
    journal: Journal
    store: BaseStore | None
    scope: RunScope
    can_pause: bool
    started: float = field(default_factory=time.monotonic)

    @property
    def turn_id(self) -> str:
        return self.progress["turn_id"]

    @property
    def place(self) -> Place | None:
        """Where the turn stands inside another graph, and can be found again; None for a run of its own."""
        return place_of(self.config.get("configurable", {})) if self.can_pause else None

    @property
    def inside(self) -> bool:
        """Whether the turn runs inside another graph."""
        return "|" in str(self.config.get("configurable", {}).get("checkpoint_ns", ""))

    @property
    def shown(self) -> int:
        """The number of the last round that events spoke of."""
        return self.progress["rounds"] + self.progress["uncounted"]

    def emit(self, round_number: int) -> Emit:
        """The emitter of this turn's events in a round."""
        return emitter(self.turn_id, round_number)

    def seconds(self) -> float:
        """Seconds of work of the turn so far, this visit included."""
        return round(self.progress.get("seconds", 0.0) + time.monotonic() - self.started, 4)

    def time_left(self) -> float | None:
        """Seconds until `max_seconds`, at least 0; None where there is no time budget."""
        limit = self.settings.max_seconds
        return None if limit is None else max(0.0, limit - self.seconds())

    async def model(self) -> tuple[BaseChatModel, str]:
        """The model of this turn and its name."""
        return await resolve_model(self.parts.model, self.settings.model)

    async def fallbacks(self) -> list[tuple[BaseChatModel, str]]:
        """The models to try when the first one is given up, in order."""
        return [await resolve_model(model, None) for model in self.parts.fallback_models]

    def windowed(self, model: BaseChatModel) -> TurnSettings:
        """The settings with the context window filled in from the model, where the caller set none."""
        if self.settings.context_window is None and (window := model_window(model)) is not None:
            return self.settings.model_copy(update={"context_window": window})
        return self.settings


def given_settings(context: Any) -> TurnSettings | None:
    """The settings in a run's context: a TurnSettings, a dict of its fields, or a parent's `turn_settings`.

    Raises InputError for unknown fields or values out of bounds.
    """
    if context is None or isinstance(context, TurnSettings):
        return context
    if isinstance(context, dict) and "turn_settings" not in context and set(context) <= set(TurnSettings.model_fields):
        candidate: Any = context
    else:
        candidate = (
            context.get("turn_settings") if isinstance(context, dict) else getattr(context, "turn_settings", None)
        )
    if candidate is None or isinstance(candidate, TurnSettings):
        return candidate
    try:
        return TurnSettings.model_validate(candidate)
    except ValueError as error:
        raise InputError(f"These turn settings cannot be used: {error}") from error


def settings_of_run(context: Any, recorded: TurnSettings | None = None) -> TurnSettings:
    """The settings in force: those of a turn that starts, or the `recorded` ones, tightened by a context given now.

    Inside a tool of another turn a context that is only handed down is that turn's, not this one's; its permissions
    hold here all the same.
    """
    outer = outer_turn()
    inherited = outer is not None and context is outer.context
    given = None if inherited else given_settings(context)
    if recorded is None:
        settings = given or TurnSettings()
    else:
        settings = recorded if given is None else tighten(recorded, given)
    return settings if outer is None else tighten(settings, outer.floor())


def thread_of(config: RunnableConfig) -> str:
    """The journal's key of a thread: thread id, and the namespace where the turn runs inside another graph."""
    configurable = config.get("configurable", {})
    namespace = "|".join(str(configurable.get("checkpoint_ns", "")).split("|")[:-1])
    thread = str(configurable.get("thread_id", ""))
    return f"{thread}|{namespace}" if namespace else thread


def turn_anchor(state: TurnState) -> TurnAnchor | None:
    """The anchor of the running (or last) turn."""
    for anchor in reversed(state.get("anchors", [])):
        if anchor["kind"] == "turn":
            return cast(TurnAnchor, anchor)
    return None


def open_visit(parts: TurnParts, state: TurnState) -> Visit:
    """Everything a node needs besides the state. Settings are the turn's record, tightened by a context given now."""
    config = get_config()
    anchor = turn_anchor(state)
    runtime = get_runtime()
    recorded = TurnSettings.model_validate(anchor.get("settings", {})) if anchor else TurnSettings()
    checkpointer = config.get("configurable", {}).get("__pregel_checkpointer")
    return Visit(
        parts=parts,
        config=config,
        settings=settings_of_run(runtime.context, recorded),
        anchor=anchor,
        progress=whole(state.get("progress", {})),
        thread=thread_of(config),
        journal=parts.journal_of(checkpointer or None, runtime.store),
        store=runtime.store,
        scope=current_scope(),
        can_pause=checkpointer is not None and checkpointer is not False,
    )
