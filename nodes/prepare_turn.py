"""`prepare_turn`: closes what an earlier turn left open, opens this turn's record, resolves what it works with."""

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.runtime import get_runtime

from turngraph.context.tokens import warm_up
from turngraph.nodes import texts
from turngraph.nodes.closing import close_calls, marks_of
from turngraph.nodes.parts import TurnParts, Visit, settings_of_run
from turngraph.nodes.progress import whole
from turngraph.nodes.queued import take_queued
from turngraph.nodes.receipts import late_receipt
from turngraph.state.anchors import TurnAnchor
from turngraph.state.calls import CallOutcome
from turngraph.state.channels import Progress, TurnState, Update
from turngraph.state.errors import InputError
from turngraph.state.receipt import TurnReceipt
from turngraph.state.settings import TurnSettings
from turngraph.state.words import STATE_VERSION, ToolStatus
from turngraph.tools.claims import Settled, Started
from turngraph.tools.texts import UNKNOWN_OUTCOME

SEED_SECONDS = 10.0
SEED_CHARACTERS = 8_000


async def prepare_turn(state: TurnState, visit: Visit) -> Update:
    """Opens a turn. Entered at a new user message only: a resumed or continued run goes on where it stopped.

    Raises InputError when there is nothing to answer.
    """
    await warm_up()
    closed, late = await _close_earlier(state, visit)
    queued = await take_queued(visit, state)
    tape = [*state.get("messages", []), *closed, *queued]
    first, last = turn_input(tape, visit.anchor)
    settings = settings_of_run(get_runtime().context)
    turn_id = _turn_id(visit, last, len(state.get("anchors", [])))
    visit.settings, visit.progress = settings, fresh_progress(turn_id, settings)
    _, name = await visit.model()
    emit = visit.emit(0)
    emit("turn_started", model=name, thread_id=visit.thread)
    if name == "offline" and settings.model is None:
        emit("notice", code="offline_model", text="No model is configured: the built-in offline model answers.")
    anchor: TurnAnchor = {
        "id": f"turn-{turn_id}",
        "kind": "turn",
        "version": STATE_VERSION,
        "turn_id": turn_id,
        "first_message_id": first.id or "",
        "last_message_id": last.id or "",
        "seed": await seeds(visit.parts, first.text),
        "settings": settings.stored(),
        "model": name,
    }
    await visit.journal.open_turn(visit.thread, turn_id, {"turn_id": turn_id, "model": name})
    progress: Progress = {**visit.progress, "models": [name], "seconds": visit.seconds()}
    return {
        "messages": [*closed, *queued],
        "anchors": [anchor],
        "receipts": late,
        "progress": progress,
        "batch": None,
        "answer": "",
        "receipt": {},
        "structured": None,
    }


def _turn_id(visit: Visit, last: BaseMessage, anchors: int) -> str:
    """The id of the turn that answers this message now; the same where a crash makes this node run again."""
    return uuid5(NAMESPACE_OID, f"{visit.thread or uuid4().hex}:{last.id}:{anchors}").hex[:20]


def fresh_progress(turn_id: str, settings: TurnSettings) -> Progress:
    """The progress of a turn that starts."""
    return whole({"turn_id": turn_id, "skills": list(settings.active_skills)})


def turn_input(tape: Sequence[BaseMessage], anchor: TurnAnchor | None) -> tuple[BaseMessage, BaseMessage]:
    """The first and the last message of a new turn's input.

    The input is what others wrote after everything that the last turn knew; of a history that was sent along, the
    messages after its last assistant or tool message. A last turn that was never answered is answered again.
    Raises InputError when there is no user message to answer.
    """
    fresh = _unclaimed(tape, anchor)
    tail = _tail(fresh) or ([] if _answered(tape, anchor) else _tail(_unclaimed(tape, None)))
    if not any(isinstance(message, HumanMessage) for message in tail):
        raise InputError('There is nothing to answer. Send a user message: {"messages": [("user", "...")]}.')
    return tail[0], tail[-1]


