"""Closing calls: tool messages in call order, and what of a turn was gathered. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from turngraph.state.calls import CallOutcome, Marks
from turngraph.state.words import ToolStatus


def marks_of(message: BaseMessage) -> Marks:
    """turngraph's marks of a message; empty for a message that others wrote."""
    marks: Marks = message.additional_kwargs.get("turngraph", {})
    return marks


def of_turn(messages: Iterable[BaseMessage], turn_id: str) -> list[BaseMessage]:
    """The messages that turngraph wrote in a turn, in tape order."""
    return [message for message in messages if marks_of(message).get("turn_id") == turn_id]


def open_message(messages: Sequence[BaseMessage], turn_id: str) -> AIMessage | None:
    """The newest assistant message of the turn that has calls without a result."""
    mine = of_turn(messages, turn_id)
    answered = {message.tool_call_id for message in mine if isinstance(message, ToolMessage)}
    for message in reversed(mine):
        if isinstance(message, AIMessage) and message.tool_calls:
            return message if any(call["id"] not in answered for call in message.tool_calls) else None
    return None


def outcome(call: Mapping[str, Any], status: ToolStatus, text: str) -> CallOutcome:
    """The outcome of a call that did not run."""
    return {"call_id": call["id"], "name": call["name"], "status": status, "content": text, "seconds": 0.0}


def tool_message(result: CallOutcome, turn_id: str, round_number: int, role: str = "tool") -> ToolMessage:
    """The one tool message of a call. Its id follows from turn and call, so writing it twice changes nothing."""
    marks: Marks = {"turn_id": turn_id, "round": round_number, "role": role, "status": result["status"]}
    return ToolMessage(
        content=result["content"],
        tool_call_id=result["call_id"],
        name=result["name"],
        status="success" if result["status"] == "ok" else "error",
        artifact=result.get("artifact"),
        id=str(uuid5(NAMESPACE_OID, f"{turn_id}:{result['call_id']}")),
        additional_kwargs={"turngraph": marks},
    )


def close_calls(
    messages: Sequence[BaseMessage],
    turn_id: str,
    outcomes: Mapping[str, CallOutcome],
    otherwise: tuple[ToolStatus, str],
) -> list[ToolMessage]:
    """A tool message for each call of the turn that has none: its outcome where there is one, else `otherwise`.

    Law: after it every call of the turn has exactly one result, and those of one message stand in call order.
    """
    mine = of_turn(messages, turn_id)
    answered = {message.tool_call_id for message in mine if isinstance(message, ToolMessage)}
    closed: list[ToolMessage] = []
    for message in mine:
        if not isinstance(message, AIMessage):
            continue
        for call in message.tool_calls:
            if call["id"] not in answered:
                result = outcomes.get(call["id"] or "") or outcome(call, *otherwise)
                closed.append(tool_message(result, turn_id, marks_of(message).get("round", 0)))
    return closed


def gathered(messages: Sequence[BaseMessage], turn_id: str) -> list[tuple[str, str]]:
    """Name and text of each tool result of the turn that succeeded, in order."""
    return [
        (message.name or "tool", message.text)
        for message in of_turn(messages, turn_id)
        if isinstance(message, ToolMessage) and marks_of(message).get("status") == "ok"
    ]


def finishing_text(messages: Sequence[BaseMessage], turn_id: str) -> str:
    """The texts of the turn's finishing rounds joined without a separator: what the user read as the answer."""
    return "".join(
        message.text
        for message in of_turn(messages, turn_id)
        if isinstance(message, AIMessage) and marks_of(message).get("role") in ("part", "finish")
    )
