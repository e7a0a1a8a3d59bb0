"""Decides the automatic fold of old results of the running turn. Pure."""

import json
from collections.abc import Sequence
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AnyMessage, BaseMessage

from turngraph.context.render import AUTOMATIC, Layout, Piece, piece_tokens
from turngraph.context.rounds import KEPT_BATCHES, fold_rounds, rounds_to_fold
from turngraph.context.tape import Tape
from turngraph.context.terms import ViewTerms
from turngraph.context.view import read_request
from turngraph.state.anchors import Anchor, FoldAnchor

FOLD_TO = 0.6
"""A fold goes down to this part of its threshold, oldest results first."""

LEAST_GAIN = 0.05
"""A fold that frees less than this part of the room is not worth a lost prompt cache."""

LASTING_ROUNDS = 5
"""A fold makes room for at least so many batches of the newest one's size, where the room can hold them at all."""

PLACEHOLDER_TOKENS = 80
WORTH_FOLDING = 2 * PLACEHOLDER_TOKENS


def plan_fold(
    messages: Sequence[BaseMessage | AnyMessage], anchors: Sequence[Anchor], terms: ViewTerms
) -> FoldAnchor | None:
    """The fold of old closed results of the running turn, where the request passes `fold_at` of the room.

    Oldest first, the newest batch never, a person's answers never; where that frees too little, whole old rounds.
    None where the request is small enough, the gain would be too small, or the last fold is so near that prompt caches
    gain more from waiting: then only a request that would not fit is folded, and as deep as the next rounds need.
    """
    budget = terms.budget
    tape, request = read_request(messages, anchors, terms)
    threshold = int(budget.room * terms.settings.fold_at)
    if request.used <= threshold or (request.used <= budget.room and _just_folded(tape, anchors)):
        return None
    target, least = int(threshold * FOLD_TO), int(budget.room * LEAST_GAIN)
    forced = request.used > budget.room
    if forced:
        target = min(target, max(0, budget.room - LASTING_ROUNDS * _newest_batch(request.layout)))
    excess = request.used - target
    gain, chosen = 0, []
    for piece, size in _candidates(request.layout):
        if gain >= excess:
            break
        gain += size - PLACEHOLDER_TOKENS
        chosen.append(piece.keys[0])
    if chosen and gain >= (excess if forced else least):
        return _of_results(tape, chosen)
    for kept in (KEPT_BATCHES, 1):
        freed, _ = rounds_to_fold(tape, request.layout, excess, kept)
        if freed >= excess or (kept == 1 and freed > max(gain, least)):
            return fold_rounds(tape, request.layout, excess, least, kept)
    return _of_results(tape, chosen) if chosen and gain >= least else None


def _just_folded(tape: Tape, anchors: Sequence[Anchor]) -> bool:
    """Whether fewer than `LASTING_ROUNDS` batches of the running turn came after its last automatic fold."""
    made_after = next(
        (
            anchor["made_after"]
            for anchor in reversed(anchors)
            if anchor["kind"] == "fold" and "made_after" in anchor and anchor.get("turn_id") in tape.turns[-1].span.ids
        ),
        None,
    )
    if made_after is None or made_after not in tape.place:
        return False
    at = tape.place[made_after]
    return sum(unit.head.index > at and bool(unit.results) for unit in tape.turns[-1].units) < LASTING_ROUNDS


def _newest_batch(layout: Layout) -> int:
    """Tokens of the newest batch, which stands for those to come."""
    return sum(piece_tokens(piece) for piece in layout.pieces if piece.newest)


def _of_results(tape: Tape, chosen: list[str]) -> FoldAnchor:
    """The fold of these results, each to its placeholder."""
    turn_id = min(tape.turns[-1].span.ids, default="")
    return {
        "id": f"fold-{uuid5(NAMESPACE_OID, json.dumps([turn_id, chosen]))}",
        "kind": "fold",
        "turn_id": turn_id,
        "message_ids": chosen,
        "made_after": tape.keys[-1],
        "text": "",
        "why": AUTOMATIC,
    }


def _candidates(layout: Layout) -> list[tuple[Piece, int]]:
    """Results of the running turn that may be folded, oldest first, each with its tokens."""
    sized = [
        (piece, piece_tokens(piece))
        for piece in layout.pieces
        if piece.role == "result"
        and piece.segment == "turn"
        and not piece.newest
        and piece.keys
        and piece.keys[0] not in layout.cuts.folded
    ]
    return [(piece, size) for piece, size in sized if size >= WORTH_FOLDING]
