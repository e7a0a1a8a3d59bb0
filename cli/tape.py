"""A thread as text and as JSON: its tape, its receipts, what waits. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, message_to_dict
from langgraph.types import StateSnapshot

from turngraph.cli.render import Piece, receipt_lines
from turngraph.cli.text import call_text, one_line, visible

RESULT_CHARACTERS = 300
"""How much of a tool's result is shown, unless all of it is asked for."""


def tape_pieces(values: Mapping[str, Any], *, full: bool = False) -> list[Piece]:
    """The messages in tape order, each turn followed by its receipt."""
    pieces: list[Piece] = []
    messages: Sequence[BaseMessage] = values.get("messages", [])
    receipts = {receipt["turn_id"]: receipt for receipt in values.get("receipts", [])}
    last = {turn: at for at, message in enumerate(messages) if (turn := turn_of(message)) is not None}
    for at, message in enumerate(messages):
        pieces += message_pieces(message, full=full)
        turn = turn_of(message)
        if turn is not None and turn in receipts and last[turn] == at:
            pieces += _receipt(receipts.pop(turn))
    for receipt in receipts.values():  # turns that wrote nothing on the tape
        pieces += _receipt(receipt)
    return pieces


def turn_of(message: BaseMessage) -> str | None:
    """The turn that wrote a message; None for what others wrote."""
    turn: str | None = message.additional_kwargs.get("turngraph", {}).get("turn_id")
    return turn


def message_pieces(message: BaseMessage, *, full: bool = False) -> list[Piece]:
    """One message: who speaks, what is said, which calls it makes."""
    text = visible(message.text)
    match message:
        case ToolMessage():
            shown = text if full else one_line(text, RESULT_CHARACTERS)
            failed = message.status == "error"
            return [Piece(f"  {'✗' if failed else '✓'} {message.name}: {shown}\n", "bad" if failed else "tool")]
        case AIMessage():
            pieces = [Piece(f"{text}\n", "content")] if text else []
            calls = [Piece(f"  → {call_text(call['name'], call['args'])}\n", "tool") for call in message.tool_calls]
            cut = message.additional_kwargs.get("turngraph", {}).get("cut")
            return [*pieces, *calls, *([Piece(f"  · cut off: {cut}\n", "notice")] if cut else [])]
        case _:
            return [Piece(f"{message.type}> {text}\n", "head")]


def _receipt(receipt: Mapping[str, Any]) -> list[Piece]:
    return [*(Piece(f"{text}\n", style) for text, style in receipt_lines(receipt)), Piece("\n", "notice")]


def tape_json(thread: str, snapshot: StateSnapshot) -> dict[str, Any]:
    """The same as plain JSON: messages, receipts, what is pending."""
    return {
        "thread_id": thread,
        "messages": [message_to_dict(message) for message in snapshot.values.get("messages", [])],
        "receipts": snapshot.values.get("receipts", []),
        "pending": pending_of(snapshot),
        "next": list(snapshot.next),
    }


def pending_of(snapshot: StateSnapshot) -> list[Any]:
    """What the thread's pauses ask."""
    return [interrupt.value for task in snapshot.tasks for interrupt in task.interrupts]


def summary(thread: str, snapshot: StateSnapshot) -> dict[str, Any]:
    """One thread in a list: id, time of its last step, number of turns, how it stands, its first question."""
    messages: Sequence[BaseMessage] = snapshot.values.get("messages", [])
    receipts = snapshot.values.get("receipts", [])
    first = next((message.text for message in messages if message.type == "human"), "")
    if pending_of(snapshot):
        status = "paused"
    elif snapshot.next:
        status = "unfinished"
    else:
        status = receipts[-1]["status"] if receipts else "empty"
    turns = len(receipts) + bool(snapshot.next)
    return {"thread_id": thread, "updated": snapshot.created_at, "turns": turns, "status": status, "question": first}
