"""What reading a tape needs to know of each message, read from it once."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)

from turngraph.context.memo import Memo
from turngraph.state.calls import Marks

Kind: TypeAlias = Literal["system", "user", "assistant", "result", "other"]

_ROLES: dict[str, type[BaseMessage]] = {"system": SystemMessage, "developer": SystemMessage, "assistant": AIMessage}
_KINDS: dict[type[BaseMessage], Kind] = {
    AIMessage: "assistant",
    ToolMessage: "result",
    HumanMessage: "user",
    SystemMessage: "system",
}


@dataclass(slots=True)
class Facts:
    """One message: its kind, its marks, the ids of its calls, or of the call that it answers.

    `plain` is the message of that kind where the stored one is a chunk or names its role in words, else None.
    `content` and `kwargs` are the fields that were read. `shape` is the form in which it was sent last; `answering` the
    last copy that was made of a result to name it after its call, `folded` the last placeholder of a result.
    """

    kind: Kind
    turn_id: str
    role: str
    call_ids: tuple[str, ...]
    answers: str
    is_answer: bool
    plain: BaseMessage | None
    content: Any
    kwargs: dict[str, Any]
    shape: "Shape | None" = None
    answering: ToolMessage | None = None
    folded: "Shape | None" = None


@dataclass(slots=True)
class Shape:
    """A message as it is sent under a profile: a copy, or itself where `same`; neither where nothing of it is left.

    `key` is what of the profile decided it, `tokens` its count.
    """

    key: Any
    copy: BaseMessage | None
    same: bool
    tokens: int


_facts: Memo[Facts] = Memo()


def marks_of(message: BaseMessage) -> Marks:
    """turngraph's marks of a message; empty for a message that others wrote."""
    marks = message.additional_kwargs.get("turngraph")
    return marks if isinstance(marks, dict) else {}  # type: ignore[return-value]


def facts_of(message: BaseMessage) -> Facts:
    """The facts of a message; read again where one of its fields was set to something else."""
    known = _facts.get(message)
    if known is not None and known.content is message.content and known.kwargs is message.additional_kwargs:
        return known
    return _facts.put(message, _read(message))


def _read(message: BaseMessage) -> Facts:
    exact = _KINDS.get(type(message))
    plain = message if exact is not None else _plain(message)
    kind = _kind_of(plain) if exact is None else exact
    marks = marks_of(plain)
    role: str = marks.get("role", "")
    call_ids: tuple[str, ...] = ()
    answers, is_answer = "", False
    if kind == "assistant" and plain.tool_calls:  # type: ignore[attr-defined]
        call_ids = tuple(call["id"] or "" for call in plain.tool_calls)  # type: ignore[attr-defined]
    elif kind == "result":
        answers = plain.tool_call_id  # type: ignore[attr-defined]
        is_answer = plain.name == "ask_user" or role == "answer"
    return Facts(
        kind,
        marks.get("turn_id", ""),
        role,
        call_ids,
        answers,
        is_answer,
        None if plain is message else plain,
        message.content,
        message.additional_kwargs,
    )


def _kind_of(message: BaseMessage) -> Kind:
    return next((kind for of, kind in _KINDS.items() if isinstance(message, of)), "other")


def _plain(message: BaseMessage) -> BaseMessage:
    """A message of one of the four kinds, where it is a chunk or names its role in words."""
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    if isinstance(message, ChatMessage):
        kind = _ROLES.get(message.role, HumanMessage)
        return kind(content=message.content, id=message.id, additional_kwargs=message.additional_kwargs)
    return message
