"""Whether a question was shown before its answer came."""

from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Interrupt

from turngraph.nodes.parts import Visit

_INTERRUPT, _RESUME, NOBODY = "__interrupt__", "__resume__", "00000000-0000-0000-0000-000000000000"
"""LangGraph's names for saved writes: pauses, answers, and the task of an answer that names no pause."""

VOID = {"turngraph": "an answer that was not taken"}
"""What stands in the place of an answer that was given to no question."""

VOID_WRITES = [(_RESUME, VOID)]
"""The write, of the task NOBODY, that puts it there."""


async def was_shown(visit: Visit, payload: Any) -> bool:
    """Whether this very question is the pause that is saved for this task, so that an answer can be meant for it.

    A run of its own is checked before it starts. Inside another graph a plain answer goes to the first question of the
    run, even to one that nobody has seen: after a static breakpoint of the parent, or where the waiting calls were
    edited.
    """
    place, read = visit.place, visit.scope.checkpoint_at
    if place is None or read is None:
        return True
    return shows(await read(checkpoint_of(visit.config, place.namespace)), visit.config, payload)


async def void_answer(visit: Visit) -> None:
    """Takes an answer that came too early out of the run's saved writes, where `invoke(None)` would give it again.

    LangGraph saves a plain answer beside the root's checkpoint, for whichever question comes first.
    """
    if visit.scope.write_at is not None:
        await visit.scope.write_at(checkpoint_of(visit.config, ""), VOID_WRITES, NOBODY)


def shows(saved: CheckpointTuple | None, config: RunnableConfig, payload: Any) -> bool:
    """Whether the pause that is saved for the task with this config asks what this payload asks."""
    writes = [] if saved is None else saved.pending_writes or []
    task = config.get("configurable", {}).get("__pregel_task_id")
    shown = [value for task_id, channel, value in writes if channel == _INTERRUPT and task_id == task]
    return any(_same(pause.value, payload) for pauses in shown for pause in _listed(pauses))


def checkpoint_of(config: RunnableConfig, namespace: str) -> RunnableConfig:
    """The checkpoint that a node's current step works on: that of its graph (`namespace`), or of a graph around it."""
    configurable = config.get("configurable", {})
    at = (configurable.get("checkpoint_map") or {}).get(namespace) or configurable.get("checkpoint_id")
    named = {"thread_id": configurable.get("thread_id"), "checkpoint_ns": namespace}
    saver = {"__pregel_checkpointer": configurable.get("__pregel_checkpointer")}
    return {"configurable": {**named, **saver, **({"checkpoint_id": at} if at else {})}}


def _listed(pauses: Any) -> Sequence[Interrupt]:
    return pauses if isinstance(pauses, list | tuple) else [pauses]


def _same(shown: Any, payload: Any) -> bool:
    """Whether two questions ask for the same calls with the same arguments; a tool's own pause is compared whole."""
    return shown == payload if _requests(payload) is None else _requests(shown) == _requests(payload)


def _requests(payload: Any) -> list[tuple[str, str]] | None:
    if not isinstance(payload, dict) or "requests" not in (payload.get("turngraph") or {}):
        return None
    return [(request["call_id"], request["digest"]) for request in payload["turngraph"]["requests"]]
