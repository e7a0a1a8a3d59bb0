"""Delimits turns on the tape: which message belongs to which turn, by anchors, marks and position."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, BaseMessage

from turngraph.context.facts import Facts, facts_of, marks_of
from turngraph.state.anchors import Anchor, TurnAnchor

__all__ = ["TurnSpan", "Turns", "find_turns", "keys_of", "last_visible_text", "marks_of", "turn_messages"]


def keys_of(messages: Sequence[BaseMessage]) -> list[str]:
    """A name for each message: its id, or its place where it has none."""
    return [message.id or f"#{at}" for at, message in enumerate(messages)]


@dataclass(slots=True)
class TurnSpan:
    """One turn: where it starts on the tape, the ids that messages name it by, and its newest anchor if it has one."""

    start: int
    ids: set[str] = field(default_factory=set)
    anchor: TurnAnchor | None = None


@dataclass(frozen=True, slots=True)
class Turns:
    """Spans in tape order, and for each message the number of its turn. The last span is the running turn."""

    spans: list[TurnSpan]
    owner: list[int]


def find_turns(
    messages: Sequence[BaseMessage],
    keys: Sequence[str],
    anchors: Iterable[Anchor],
    facts: Sequence[Facts] | None = None,
) -> Turns:
    """The turns of a tape.

    A turn starts where its anchor says. Messages before the first anchor, and a tape without anchors, are split at
    each human message. A message that carries the mark of a known turn belongs to that turn wherever it stands; any
    other belongs to the turn of the question that its mark names, else to the turn in whose span it stands.
    """
    known = [facts_of(message) for message in messages] if facts is None else facts
    spans = _spans(known, keys, anchors)
    by_id = {turn_id: at for at, span in enumerate(spans) for turn_id in span.ids}
    starts, place = [span.start for span in spans], {key: at for at, key in enumerate(keys)}
    owner: list[int] = []
    for at, each in enumerate(known):
        marked = by_id.get(each.turn_id)
        if marked is None:
            stands = place.get(marks_of(messages[at]).get("question", ""), at) if each.turn_id else at
            marked = max(0, bisect_right(starts, stands) - 1)
        owner.append(marked)
    return Turns(spans, owner)


def _spans(facts: Sequence[Facts], keys: Sequence[str], anchors: Iterable[Anchor]) -> list[TurnSpan]:
    """Spans in tape order; two anchors at one message are one turn, the newer one's."""
    place = {key: at for at, key in enumerate(keys)}
    first_marked: dict[str, int] = {}
    for at, each in enumerate(facts):
        if each.turn_id not in first_marked and each.turn_id:
            first_marked[each.turn_id] = at
    spans: dict[int, TurnSpan] = {}
    for anchor in anchors:
        if anchor["kind"] != "turn":
            continue
        start = _start(anchor, place, first_marked)
        if start is not None:
            span = spans.setdefault(start, TurnSpan(start))
            span.ids.add(anchor.get("turn_id", ""))
            span.anchor = anchor
    first = min(spans, default=len(facts))
    for at, each in enumerate(facts[:first]):
        if at == 0 or (each.kind == "user" and not each.turn_id):
            spans.setdefault(at, TurnSpan(at))
    return [spans[at] for at in sorted(spans)]


def _start(anchor: TurnAnchor, place: Mapping[str, int], first_marked: Mapping[str, int]) -> int | None:
    """Where a turn starts: its first message, or what is left of the turn where that message was removed."""
    for key in (anchor.get("first_message_id"), anchor.get("last_message_id")):
        if key is not None and key in place:
            return place[key]
    return first_marked.get(anchor.get("turn_id", ""))


def turn_messages(messages: Sequence[BaseMessage], anchors: Iterable[Anchor], turn_id: str) -> list[BaseMessage]:
    """All messages of a turn, its user's messages included, in tape order; empty where the turn is not known."""
    turns = find_turns(messages, keys_of(messages), anchors)
    number = next((at for at, span in enumerate(turns.spans) if turn_id in span.ids), None)
    return [message for message, owner in zip(messages, turns.owner, strict=True) if owner == number]


def last_visible_text(messages: Sequence[BaseMessage], turn_id: str) -> str:
    """The last assistant text of a turn that is not blank; "" where there is none."""
    for message in reversed(messages):
        if isinstance(message, AIMessage) and marks_of(message).get("turn_id") == turn_id and message.text.strip():
            return str(message.text)
    return ""
