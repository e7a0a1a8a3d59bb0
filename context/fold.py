"""Decides the automatic fold of old results of the running turn. Pure."""

import json
from collections.abc import Sequence
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AnyMessage, BaseMessage

from turngraph.context.budget import budget_of
from turngraph.context.render import AUTOMATIC, Layout, Piece, piece_tokens
from turngraph.context.rounds import fold_rounds
from turngraph.context.tokens import ToolLike
from turngraph.context.view import read_request
from turngraph.state.anchors import Anchor, FoldAnchor
from turngraph.state.settings import ModelProfile, TurnSettings

FOLD_TO = 0.6
"""A fold goes down to this part of its threshold, oldest results first."""

LEAST_GAIN = 0.05
"""A fold that frees less than this part of the room is not worth a lost prompt cache."""

PLACEHOLDER_TOKENS = 80
WORTH_FOLDING = 2 * PLACEHOLDER_TOKENS


def plan_fold(
    messages: Sequence[BaseMessage | AnyMessage],
    anchors: Sequence[Anchor],
    settings: TurnSettings,
    tools: Sequence[ToolLike] = (),
    *,
    blocks: Sequence[str] = (),
    profile: ModelProfile | None = None,
    calibration: float = 1.0,
) -> FoldAnchor | None:
    """The fold of old closed results of the running turn, where the request passes `fold_at` of the room.

    Oldest first, the newest batch never, a person's answers never; where long results are rare, whole old rounds.
    None where the request is small enough or the gain would be too small, so that folding comes to an end.
    """
    budget = budget_of(settings, tools, calibration)
    tape, request = read_request(messages, list(anchors), settings, blocks, profile)
    threshold = int(budget.room * settings.fold_at)
    if request.used <= threshold:
        return None
    excess, gain, chosen = request.used - int(threshold * FOLD_TO), 0, []
    least = int(budget.room * LEAST_GAIN)
    for piece, size in _candidates(request.layout):
        if gain >= excess:
            break
        gain += size - PLACEHOLDER_TOKENS
        chosen.append(piece.keys[0])
    if not chosen or gain < least:
        return fold_rounds(tape, request.layout, excess, least)
    turn_id = min(tape.turns[-1].span.ids, default="")
    return {
        "id": f"fold-{uuid5(NAMESPACE_OID, json.dumps([turn_id, chosen]))}",
        "kind": "fold",
        "turn_id": turn_id,
        "message_ids": chosen,
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
