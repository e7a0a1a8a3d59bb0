"""`compact`: the oldest turns of a thread become a rolling summary now, between two turns."""

from typing import Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from turngraph.context.compact import plan_compaction
from turngraph.context.terms import ViewTerms
from turngraph.context.tokens import warm_up
from turngraph.graph.lease import aholding, holding, leased_thread
from turngraph.graph.loop import run_sync
from turngraph.graph.shell import TurnGraph
from turngraph.llm.loading import model_window, resolve_model
from turngraph.llm.profile import effective_profile
from turngraph.nodes.compaction import write_summary
from turngraph.nodes.parts import turn_anchor
from turngraph.state.anchors import SummaryAnchor
from turngraph.state.errors import InputError
from turngraph.state.receipt import Usage
from turngraph.state.settings import TurnSettings


class Compaction(TypedDict):
    """What a compaction did: the summary, how many stored messages it stands for, and what the model call cost."""

    summary: str
    summarized: int
    usage: Usage


async def acompact(graph: TurnGraph, thread_id: str, *, keep_turns: int = 1) -> Compaction | None:
    """Summarises all turns of a thread but the newest `keep_turns` (1 or more) by one call of the turn's model.

    The stored messages stay; later turns are sent the summary in their place. None, and nothing changed, where there
    is too little to summarise or no summary came back. Raises TurnConflict while a turn runs on the thread, InputError
    for a thread whose turn has not ended.
    """
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    async with aholding(leased_thread(graph, config), _keep_going):
        written = await _summarise(graph, _ended(await graph.aget_state(config)), keep_turns)
        if written is None:
            return None
        await graph.aupdate_state(config, {"anchors": [written[0]]}, as_node="finalize")
        return written[1]


def compact(graph: TurnGraph, thread_id: str, *, keep_turns: int = 1) -> Compaction | None:
    """The sync form of `acompact`."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    with holding(leased_thread(graph, config), _keep_going):
        written = run_sync(_summarise(graph, _ended(graph.get_state(config)), keep_turns))
        if written is None:
            return None
        graph.update_state(config, {"anchors": [written[0]]}, as_node="finalize")
        return written[1]


def _keep_going() -> None:
    """A lease that is lost changes nothing here: the one write is an anchor, which conflicts with no other."""


def _ended(snapshot: StateSnapshot) -> dict[str, Any]:
    """The values of a thread between two turns."""
    if snapshot.next:
        raise InputError("The turn of this thread has not ended: answer, continue or replace it before you compact.")
    return dict(snapshot.values)


async def _summarise(
    graph: TurnGraph, values: dict[str, Any], keep_turns: int
) -> tuple[SummaryAnchor, Compaction] | None:
    await warm_up()
    last = turn_anchor(values)  # type: ignore[arg-type]
    settings = TurnSettings.model_validate(last.get("settings", {})) if last else TurnSettings()
    model, _ = await resolve_model(graph.parts.model, settings.model)
    if settings.context_window is None and (window := model_window(model)) is not None:
        settings = settings.model_copy(update={"context_window": window})
    plan = plan_compaction(
        values.get("messages", []),
        values.get("anchors", []),
        ViewTerms(settings, profile=effective_profile(model, settings.model_profile)),
        keep_turns=keep_turns,
    )
    if plan is None:
        return None
    written = await write_summary(model, settings, plan, trace={"turngraph_role": "summary"})
    if written.anchor is None:
        return None
    done: Compaction = {
        "summary": written.anchor["text"],
        "summarized": plan.summarized,
        "usage": written.usage,
    }
    return written.anchor, done