def _unclaimed(tape: Sequence[BaseMessage], anchor: TurnAnchor | None) -> list[BaseMessage]:
    """What others wrote after the last message that the turn of `anchor` knew; without one, after any turn's last."""
    start, known = 0, anchor or {}
    for at, message in enumerate(tape):
        turn_id = marks_of(message).get("turn_id")
        mine = turn_id is not None and (anchor is None or turn_id == anchor["turn_id"])
        late = mine and isinstance(message, ToolMessage)
        if message.id == known.get("last_message_id") or (mine and not late):
            start = at + 1
    return [message for message in tape[start:] if not marks_of(message)]


def _tail(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages after the last assistant or tool message."""
    tail: list[BaseMessage] = []
    for message in reversed(messages):
        if isinstance(message, AIMessage | ToolMessage):
            break
        tail.append(message)
    return tail[::-1]


def _answered(tape: Sequence[BaseMessage], anchor: TurnAnchor | None) -> bool:
    """Whether the last turn wrote anything on the tape."""
    return anchor is not None and any(marks_of(message).get("turn_id") == anchor["turn_id"] for message in tape)


async def seeds(parts: TurnParts, question: str) -> str:
    """The knowledge blocks of the capabilities, fetched in parallel and capped; a failing one is left out."""

    async def one(name: str, seed: Any) -> str:
        try:
            async with asyncio.timeout(SEED_SECONDS):
                text = await seed(question)
        except Exception:  # noqa: BLE001 - a seed is a convenience; its failure never fails the turn
            return ""
        return f"[{name}]\n{text[:SEED_CHARACTERS]}" if text else ""

    found = [one(capability.name, capability.seed) for capability in parts.capabilities if capability.seed is not None]
    return "\n\n".join(block for block in await asyncio.gather(*found) if block)


async def _close_earlier(state: TurnState, visit: Visit) -> tuple[list[ToolMessage], list[TurnReceipt]]:
    """Tool messages for the calls, and the receipt, of an earlier turn that never reached `finalize`."""
    progress = visit.progress
    records = {record["turn_id"]: record for record in await visit.journal.open_turns(visit.thread)}
    known = {receipt["turn_id"] for receipt in state.get("receipts", [])}
    late: list[TurnReceipt] = []
    closed: list[ToolMessage] = []
    if progress.get("phase") == "running":
        turn_id = progress["turn_id"]
        batch = state.get("batch") or {}
        settled = await journal_outcomes(visit, turn_id)
        paused = bool(batch.get("waiting")) or bool(batch.get("own"))
        otherwise: tuple[ToolStatus, str] = ("cancelled", texts.NOT_ANSWERED if paused else texts.BROKE_OFF)
        closed = close_calls(state.get("messages", []), turn_id, {**settled, **batch.get("outcomes", {})}, otherwise)
        late.append(late_receipt(progress, records.get(turn_id), paused=paused))
        known.add(turn_id)
    for turn_id, record in records.items():
        if turn_id not in known:
            late.append(late_receipt(_only_recorded(record), record, paused=False))
        await visit.journal.close_turn(visit.thread, turn_id)
    return closed, late


def _only_recorded(record: dict[str, Any]) -> Progress:
    """The progress of a turn of which only the journal knows."""
    return whole({"turn_id": record["turn_id"], "models": [record.get("model", "")]})


async def journal_outcomes(visit: Visit, turn_id: str) -> dict[str, CallOutcome]:
    """What the journal knows of a turn's calls: results of settled ones, "outcome unknown" for those only started."""
    known: dict[str, CallOutcome] = {}
    for call_id, claim in (await visit.journal.lookup(visit.thread, turn_id)).items():
        if isinstance(claim, Settled):
            known[call_id] = claim.outcome
        elif isinstance(claim, Started):
            known[call_id] = {
                "call_id": call_id,
                "name": claim.name,
                "status": "unknown",
                "content": UNKNOWN_OUTCOME,
                "seconds": 0.0,
            }
    return known
