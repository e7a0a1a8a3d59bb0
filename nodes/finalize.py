"""`finalize`: the answer and the receipt. Leaves no answer empty and no call unanswered."""

from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AIMessage, AnyMessage

from turngraph.nodes import texts
from turngraph.nodes.closing import close_calls, finishing_text, gathered, marks_of, of_turn, open_message
from turngraph.nodes.dropped import leave_cancelled, leave_place
from turngraph.nodes.earlier import journal_outcomes
from turngraph.nodes.parts import Visit
from turngraph.nodes.place import Place
from turngraph.nodes.queued import forget_held, release_untold, taken_here
from turngraph.nodes.receipts import make_receipt, status_of
from turngraph.state.channels import Progress, TurnState, Update
from turngraph.state.receipt import TurnReceipt
from turngraph.state.words import StopReason, ToolStatus

_CLOSING: dict[StopReason, tuple[ToolStatus, str]] = {
    "user_abandoned": ("cancelled", texts.ABANDONED),
    "cancelled": ("cancelled", texts.CANCELLED),
}


async def finalize(state: TurnState, visit: Visit) -> Update:
    """Ends the turn: closes open calls, settles the answer, writes the receipt, says `turn_finished` last."""
    progress, tape = visit.progress, state["messages"]
    reason: StopReason = progress.get("reason", "max_rounds")
    closing = _CLOSING.get(reason, ("cancelled", texts.not_run(reason)))
    outcomes = (state.get("batch") or {}).get("outcomes", {})
    if reason == "cancelled" and open_message(tape, visit.turn_id) is not None:
        outcomes = {**await journal_outcomes(visit, visit.turn_id, tape), **outcomes}
    closed = close_calls(tape, visit.turn_id, outcomes, closing)
    answer, spoken = _answer(tape, progress, reason)
    added: list[AnyMessage] = [*closed]
    number = visit.shown
    if not spoken:
        number += 1
        emit = visit.emit(number)
        emit("round_started")
        emit("content", text=answer)
        emit("round_finished", call_role="finish", finish_reason=reason, usage={})
        added.append(_answer_message(visit, answer, number))
    elif closed or not _ends_with_answer(tape, visit.turn_id):
        added.append(_answer_message(visit, answer, number))
    update = _structured(state, visit, answer)
    await forget_held(visit, state)
    receipt = make_receipt(visit.progress, reason, status_of(reason), visit.seconds())
    await visit.journal.update_turn(visit.thread, visit.turn_id, {"finished": True})
    journal, where = visit.journal, (visit.thread, visit.turn_id)
    visit.scope.when_saved.append(lambda: journal.update_turn(*where, {"saved": True}))
    if (place := visit.place) is not None:
        await _leave(state, visit, place, added, receipt)
    visit.emit(number)("turn_finished", receipt=receipt)
    return {
        **update,
        "messages": added,
        "answer": answer,
        "receipt": receipt,
        "receipts": [receipt],
        "progress": {"turn_id": visit.turn_id, "phase": "closed"},
        "batch": None,
    }


async def _leave(
    state: TurnState, visit: Visit, place: Place, added: list[AnyMessage], receipt: TurnReceipt
) -> None:
    """A turn inside another graph: its messages are that one's now, or lost with it if the run was cancelled."""
    if receipt["status"] != "cancelled":
        await release_untold(visit, place, state)
        await leave_place(visit, place)
        return
    taken = await taken_here(visit, place)
    mine = {message.id for message in of_turn(state["messages"], visit.turn_id)}
    await leave_cancelled(visit, place, [*(m for m in state["messages"] if m.id in mine | taken), *added], receipt)


def _answer(tape: list[AnyMessage], progress: Progress, reason: StopReason) -> tuple[str, bool]:
    """The answer, and whether rounds already streamed it.

    What the user read as the answer stays the answer; else a text that no round produced; else the fallback.
    """
    turn_id = progress["turn_id"]
    final = progress.get("final", {"kind": "text"})
    streamed = finishing_text(tape, turn_id)
    if streamed and reason != "terminated":
        return streamed, True
    return final.get("text") or texts.fallback(reason, gathered(tape, turn_id)), False


def _structured(state: TurnState, visit: Visit, answer: str) -> Update:
    """The value of an answer that no round produced, where one was asked for; the reason where it has none."""
    fmt = visit.parts.response_format
    if fmt is None or state.get("structured") is not None or "structured_error" in visit.progress:
        return {}
    value, error = fmt.read(answer)
    if error is not None:
        visit.progress = {**visit.progress, "structured_error": error}
    return {"structured": value}


def _ends_with_answer(tape: list[AnyMessage], turn_id: str) -> bool:
    """Whether the turn's last message on the tape is a finishing one."""
    mine = of_turn(tape, turn_id)
    return bool(mine) and marks_of(mine[-1]).get("role") in ("part", "finish")


def _answer_message(visit: Visit, answer: str, number: int) -> AIMessage:
    """The one message that ends the turn with the answer; its id follows from the turn."""
    marks: dict[str, Any] = {"turn_id": visit.turn_id, "round": number, "role": "finish"}
    return AIMessage(
        content=answer,
        id=str(uuid5(NAMESPACE_OID, f"{visit.turn_id}:answer")),
        additional_kwargs={"turngraph": marks},
    )
