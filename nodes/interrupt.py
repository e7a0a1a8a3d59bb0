"""`interrupt`: one LangGraph `interrupt()` per visit for all calls that wait for a person. No side effect around it."""

from typing import Any, cast

from langgraph.types import interrupt

from turngraph.nodes.closing import open_message
from turngraph.nodes.belt import belt_of
from turngraph.nodes.parts import Visit
from turngraph.nodes.work import BatchWork
from turngraph.nodes import texts
from turngraph.state.channels import Batch, Progress, TurnState, Update
from turngraph.state.decisions import PausePayload
from turngraph.state.errors import ResumeError
from turngraph.tools.answers import normalise_resume
from turngraph.tools.pause import build_payload, question_text


async def interrupt_node(state: TurnState, visit: Visit) -> Update:
    """Pauses, then records the answers. An answer that cannot be applied changes nothing: it pauses again and says why."""
    batch = cast(Batch, state.get("batch") or {})
    message = open_message(state["messages"], visit.turn_id)
    if message is None or not batch.get("waiting"):
        return {"progress": {**visit.progress, "next": "fold"}, "batch": None}
    for call_id, pause in batch.get("own", {}).items():
        if call_id in batch["waiting"]:
            return _own(visit, batch, call_id, interrupt(pause["payload"]))
    work = BatchWork(state, visit, message, belt_of(visit, state))
    payload = build_payload(visit.turn_id, work.requests(), batch.get("error"))
    answer = interrupt(payload)
    try:
        decisions = normalise_resume(answer, payload)
    except ResumeError as refused:
        again = {**visit.progress, "next": "interrupt"}
        return {"batch": {**batch, "error": str(refused)}, "progress": again}
    return _decided(visit, batch, payload, decisions)


def _own(visit: Visit, batch: Batch, call_id: str, value: Any) -> Update:
    """The answer to a tool's own `interrupt()`, handed to it raw when it runs again."""
    own = dict(batch.get("own", {}))
    own[call_id] = {**own[call_id], "resumes": [*own[call_id]["resumes"], value]}
    waiting = [waits for waits in batch["waiting"] if waits != call_id]
    visit.emit(visit.progress["rounds"])("interaction_resolved", call_ids=[call_id])
    return {"batch": {**batch, "own": own, "waiting": waiting}, "progress": {**visit.progress, "next": "dispatch"}}


def _decided(visit: Visit, batch: Batch, payload: PausePayload, decisions: dict[str, Any]) -> Update:
    """What the given decisions lead to: run now, close the batch, ask for the rest, or end the turn."""
    visit.emit(visit.progress["rounds"])("interaction_resolved", call_ids=list(decisions))
    progress = cast(Progress, dict(visit.progress))
    if any(decision["type"] == "abandon" for decision in decisions.values()):
        progress["next"] = "final"
        progress["reason"] = "user_abandoned"
        progress["final"] = {"kind": "text", "text": question_text(payload) or texts.ABANDONED}
        return {"batch": {**batch, "waiting": []}, "progress": progress}
    waiting = [call_id for call_id in batch["waiting"] if call_id not in decisions]
    kept: Batch = {**batch, "decisions": {**batch.get("decisions", {}), **decisions}, "waiting": waiting, "error": None}
    progress["next"] = "dispatch"
    return {"batch": kept, "progress": progress}
