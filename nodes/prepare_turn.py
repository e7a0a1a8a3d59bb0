"""`prepare_turn`: closes what an earlier turn left open, opens this turn's record, resolves what it works with."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.runtime import get_runtime

from turngraph.context.tokens import warm_up
from turngraph.llm.loading import ModelLoadError
from turngraph.nodes.closing import marks_of
from turngraph.nodes.dropped import Dropped, enter_place, find_dropped
from turngraph.nodes.earlier import close_earlier
from turngraph.nodes.parts import TurnParts, Visit, settings_of_run
from turngraph.nodes.progress import whole
from turngraph.nodes.queued import remove_when_saved, take_queued
from turngraph.state.anchors import TurnAnchor
from turngraph.state.channels import Progress, TurnState, Update
from turngraph.state.errors import InputError
from turngraph.state.receipt import ErrorInfo
from turngraph.state.settings import TurnSettings
from turngraph.state.words import STATE_VERSION
from turngraph.tools.redact import describe_error

SEED_SECONDS = 10.0
SEED_CHARACTERS = 8_000


async def prepare_turn(state: TurnState, visit: Visit) -> Update:
    """Opens a turn. Entered at a new user message only: a resumed or continued run goes on where it stopped.

    Raises InputError when there is nothing to answer, and ModelLoadError.
    """
    await warm_up()
    dropped = await _dropped_before(visit, state)
    queued = await take_queued(visit, state, saved=True, restored=dropped.messages, dead=dropped.dead)
    tape = [*state.get("messages", []), *queued]
    first, last = turn_input(tape, visit.anchor or dropped.known, inside=visit.inside)
    records = {record["turn_id"]: record for record in await visit.journal.open_turns(visit.thread)}
    turn_id = await _turn_id(visit, last, len(state.get("anchors", [])), records)
    mine = records.pop(turn_id, None)
    others = {key: record for key, record in records.items() if not _ended_on(record, first)}
    earlier = await close_earlier(state, visit, others)
    settings = settings_of_run(get_runtime().context)
    visit.settings, visit.progress = settings, fresh_progress(turn_id, settings)
    anchor = await _open_turn(visit, mine, first, last)
    name = anchor["model"]
    _announce(visit, name)
    anchor["seed"] = await seeds(visit.parts, first.text)
    progress: Progress = {**visit.progress, "models": [name], "seconds": visit.seconds()}
    remove_when_saved(visit, queued)
    return {
        "messages": [*dropped.messages, *earlier.messages, *queued],
        "anchors": [*dropped.anchors, *earlier.anchors, anchor],
        "receipts": [*dropped.receipts, *earlier.receipts],
        "progress": progress,
        "batch": None,
        "answer": "",
        "receipt": {},
        "structured": None,
    }


async def _dropped_before(visit: Visit, state: TurnState) -> Dropped:
    """What the graph around this turn dropped of earlier ones; says there that this one begins."""
    if (place := visit.place) is None:
        return Dropped()
    dropped = await find_dropped(visit, place, state)
    await enter_place(visit, place, state.get("messages", []))
    return dropped


async def _open_turn(visit: Visit, mine: dict[str, Any] | None, first: BaseMessage, last: BaseMessage) -> TurnAnchor:
    """The turn's anchor, and its record in the journal. `mine` is the record that it had before a crash or a failure.

    Raises ModelLoadError; the record then says so, for the receipt that the next turn writes.
    """
    anchor: TurnAnchor = {
        "id": f"turn-{visit.turn_id}",
        "kind": "turn",
        "version": STATE_VERSION,
        "turn_id": visit.turn_id,
        "first_message_id": first.id or "",
        "last_message_id": last.id or "",
        "seed": "",
        "settings": visit.settings.stored(),
        "model": "",
    }
    record = {key: value for key, value in (mine or {}).items() if key not in ("error", "reason")}
    try:
        _, anchor["model"] = await visit.model()
    except ModelLoadError as error:
        info: ErrorInfo = {"type": type(error).__name__, "message": describe_error(error), "retryable": False}
        failed = {**record, "anchor": {**anchor}, "error": info, "reason": "provider_error"}
        await visit.journal.open_turn(visit.thread, visit.turn_id, failed)
        raise
    record |= {"model": anchor["model"], "anchor": {**anchor}}
    await visit.journal.open_turn(visit.thread, visit.turn_id, record)
    visit.scope.continued = mine is not None
    return anchor


def _announce(visit: Visit, model: str) -> None:
    """Says that the turn has started, and what of its settings will have no effect."""
    emit = visit.emit(0)
    emit("turn_started", model=model, thread_id=visit.thread)
    if model == "offline" and visit.settings.model is None:
        emit("notice", code="offline_model", text="No model is configured: the built-in offline model answers.")
    for field, names in visit.parts.unknown_names(visit.settings).items():
        emit("notice", code="unknown_name", text=f"{field} names what this graph does not have: {', '.join(names)}.")


async def _turn_id(visit: Visit, last: BaseMessage, anchors: int, records: Mapping[str, Mapping[str, Any]]) -> str:
    """The id of the turn that answers this message now; the same where a crash makes this node run again.

    Another one for a message that was edited, and where the turn had reached its end and is begun anew from an
    earlier checkpoint: what that one did is not this one's.
    """
    seed = f"{visit.thread or uuid4().hex}:{last.id}:{anchors}:{last.content!r}"
    turn_id = uuid5(NAMESPACE_OID, seed).hex[:20]
    while await _is_over(visit, turn_id, records):
        turn_id = uuid5(NAMESPACE_OID, f"{turn_id}:again").hex[:20]
    return turn_id


async def _is_over(visit: Visit, turn_id: str, records: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a turn of this id reached its end, or was closed and has left claims. `records`: of the open turns."""
    if (record := records.get(turn_id)) is not None:
        return bool(record.get("saved"))
    return bool(await visit.journal.lookup(visit.thread, turn_id))


