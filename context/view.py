"""What the model is sent: a pure function of tape and anchors."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import is_
from threading import Lock

from langchain_core.messages import AnyMessage, BaseMessage

from turngraph.context.arrange import arrange
from turngraph.context.budget import Budget
from turngraph.context.facts import facts_of
from turngraph.context.render import Layout, Piece, Segment, lay_out, piece_tokens
from turngraph.context.report import make_report
from turngraph.context.rounds import fold_rounds
from turngraph.context.tape import Tape, read_tape
from turngraph.context.terms import ViewTerms
from turngraph.context.tokens import ToolLike
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
    terms = ViewTerms(settings, tools, blocks, profile, calibration)
    budget = terms.budget
    known: list[Anchor] = list(anchors)
    made: list[Anchor] = []
    tape, request = read_request(messages, known, terms)
    while True:
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
        request = build_request(tape, [*known, *made], terms)


def build_request(tape: Tape, anchors: Sequence[Anchor], terms: ViewTerms) -> Request:
    """The request of a tape under given anchors, whether it fits or not."""
    layout = lay_out(tape, anchors, terms.system, terms.accepted)
    row = arrange(layout.pieces, terms.accepted)
    counted: dict[Segment, int] = {}
    for piece in row:
        counted[piece.segment] = counted.get(piece.segment, 0) + piece_tokens(piece)
    return Request(layout, row, counted)


@dataclass(frozen=True, slots=True)
class _Built:
    """A request and what it was built from."""

    messages: list[BaseMessage | AnyMessage]
    anchors: list[Anchor]
    shown: tuple[tuple[str, ...], ModelProfile]
    tape: Tape
    request: Request

    def holds(self, messages: Sequence[BaseMessage | AnyMessage], anchors: Sequence[Anchor], terms: ViewTerms) -> bool:
        """Whether it was built from these very messages, none of them changed since, and would look the same."""
        return (
            len(self.messages) == len(messages)
            and all(map(is_, reversed(self.messages), reversed(messages)))
            and self.shown == (terms.system, terms.accepted)
            and self.anchors == list(anchors)
            and all(map(is_, map(facts_of, messages), self.tape.facts))
        )


KEPT_REQUESTS = 4
_lock = Lock()

_built: OrderedDict[int, _Built] = OrderedDict()
"""The last request of the last few tapes: the end of one round and the start of the next ask for the same one."""


def read_request(
    messages: Sequence[BaseMessage | AnyMessage], anchors: Sequence[Anchor], terms: ViewTerms
) -> tuple[Tape, Request]:
    """The tape, and its request under these anchors. Other callers may share both: they are not to be changed."""
    key = id(messages[0]) if messages else 0
    built = _built.get(key)
    if built is None or not built.holds(messages, anchors, terms):
        tape = read_tape(messages, anchors)
        request = build_request(tape, anchors, terms)
        built = _Built(list(messages), list(anchors), (terms.system, terms.accepted), tape, request)
        with _lock:
            _built.pop(key, None)
            _built[key] = built
            if len(_built) > KEPT_REQUESTS:
                _built.popitem(last=False)
    return built.tape, built.request


def _seen(tape: Tape, request: Request, budget: Budget, made: list[Anchor]) -> View:
    counted: dict[Segment, int] = {**request.counted, "tools": budget.tools}
    report = make_report(budget, counted, request.layout.excluded, tape.keys)
    included = tuple(key for piece in request.row for key in piece.keys)
    return View([piece.message for piece in request.row], report, made, included)
