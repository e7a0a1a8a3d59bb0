"""Folds old rounds of the running turn whole, where shorter results make no room any more. Pure."""

import json
from collections import Counter
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AIMessage

from turngraph.context import texts
from turngraph.context.render import AUTOMATIC, Layout, piece_tokens
from turngraph.context.tape import Tape, Unit
from turngraph.state.anchors import FoldAnchor

BLOCK_TOKENS = 300
"""About what the block that stands for the rounds takes at most."""

KEPT_BATCHES = 2


def fold_rounds(tape: Tape, layout: Layout, excess: int, least: int = 0, kept: int = KEPT_BATCHES) -> FoldAnchor | None:
    """The fold of as many old rounds of the running turn as free `excess` tokens, or as there are.

    The `kept` newest batches, what the user said and the user's answers stay. None where it would free `least` or
    fewer. Law: a fold makes the request smaller and goes further than any before it.
    """
    freed, last = rounds_to_fold(tape, layout, excess, kept)
    if last is None or freed <= least:
        return None
    turn = tape.turns[-1]
    through = turn.units[last].head.key
    turn_id = min(turn.span.ids, default="")
    return {
        "id": f"fold-{uuid5(NAMESPACE_OID, json.dumps([turn_id, through]))}",
        "kind": "fold",
        "turn_id": turn_id,
        "through_message_id": through,
        "made_after": tape.keys[-1],
        "text": _told(turn.units[: last + 1]),
        "why": AUTOMATIC,
    }


def rounds_to_fold(tape: Tape, layout: Layout, excess: int, kept: int = KEPT_BATCHES) -> tuple[int, int | None]:
    """About how many tokens a fold of old rounds would free, and the last unit that it would fold."""
    freed, last = -BLOCK_TOKENS, None
    if not tape.turns:
        return freed, last
    turn = tape.turns[-1]
    sizes = {
        piece.keys[0]: piece_tokens(piece)
        for piece in layout.pieces
        if piece.segment == "turn" and piece.role in ("assistant", "result") and piece.keys
    }
    for at in _old(turn.units, kept):
        if freed >= excess:
            break
        size = sum(sizes.get(entry.key, 0) for entry in turn.units[at].entries)
        if size and turn.units[at].head.key in sizes:
            freed, last = freed + size, at
    return freed, last


def _old(units: list[Unit], kept: int) -> list[int]:
    """The numbers of the assistant's units before the newest batches, those with a person's answer left out."""
    batches = [at for at, unit in enumerate(units) if unit.results]
    end = batches[-kept] if len(batches) >= kept else 0
    return [
        at
        for at, unit in enumerate(units[:end])
        if unit.head.facts.kind == "assistant" and not any(entry.facts.is_answer for entry in unit.results)
    ]


def _told(units: list[Unit]) -> str:
    """Which tools the folded rounds called, and how often."""
    names = Counter(
        call["name"]
        for unit in units
        if isinstance(unit.head.message, AIMessage)
        for call in unit.head.message.tool_calls
    )
    return texts.rounds_folded(sum(bool(unit.results) for unit in units), names.most_common(texts.LISTED_CALLS))
