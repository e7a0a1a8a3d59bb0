"""What the model is sent: a pure function of tape and anchors."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AnyMessage, BaseMessage

from turngraph.context.arrange import arrange
from turngraph.context.budget import Budget, budget_of
from turngraph.context.render import Layout, Piece, Segment, lay_out
from turngraph.context.report import make_report
from turngraph.context.rounds import fold_rounds
from turngraph.context.tape import Tape, read_tape
from turngraph.context.tokens import ToolLike, message_tokens
from turngraph.context.trim import LOW_WATER, Overrun, next_cut
from turngraph.state.anchors import Anchor
from turngraph.state.receipt import ContextReport
from turngraph.state.settings import ModelProfile, TurnSettings


@dataclass(frozen=True, slots=True)
class View:
    """A request's messages and the report of it.

    `new_anchors` are the cuts that were made to fit the room: stored, they make later views of the tape the same.
    `included` are the ids of the stored messages that the request shows, whole or shortened.
    """

    messages: list[BaseMessage]
    report: ContextReport
    new_anchors: list[Anchor] = field(default_factory=list)
    included: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """A tape laid out, arranged and counted."""

    layout: Layout
    row: list[Piece]
    counted: dict[Segment, int]

    @property
    def used(self) -> int:
        """Tokens of the messages by our own count."""
        return sum(self.counted.values())


def view(
    messages: Sequence[BaseMessage | AnyMessage],
    anchors: Sequence[Anchor],
    settings: TurnSettings,
    tools: Sequence[ToolLike] = (),
    *,
    blocks: Sequence[str] = (),
    profile: ModelProfile | None = None,
    calibration: float = 1.0,
) -> View:
    """The messages that a tape and its anchors make, and the report of them.

    `tools` are counted only; `blocks` follow the base prompt in the system message; `calibration` is how many tokens
    the provider counts where we count one.

    Laws: the messages are a valid history whatever the tape; each stored message is in `included` or in the report's
    `excluded`; `view(messages, anchors + new_anchors, ...)` gives the same messages and no new anchors; without a
    new cut the messages begin with those of every earlier request of the turn.
    """
    budget = budget_of(settings, tools, calibration)
    tape = read_tape(messages, anchors)
    known: list[Anchor] = list(anchors)
    made: list[Anchor] = []
    while True:
        request = build_request(tape, [*known, *made], settings, blocks, profile)
        cut: Anchor | None = next_cut(
            tape,
            Overrun(
                request.layout.pieces,
                request.layout.cuts.shortened,
                request.used,
                budget.room,
                settings.protected_turns,
            ),
        )
        if cut is None and request.used > budget.room:
            cut = fold_rounds(tape, request.layout, request.used - int(budget.room * LOW_WATER))
        if cut is None:
            return _seen(tape, request, budget, made)
        made.append(cut)


def build_request(
    tape: Tape,
    anchors: Sequence[Anchor],
    settings: TurnSettings,
    blocks: Sequence[str],
    profile: ModelProfile | None,
) -> Request:
    """The request of a tape under given anchors, whether it fits or not."""
    accepted = profile or settings.model_profile
    layout = lay_out(tape, anchors, (settings.system_prompt, *blocks), accepted)
    row = arrange(layout.pieces, accepted)
    counted: dict[Segment, int] = {}
    for piece in row:
        counted[piece.segment] = counted.get(piece.segment, 0) + message_tokens(piece.message)
    return Request(layout, row, counted)


def _seen(tape: Tape, request: Request, budget: Budget, made: list[Anchor]) -> View:
    counted: dict[Segment, int] = {**request.counted, "tools": budget.tools}
    report = make_report(budget, counted, request.layout.excluded, tape.keys)
    included = tuple(key for piece in request.row for key in piece.keys)
    return View([piece.message for piece in request.row], report, made, included)