def _ended_on(record: Mapping[str, Any], first: BaseMessage) -> bool:
    """Whether this is the record of a turn that answered the same message, and whose end is saved."""
    return bool(record.get("saved")) and record.get("anchor", {}).get("first_message_id") == first.id


def fresh_progress(turn_id: str, settings: TurnSettings) -> Progress:
    """The progress of a turn that starts."""
    return whole({"turn_id": turn_id, "skills": list(settings.active_skills)})


def turn_input(
    tape: Sequence[BaseMessage], anchor: TurnAnchor | None, *, inside: bool = False
) -> tuple[BaseMessage, BaseMessage]:
    """The first and the last message of a new turn's input.

    The input is what others wrote after everything that the last turn knew; of a history that was sent along, the
    messages after its last assistant or tool message. A last turn that was never answered is answered again.
    `inside` another graph, which sends a turn wherever it likes (after a router's words, another agent or another
    turn), there is always the newest user message to go on with; all that follows it is the input.
    Raises InputError when there is no user message to answer.
    """
    fresh = _unclaimed(tape, anchor)
    tail = _tail(fresh) or ([] if _answered(tape, anchor) else _tail(_unclaimed(tape, None)))
    if inside and not any(isinstance(message, HumanMessage) for message in tail):
        asked = max((at for at, message in enumerate(tape) if isinstance(message, HumanMessage)), default=len(tape))
        tail = list(tape[asked:])
    if not any(isinstance(message, HumanMessage) for message in tail):
        raise InputError('There is nothing to answer. Send a user message: {"messages": [("user", "...")]}.')
    return tail[0], tail[-1]


def _unclaimed(tape: Sequence[BaseMessage], anchor: TurnAnchor | None) -> list[BaseMessage]:
    """What others wrote after the last message that the turn of `anchor` knew; without one, after any turn's last."""
    start, known = 0, anchor or {}
    for at, message in enumerate(tape):
        turn_id = marks_of(message).get("turn_id")
        mine = turn_id is not None and (anchor is None or turn_id == anchor["turn_id"])
        late = mine and (isinstance(message, ToolMessage) or "question" in marks_of(message))
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
