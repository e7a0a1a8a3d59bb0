"""`dispatch_tools`: runs every call that may run now. Never calls the LLM, never loses a finished result."""

import asyncio

from turngraph.nodes import texts
from turngraph.nodes.belt import belt_of
from turngraph.nodes.closing import open_message
from turngraph.nodes.parts import Visit
from turngraph.nodes.settling import counted, fit_window, settle
from turngraph.nodes.work import BatchWork
from turngraph.state.channels import Batch, TurnState, Update
from turngraph.tools.pause import build_payload
from turngraph.tools.plan import Plan


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
            plan = await work.run()
    except TimeoutError:
        work.give_up(("cancelled", texts.not_run("max_seconds")))
        await fit_window(visit, work)
        return settle(visit, work)
    except asyncio.CancelledError:
        work.give_up(("cancelled", texts.CANCELLED))
        return settle(visit, work, cancelled=True)
    if not plan.empty:
        return _paused(visit, work, plan)
    await fit_window(visit, work)
    return settle(visit, work)


def _paused(visit: Visit, work: BatchWork, plan: Plan) -> Update:
    """The batch waits: what finished is kept with it, and the people who watch are told what is asked."""
    waiting = [wait.call["id"] for wait in plan.waiting] + [own.call["id"] for own in plan.own]
    fresh = [call_id for call_id in waiting if call_id not in work.asked]
    if fresh:
        payload = build_payload(visit.turn_id, plan.waiting)
        requests: list[object] = [each for each in payload["turngraph"]["requests"] if each["call_id"] in fresh]
        requests += [{"call_id": c, "kind": "tool", "payload": work.own[c]["payload"]} for c in fresh if c in work.own]
        visit.emit(visit.shown)("interaction_requested", requests=requests)
    batch: Batch = {
        "message_id": work.message.id or "",
        "outcomes": work.outcomes,
        "decisions": work.decisions,
        "waiting": waiting,
        "asked": [*work.asked, *fresh],
        "unknown": work.unknown,
        "own": work.own,
        "error": None,
    }
    asked = visit.progress["interactions"] + len(fresh)
    return {
        "batch": batch,
        "progress": {**counted(visit, work), "interactions": asked, "next": "interrupt"},
        "grants": work.grants(),
    }
