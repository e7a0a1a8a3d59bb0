"""Decides the next cut where a request does not fit its room: whole turns first, then long texts. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AIMessage

from turngraph.context.render import Piece, piece_tokens
from turngraph.context.shorten import SMALLEST, strings_tokens
from turngraph.context.tape import Tape
from turngraph.context.tokens import count_text, message_tokens
from turngraph.state.anchors import ShortenAnchor, TrimAnchor

LOW_WATER = 0.6
"""A cut goes down to this part of the room, so that the next rounds fit without a new one and prompt caches hold."""


@dataclass(frozen=True, slots=True)
class Overrun:
    """A request and its room, both in our own count. `shortened` is what was shortened already, and to how much."""

    pieces: Sequence[Piece]
    shortened: Mapping[str, int]
    used: int
    room: int
    protected: int

    @property
    def excess(self) -> int:
        """Tokens above the low-water mark."""
        return self.used - int(self.room * LOW_WATER)


def next_cut(tape: Tape, overrun: Overrun) -> TrimAnchor | ShortenAnchor | None:
    """The next cut, or None where the request fits or nothing more may be cut.

    Law: a cut makes the request smaller, so that asking again comes to an end.
    """
    if overrun.used <= overrun.room:
        return None
    return _drop_turns(tape, overrun) or _shorten(tape, overrun)


def _drop_turns(tape: Tape, overrun: Overrun) -> TrimAnchor | None:
    """Whole turns from the oldest on, as many as the low-water mark asks for, never a protected one."""
    running = len(tape.turns) - 1
    sizes: dict[int, int] = {}
    for piece in overrun.pieces:
        if 0 <= piece.turn < running - overrun.protected:
            sizes[piece.turn] = sizes.get(piece.turn, 0) + piece_tokens(piece)
    excess, last = overrun.excess, None
    for number in sorted(sizes):
        if excess <= 0:
            break
        excess, last = excess - sizes[number], number
    if last is None:
        return None
    before = tape.keys[tape.turns[last + 1].span.start]
    return {"id": f"trim-{before}", "kind": "trim", "before_message_id": before, "why": "out_of_budget"}


def _shorten(tape: Tape, overrun: Overrun) -> ShortenAnchor | None:
    """Long texts of what must stay, largest first: older results, then the newest batch's, then what was said.

    A text is shortened again only to fewer tokens than before.
    """
    running = len(tape.turns) - 1
    tiers: tuple[list[Piece], ...] = (
        [piece for piece in overrun.pieces if piece.role == "result" and not piece.newest],
        [piece for piece in overrun.pieces if piece.role == "result" and piece.newest],
        [piece for piece in overrun.pieces if piece.role == "assistant" and not piece.newest],
        [piece for piece in overrun.pieces if piece.role == "user" and piece.turn < running],
    )
    for tier in tiers:
        sizes = {piece.keys[0]: size for piece in tier if piece.keys and (size := _shortenable(piece)) > SMALLEST}
        level = level_for(sizes.values(), overrun.excess)
        tokens = {key: level for key, size in sizes.items() if level < min(size, overrun.shortened.get(key, size))}
        if tokens:
            name = json.dumps(tokens, sort_keys=True)
            return {"id": f"shorten-{uuid5(NAMESPACE_OID, name)}", "kind": "shorten", "tokens": tokens, "why": "room"}
    return None


def _shortenable(piece: Piece) -> int:
    """Tokens of the longest part of a piece that shortening acts on: its text, or the strings of one of its calls."""
    message = piece.message
    if isinstance(message.content, str):
        sizes = [count_text(message.content)]
    else:
        sizes = [0 if isinstance(message, AIMessage) else message_tokens(message)]
    if isinstance(message, AIMessage):
        sizes += [strings_tokens(call["args"]) for call in message.tool_calls]
    return max(sizes)


def level_for(sizes: Iterable[int], excess: int) -> int:
    """The highest level to which cutting every size down to it frees `excess`, and at least the smallest allowed.

    Law: either sum(size - level for sizes above it) >= excess, or the level is `SMALLEST`.
    """
    row = sorted(sizes, reverse=True)
    freed = 0
    for at, size in enumerate(row):
        lower = max(SMALLEST, row[at + 1] if at + 1 < len(row) else 0)
        step = (size - lower) * (at + 1)
        if freed + step >= excess:
            return max(SMALLEST, size - -(-(excess - freed) // (at + 1)))
        freed += step
    return SMALLEST
