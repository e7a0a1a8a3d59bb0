"""Decides which old turns become the rolling summary, and what the model that writes it is shown. Pure."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage

from turngraph.context import texts
from turngraph.context.arrange import arrange
from turngraph.context.render import Piece, lay_out, piece_tokens
from turngraph.context.shape import clean, one_string
from turngraph.context.shorten import SMALLEST, shorten_text
from turngraph.context.tape import Tape
from turngraph.context.terms import ViewTerms
from turngraph.context.tokens import count_text
from turngraph.context.trim import LOW_WATER, level_for
from turngraph.context.view import Request, read_request
from turngraph.state.anchors import Anchor, SummaryAnchor
from turngraph.state.settings import ModelProfile

COMPACT_TO = 0.75
"""A compaction goes down to this part of its threshold, and at least to the low-water mark, oldest turns first."""

LEAST_GAIN = 0.05
"""A compaction that frees less than this part of the room is not worth a call and a lost prompt cache."""

SUMMARY_TOKENS = 1_500
SUMMARY_SHARE = 0.1
"""A summary takes at most `SUMMARY_TOKENS`, at most this part of the room, but may always take `SMALLEST`. The first
request, which stands before it word for word, may take as much again; a longer one is shortened in its middle."""


@dataclass(frozen=True, slots=True)
class CompactPlan:
    """A compaction that can be made. Tokens are by our own count.

    `source` is what is to be summarised, as one text; `opening` the first request of the conversation; `summarized`
    how many stored messages leave; `freed` what they take in the request, the summary before this one included;
    `least` what has to be gained; `cap` the size of the summary.
    """

    before_message_id: str
    source: str
    opening: str
    summarized: int
    freed: int
    least: int
    cap: int


def plan_compaction(
    messages: Sequence[BaseMessage | AnyMessage],
    anchors: Sequence[Anchor],
    terms: ViewTerms,
    *,
    keep_turns: int | None = None,
) -> CompactPlan | None:
    """The compaction of the oldest turns, where the request passes `compact_at` of the room.

    As many of them as bring it under the low-water mark, never a protected one, never the running turn. None where
    the request is small enough, or too little would be gained, so that compacting comes to an end. With `keep_turns`
    (1 or more) the threshold does not count: all turns but that many of the newest are taken.
    """
    budget, settings = terms.budget, terms.settings
    tape, request = read_request(messages, anchors, terms)
    cap = max(SMALLEST, min(SUMMARY_TOKENS, int(budget.room * SUMMARY_SHARE)))
    if keep_turns is None:
        threshold = int(budget.room * settings.compact_at)
        if request.used <= threshold:
            return None
        excess = request.used + cap - int(min(LOW_WATER * budget.room, COMPACT_TO * threshold))
        end, least = len(tape.turns) - 1 - settings.protected_turns, int(budget.room * LEAST_GAIN)
    else:
        excess, end, least = request.used, len(tape.turns) - max(1, keep_turns), 0
    last, freed = _oldest(request, end, excess)
    if last is None:
        return None
    opening = _first_request(tape, cap)
    if freed - cap - count_text(opening) <= least:
        return None
    summarized_before = request.layout.cuts.summarized_before
    taken = [n for n, turn in enumerate(tape.turns) if n <= last and turn.span.start >= summarized_before]
    return CompactPlan(
        before_message_id=tape.keys[tape.turns[last + 1].span.start],
        source=_source(tape, anchors, request, taken, terms),
        opening=opening,
        summarized=sum(owner in taken for owner in tape.owner),
        freed=freed,
        least=least,
        cap=cap,
    )


def _oldest(request: Request, end: int, excess: int) -> tuple[int | None, int]:
    """The last of as many old turns before `end` as free `excess` tokens, and what they and the old summary take."""
    sizes: dict[int, int] = {}
    freed = request.counted.get("summary", 0)
    for piece in request.layout.pieces:
        if 0 <= piece.turn < end:
            sizes[piece.turn] = sizes.get(piece.turn, 0) + piece_tokens(piece)
    last = None
    for number in sorted(sizes):
        if freed >= excess:
            break
        freed, last = freed + sizes[number], number
    return last, freed


def _first_request(tape: Tape, cap: int) -> str:
    """What the user wrote first on this thread, word for word."""
    for turn in tape.turns:
        for unit in turn.units:
            if unit.head.facts.kind == "user":
                return shorten_text(clean(one_string(unit.head.message.content)).strip(), cap)
    return ""


def _space(terms: ViewTerms) -> int:
    """Tokens of the window that the source of a summary may take: the call that writes it has no tools."""
    return max(SMALLEST, replace(terms, tools=()).budget.room - count_text(texts.summarise(0)) - SMALLEST)


def _source(tape: Tape, anchors: Sequence[Anchor], request: Request, turns: Sequence[int], terms: ViewTerms) -> str:
    """The summary so far and the turns, as the model saw them, in as many tokens as the window has for them.

    Long texts are shortened first, the longest most; where that is not enough, the middle is left out, and says so.
    """
    layout, space = request.layout, _space(terms)
    if layout.cuts.dropped_before > layout.cuts.summarized_before:
        layout = lay_out(tape, [anchor for anchor in anchors if anchor["kind"] != "trim"], (), terms.accepted)
    taken = set(turns)
    parts = [line for piece in layout.pieces if piece.turn in taken for line in _told(piece)]
    sizes = [count_text(part) for part in parts]
    before = clean(layout.cuts.summary).strip()
    excess = sum(sizes) + count_text(before) - space
    if excess > 0:
        level = level_for(sizes, excess)
        parts = [shorten_text(part, level) if size > level else part for part, size in zip(parts, sizes, strict=True)]
    return shorten_text(texts.summary_source(before, "\n\n".join(parts)), space)


def _told(piece: Piece) -> list[str]:
    """One message in words: who said what, who called what, what came back."""
    message = piece.message
    said = clean(one_string(message.content)).strip()
    match piece.role:
        case "user" | "block" | "note":
            return [f"User: {said}"] if piece.role == "user" else [said]
        case "answer":
            return [f"User, asked by a tool: {said}"]
        case "result":
            return [f"Result of {message.name or 'tool'}: {said}"]
    lines = [f"Assistant: {said}"] if said else []
    if isinstance(message, AIMessage):
        calls = (
            (call["name"], json.dumps(call["args"], ensure_ascii=False, default=str)) for call in message.tool_calls
        )
        lines += [f"Assistant called {name} with {args}" for name, args in calls]
    return lines


def summary_request(plan: CompactPlan, profile: ModelProfile) -> list[BaseMessage]:
    """The messages of the call that writes the summary, in the shape that the model takes."""
    asked = Piece(SystemMessage(texts.summarise(plan.cap)), "system", "system")
    shown = Piece(HumanMessage(texts.write_summary(plan.source)), "turn", "user")
    return [piece.message for piece in arrange([asked, shown], profile)]


def make_summary(plan: CompactPlan, written: str, redact: Callable[[str], str]) -> SummaryAnchor | None:
    """The anchor of what the model wrote, redacted and cut to size; None where it is blank or frees too little."""
    text = redact(clean(written)).strip()
    if not text:
        return None
    whole = texts.summary_text(redact(plan.opening), shorten_text(text, plan.cap))
    if plan.freed - count_text(texts.summary(whole)) <= plan.least:
        return None
    name = json.dumps([plan.before_message_id, whole])
    return {
        "id": f"summary-{uuid5(NAMESPACE_OID, name)}",
        "kind": "summary",
        "before_message_id": plan.before_message_id,
        "text": whole,
        "why": "compact_at",
    }
