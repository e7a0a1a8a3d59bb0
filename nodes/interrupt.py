"""`interrupt`: one LangGraph `interrupt()` per visit for all calls that wait for a person. No side effect around it."""

from typing import Any, cast

from langgraph.types import Interrupt, interrupt

from turngraph.nodes import texts
from turngraph.nodes.asked import VOID, void_answer, was_shown
from turngraph.nodes.belt import belt_of
from turngraph.nodes.closing import open_message
from turngraph.nodes.parts import Visit
from turngraph.nodes.settling import fit_window, settle
from turngraph.nodes.work import BatchWork
from turngraph.state.channels import Batch, Progress, TurnState, Update
from turngraph.state.decisions import Decision, PausePayload
from turngraph.state.errors import ResumeError
from turngraph.tools.answers import normalise_resume
from turngraph.tools.pause import build_payload, question_text
from turngraph.tools.run import Interrupted


async def interrupt_node(state: TurnState, visit: Visit) -> Update:
    """Pauses, then records the answers. One that cannot be applied changes nothing: it pauses again and says why.

    Inside another graph an answer is taken only for the question that was shown (`was_shown`).
    """
    batch: Batch = state.get("batch") or {}
    message = open_message(state["messages"], visit.turn_id)
    if message is None or not batch.get("waiting"):
        return {"progress": {**visit.progress, "next": "fold"}, "batch": None}
    for call_id in batch["waiting"]:
        if call_id in batch.get("own", {}):
            asked = batch["own"][call_id]["payload"]
            value = interrupt(asked)
            if value == VOID or not await was_shown(visit, asked):
                return await _unseen(visit, batch, value)
            return _own(visit, batch, call_id, value)
    work = BatchWork(state, visit, message, belt_of(visit, state))
    payload = build_payload(visit.turn_id, work.plan().waiting, batch.get("error"))
    answer = interrupt(payload)
    if answer == VOID or not await was_shown(visit, payload):
        return await _unseen(visit, batch, answer)
    try:
        decisions = normalise_resume(answer, payload, list(work.belt.known))
    except ResumeError as refused:
        return _again(visit, batch, str(refused))
    visit.emit(visit.shown)("interaction_resolved", call_ids=list(decisions))
    return await _decided(visit, batch, work, payload, decisions)


def _again(visit: Visit, batch: Batch, error: str) -> Update:
    """The answer is not taken: the same question again, with the reason where it can hold one."""
    return {"batch": {**batch, "error": error}, "progress": {**visit.progress, "next": "interrupt"}}


async def _unseen(visit: Visit, batch: Batch, answer: Any) -> Update:
    """The answer was meant for something else: it answers nothing, now and when the run is continued."""
    if answer != VOID:
        await void_answer(visit)
    return _again(visit, batch, texts.ANSWERED_UNSEEN)


def _own(visit: Visit, batch: Batch, call_id: str, value: Any) -> Update:
    """The answer to a tool's own `interrupt()`, handed to it raw when it runs again."""
    pause = batch["own"][call_id]
    asked = Interrupted(pause["payload"], interrupts=tuple(Interrupt(value=None, id=each) for each in pause["ids"]))
    answered = {**pause, "resumes": [*pause["resumes"], asked.answer(value)], "answered": True}
    waiting = [waits for waits in batch["waiting"] if waits != call_id]
    visit.emit(visit.shown)("interaction_resolved", call_ids=[call_id])
    kept = {**batch, "own": {**batch["own"], call_id: answered}, "waiting": waiting}
    return {"batch": kept, "progress": {**visit.progress, "next": "dispatch"}}


async def _decided(
    visit: Visit, batch: Batch, work: BatchWork, payload: PausePayload, decisions: dict[str, Decision]
) -> Update:
    """What the decisions lead to: calls to run, a batch to close, the rest to ask for, or the end of the turn."""
    progress = cast(Progress, dict(visit.progress))
    if any(decision["type"] == "abandon" for decision in decisions.values()):
        text = question_text(payload) or texts.ABANDONED
        progress |= {"next": "final", "reason": "user_abandoned", "final": {"kind": "text", "text": text}}
        return {"batch": {**batch, "waiting": []}, "progress": progress}
    work.decisions |= decisions
    plan = work.plan()
    if not (plan.runs or plan.waiting or plan.own or plan.held):
        work.take(plan.answers)
        await fit_window(visit, work)
        return settle(visit, work)
    waiting = [call_id for call_id in batch["waiting"] if call_id not in decisions]
    kept = {**batch, "decisions": work.decisions, "waiting": waiting, "error": None}
    return {
        "batch": kept,
        "progress": {**progress, "next": "dispatch" if plan.runs else "interrupt"},
        "grants": work.grants(),
    }
