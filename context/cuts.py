"""Reads the anchors into what they mean for one tape: what is dropped, summarised, folded, shortened, noted."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from turngraph.context.tape import Tape
from turngraph.state.anchors import Anchor, FoldAnchor, NoteAnchor


@dataclass(slots=True)
class Cuts:
    """What the anchors of a tape say. `dropped_before` and `summarized_before` are tape indexes.

    `checkpoints` and `notes` are by turn number; `folded` are keys of results that a placeholder stands for;
    `shortened` is the number of tokens by key.
    """

    dropped_before: int = 0
    summarized_before: int = 0
    summary: str = ""
    checkpoints: dict[int, list[FoldAnchor]] = field(default_factory=dict)
    notes: list[NoteAnchor] = field(default_factory=list)
    folded: set[str] = field(default_factory=set)
    shortened: dict[str, int] = field(default_factory=dict)


def read_cuts(tape: Tape, anchors: Iterable[Anchor]) -> Cuts:
    """The meaning of the anchors. An anchor whose message is gone is applied where its turn still stands, or ignored.

    Of several summaries the newest holds; of several numbers for one message the smallest. The running turn is
    never dropped.
    """
    cuts = Cuts()
    numbers = {turn_id: number for number, turn in enumerate(tape.turns) for turn_id in turn.span.ids}
    starts = {
        turn.span.anchor["first_message_id"]: turn.span.start
        for turn in tape.turns
        if turn.span.anchor is not None and "first_message_id" in turn.span.anchor
    }
    running = len(tape.turns) - 1
    last_start = tape.turns[running].span.start if tape.turns else 0

    def before(key: str) -> int:
        return min(last_start, tape.place.get(key, starts.get(key, 0)))

    for anchor in anchors:
        match anchor["kind"]:
            case "trim":
                cuts.dropped_before = max(cuts.dropped_before, before(anchor["before_message_id"]))
            case "summary":
                cuts.summarized_before = max(cuts.summarized_before, before(anchor["before_message_id"]))
                cuts.summary = anchor["text"]
            case "shorten":
                for key, tokens in anchor["tokens"].items():
                    cuts.shortened[key] = min(tokens, cuts.shortened.get(key, tokens))
            case "fold" if "message_ids" in anchor:
                cuts.folded.update(anchor["message_ids"])
            case "fold":
                number = _turn_of_fold(tape, anchor, numbers)
                if number is not None:
                    cuts.checkpoints.setdefault(number, []).append(anchor)
            case "note" if numbers.get(anchor["turn_id"]) == running:
                cuts.notes.append(anchor)
    return cuts


def _turn_of_fold(tape: Tape, anchor: FoldAnchor, numbers: dict[str, int]) -> int | None:
    """The turn that a checkpoint folds: the one it names, else the one its message stands in."""
    if (number := numbers.get(anchor.get("turn_id", ""))) is not None:
        return number
    at = tape.place.get(anchor.get("through_message_id", ""))
    return None if at is None else tape.owner[at]
