"""Closing what earlier turns left open: results of their calls, a batch that no checkpoint holds, their receipts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, messages_from_dict

from turngraph.nodes import texts
from turngraph.nodes.closing import close_calls, of_turn
from turngraph.nodes.parts import Visit
from turngraph.nodes.progress import whole
from turngraph.nodes.receipts import late_receipt
from turngraph.state.anchors import TurnAnchor
from turngraph.state.calls import CallOutcome
from turngraph.state.channels import Progress, TurnState
from turngraph.state.receipt import TurnReceipt
from turngraph.state.words import ToolStatus
from turngraph.tools.claims import Fresh, Settled, Started, call_id_of, is_claim_of
from turngraph.tools.plan import claim_digest
from turngraph.tools.texts import UNKNOWN_OUTCOME


@dataclass
class Earlier:
    """What is to be written for turns that never reached `finalize`."""

    messages: list[AnyMessage] = field(default_factory=list)
    anchors: list[TurnAnchor] = field(default_factory=list)
    receipts: list[TurnReceipt] = field(default_factory=list)


async def close_earlier(state: TurnState, visit: Visit, records: Mapping[str, dict[str, Any]]) -> Earlier:
    """Closes every earlier turn that has no receipt. `records`: what the journal holds of open turns.

    A record is given up only once a saved checkpoint holds the turn's receipt: this node may die, too, before what
    it writes is saved, and does the same again then.
    """
    earlier = Earlier()
    saved = {receipt["turn_id"] for receipt in state.get("receipts", [])}
    ended = {turn_id for turn_id, record in records.items() if turn_id in saved or record.get("saved")}
    for turn_id in ended:  # a saved end that this tape does not hold lies on another branch of the thread
        await visit.journal.close_turn(visit.thread, turn_id)
    progress = visit.progress
    if progress.get("phase") == "running" and progress["turn_id"] not in saved:
        await _close(earlier, state, visit, progress, records.get(progress["turn_id"]))
    for turn_id, record in records.items():
        if turn_id not in ended and turn_id != progress.get("turn_id"):
            await _close(earlier, state, visit, _only_recorded(record), record)
    return earlier


async def _close(
    earlier: Earlier, state: TurnState, visit: Visit, progress: Progress, record: dict[str, Any] | None
) -> None:
    """One turn: its calls get what the journal knows of them, and it gets its receipt."""
    turn_id, tape = progress["turn_id"], state.get("messages", [])
    batch = (state.get("batch") or {}) if turn_id == visit.progress.get("turn_id") else {}
    known = await journal_outcomes(visit, turn_id, [*_recorded(record), *tape])
    unanswered = (call_id for call_id, pause in batch.get("own", {}).items() if not pause["answered"])
    asked = {*batch.get("waiting", []), *unanswered}
    paused = bool(asked) and not asked & set(known)
    if (lost := _lost(tape, record, known)) is not None:
        tape = [*tape, lost]
        earlier.messages.append(lost)
        if progress.get("phase") != "running" and record is not None:
            earlier.anchors.append(record["anchor"])
        progress = {**progress, "rounds": progress.get("rounds", 0) + 1}
    otherwise: tuple[ToolStatus, str] = ("cancelled", texts.NOT_ANSWERED if paused else texts.BROKE_OFF)
    closed = close_calls(tape, turn_id, {**known, **batch.get("outcomes", {})}, otherwise)
    earlier.messages.extend(closed)
    ran = sum(message.tool_call_id in known for message in closed)
    counted: Progress = {**progress, "tool_calls": progress.get("tool_calls", 0) + ran}
    earlier.receipts.append(late_receipt(counted, record, paused=paused))


def _lost(tape: list[AnyMessage], record: dict[str, Any] | None, known: Mapping[str, CallOutcome]) -> AIMessage | None:
    """The assistant message whose calls had begun and which no checkpoint holds, where its turn is on the tape."""
    if record is None or not (recorded := _recorded(record)):
        return None
    message = recorded[0]
    held = {each.id for each in tape}
    begun = any(call["id"] in known for call in message.tool_calls)
    asked = record.get("anchor", {}).get("first_message_id") in held
    return message if begun and asked and message.id not in held else None


def _recorded(record: dict[str, Any] | None) -> list[AIMessage]:
    """The assistant message whose calls a turn had begun when it last wrote its record; empty without one."""
    kept = (record or {}).get("batch")
    return [cast(AIMessage, messages_from_dict([kept])[0])] if kept else []


def _only_recorded(record: dict[str, Any]) -> Progress:
    """The progress of a turn of which only the journal knows."""
    return whole({"turn_id": record["turn_id"], "models": [record.get("model", "")]})


async def journal_outcomes(visit: Visit, turn_id: str, tape: Sequence[BaseMessage]) -> dict[str, CallOutcome]:
    """What the journal knows of a turn's calls: results of settled ones, "outcome unknown" for those only started.

    `tape` holds the calls: a claim under the id of one counts only if it was made for that very call.
    """
    called = {
        call["id"]: claim_digest({"id": call["id"] or "", "name": call["name"], "args": call["args"]}, None)
        for message in of_turn(tape, turn_id)
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    }
    known: dict[str, CallOutcome] = {}
    for key, claim in (await visit.journal.lookup(visit.thread, turn_id)).items():
        call_id = call_id_of(key)
        if isinstance(claim, Fresh) or not is_claim_of(claim, called.get(call_id, claim.digest)):
            continue
        if isinstance(claim, Settled):
            known[call_id] = {**claim.outcome, "call_id": call_id}
        elif isinstance(claim, Started):
            known[call_id] = {
                "call_id": call_id,
                "name": claim.name,
                "status": "unknown",
                "content": UNKNOWN_OUTCOME,
                "seconds": 0.0,
            }
    return known
