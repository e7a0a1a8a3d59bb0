"""Makes a row of pieces one that providers take: opening, neighbours, last message, place of the system text."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from turngraph.context import texts
from turngraph.context.render import Piece
from turngraph.state.settings import ModelProfile


def arrange(pieces: Sequence[Piece], profile: ModelProfile) -> list[Piece]:
    """The pieces as they are sent: the conversation opens with a user message and never ends with the assistant's.

    With `alternate_roles` neighbours of one role are merged and a short assistant message stands between a result
    and a user message; with `system_messages` False the system text goes in front of the first user message.
    """
    row = _opened(pieces)
    if profile.alternate_roles:
        row = _alternating(row)
    if not row or isinstance(row[-1].message, AIMessage | SystemMessage):
        row.append(_filler(HumanMessage(texts.CONTINUE, id="turngraph-continue"), row[-1] if row else None))
    return _without_system(row) if profile.system_messages is False else row


def _filler(message: BaseMessage, beside: Piece | None) -> Piece:
    """A message of ours that only keeps the order; it counts where its neighbour does."""
    in_turn = beside is None or beside.segment not in ("history", "turn")
    return Piece(message, "turn" if in_turn or beside is None else beside.segment, "filler")


def _opened(pieces: Sequence[Piece]) -> list[Piece]:
    row = list(pieces)
    at = next((n for n, piece in enumerate(row) if not isinstance(piece.message, SystemMessage)), None)
    if at is not None and isinstance(row[at].message, AIMessage):
        row.insert(at, _filler(HumanMessage(texts.OPENING, id="turngraph-opening"), row[at]))
    return row


def _alternating(pieces: Sequence[Piece]) -> list[Piece]:
    row: list[Piece] = []
    for piece in pieces:
        last = row[-1] if row else None
        if last is None:
            row.append(piece)
        elif isinstance(last.message, HumanMessage) and isinstance(piece.message, HumanMessage):
            row[-1] = _merged(last, piece, "\n\n")
        elif isinstance(last.message, AIMessage) and isinstance(piece.message, AIMessage):
            row[-1] = _merged(last, piece, "" if last.part else "\n\n")
        else:
            if isinstance(last.message, ToolMessage) and isinstance(piece.message, HumanMessage):
                row.append(_filler(AIMessage(texts.FILLER, id=f"turngraph-filler-{last.message.id}"), last))
            row.append(piece)
    return row


def _merged(first: Piece, second: Piece, separator: str) -> Piece:
    """Two neighbours of one role as one message; the calls are the second's, which alone may have any."""
    update: dict[str, Any] = {"content": join_content(first.message.content, second.message.content, separator)}
    if isinstance(first.message, AIMessage) and isinstance(second.message, AIMessage):
        update["tool_calls"] = [*first.message.tool_calls, *second.message.tool_calls]
        update["additional_kwargs"] = {**first.message.additional_kwargs, **second.message.additional_kwargs}
        kept = (piece.message.additional_kwargs.get("reasoning_content", "") for piece in (first, second))
        if reasoning := "\n".join(text for text in kept if text):
            update["additional_kwargs"]["reasoning_content"] = reasoning
    message = first.message.model_copy(update=update)
    return replace(first, message=message, keys=(*first.keys, *second.keys), part=second.part, tokens=-1)


def join_content(
    first: str | list[str | dict[Any, Any]], second: str | list[str | dict[Any, Any]], separator: str
) -> str | list[str | dict[Any, Any]]:
    """Two contents as one: strings joined, blocks in a row."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}{separator}{second}" if first and second else first or second
    rows = [[{"type": "text", "text": part}] if isinstance(part, str) else part for part in (first, second) if part]
    return [block for row in rows for block in row]


def _without_system(row: list[Piece]) -> list[Piece]:
    """The system text in front of the first user message."""
    if not isinstance(row[0].message, SystemMessage):
        return row
    system, *rest = row
    first = rest[0].message
    content = join_content(system.message.content, first.content, "\n\n")
    message = first.model_copy(update={"content": content})
    opened = replace(rest[0], message=message, keys=(*system.keys, *rest[0].keys), tokens=-1)
    return [opened, *rest[1:]]
