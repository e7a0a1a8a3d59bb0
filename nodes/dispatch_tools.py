"""`dispatch_tools`: runs every call that may run now. Never calls the LLM, never loses a finished result."""

import asyncio
from typing import Any, cast

from turngraph.nodes import texts
from turngraph.nodes.belt import belt_of
from turngraph.nodes.closing import marks_of, open_message, tool_message
from turngraph.nodes.parts import Visit
from turngraph.nodes.work import BatchWork
from turngraph.state.calls import CallOutcome
from turngraph.state.channels import Batch, BatchEffects, Original, Progress, TurnState, Update
from turngraph.tools.pause import build_payload


async def dispatch_tools(state: TurnState, visit: Visit) -> Update:
    """One pass over the open batch: answers what cannot run, runs what may, and leaves the rest to a person.

    When nothing waits, every call's result reaches the tape in one update, in call order.
    """
    message = open_message(state["messages"], visit.turn_id)
    if message is None:
        return {"progress": {**visit.progress, "next": "fold"}, "batch": None}
    work = BatchWork(state, visit, message, belt_of(visit, state))
    await work.recall()
    try:
        async with asyncio.timeout(visit.time_left()):
            await work.run()
    except TimeoutError:
        work.give_up(("cancelled", texts.not_run("max_seconds")))
    except asyncio.CancelledError:
        work.give_up(("cancelled", texts.CANCELLED))
        return _settled(visit, work, reason="cancelled")
    if work.waiting:
        return _paused(visit, work)
    return _settled(visit, work)


def _paused(visit: Visit, work: BatchWork) -> Update:
    """The batch waits: what finished is kept with it, and the people who watch are told."""
    payload = build_payload(visit.turn_id, work.requests())
    fresh = [call_id for call_id in work.waiting if call_id not in work.asked]
    if fresh:
        requests = [request for request in payload["turngraph"]["requests"] if request["call_id"] in fresh]
        visit.emit(visit.progress["rounds"])("interaction_requested", requests=requests)
    batch: Batch = {
        "message_id": work.message.id or "",
        "outcomes": work.outcomes,
        "decisions": work.decisions,
        "waiting": work.waiting,
        "asked": [*work.asked, *fresh],
        "unknown": sorted(work.unknown),
        "own": work.own,
        "error": None,
    }
    counted = visit.progress["interactions"] + len(fresh)
    return {"batch": batch, "progress": {**_counts(visit, work), "interactions": counted, "next": "interrupt"}}


def _settled(visit: Visit, work: BatchWork, reason: str | None = None) -> Update:
    """Every call has its result: one tool message each, in call order, and what the tools asked of the turn."""
    number = marks_of(work.message).get("round", 0)
    results = [work.outcomes[call["id"]] for call in work.calls]
    messages = [tool_message(result, visit.turn_id, number, work.role_of(result["call_id"])) for result in results]
    progress = _counts(visit, work)
    progress["next"] = "fold"
    if reason is not None:
        progress["reason"] = cast(Any, reason)
        progress["final"] = {"kind": "text", "text": texts.CANCELLED_ANSWER}
        progress["next"] = "final"
    effects = _effects(results)
    if effects:
        progress["effects"] = effects
    progress["loaded"] = _named(progress.get("loaded", []), results, "load_tools")
    progress["skills"] = _named(progress.get("skills", []), results, "activate_skills")
    extra = [message for result in results for message in result.get("update", {}).get("messages", [])]
    return {
        "messages": [*messages, *extra],
        "progress": progress,
        "batch": None,
        "originals": _originals(results),
        "grants": work.new_grants,
    }


def _counts(visit: Visit, work: BatchWork) -> Progress:
    """The progress with this pass counted in."""
    progress = cast(Progress, dict(visit.progress))
    progress["tool_calls"] = visit.progress["tool_calls"] + work.started
    progress["tool_errors"] = visit.progress["tool_errors"] + work.errors
    progress["seconds"] = visit.seconds()
    return progress


def _effects(results: list[CallOutcome]) -> BatchEffects:
    """What the batch asked of the turn; of several terminating tools the first one's text is the answer."""
    effects: BatchEffects = {}
    for result in results:
        asked = result.get("effects", {})
        if asked.get("context_checkpoint"):
            point = {"call_id": result["call_id"], "text": asked["context_checkpoint"]}
            effects.setdefault("checkpoints", []).append(point)
        if asked.get("terminate") and "terminate" not in effects:
            effects["terminate"] = asked["terminate"]
    return effects


def _named(before: list[str], results: list[CallOutcome], effect: str) -> list[str]:
    """Names that are in force from the next round on, in the order in which they came."""
    return list(dict.fromkeys([*before, *(name for result in results for name in result.get("effects", {}).get(effect, ()))]))


def _originals(results: list[CallOutcome]) -> list[Original]:
    """The whole texts of the results that were cut."""
    return [{"call_id": result["call_id"], "text": result["full"]} for result in results if "full" in result]


