"""Lays a tape out as pieces of a request: system, summary, turns, notes, in order, cut as the anchors say."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from turngraph.context import texts
from turngraph.context.cuts import Cuts, read_cuts
from turngraph.context.facts import Shape
from turngraph.context.shape import ShapeKey, clean, one_string, shape_key, shape_message
from turngraph.context.shorten import shorten_args, shorten_text
from turngraph.context.tape import Entry, Tape, Turn, Unit
from turngraph.context.tokens import count_message, message_tokens
from turngraph.state.anchors import Anchor, FoldAnchor
from turngraph.state.settings import ModelProfile
from turngraph.state.words import ExcludedReason

Segment: TypeAlias = Literal["system", "tools", "summary", "history", "turn", "notes"]
"""The parts of a request that a report counts: `history` is every earlier turn, `turn` the running one."""

Role: TypeAlias = Literal["system", "summary", "user", "assistant", "result", "answer", "note", "block", "filler"]

SYSTEM_ID = "turngraph-system"
AUTOMATIC = "fold_at"
"""`why` of a fold that no tool asked for; a later one takes the place of an earlier one of its turn."""

FOLDED_START = 80
"""Characters of a folded result that its placeholder shows."""


@dataclass(slots=True)  # not frozen: one is made for each message of each view, at a third of the cost
class Piece:
    """One message of the request. `keys` are the stored messages that it shows, `turn` their turn (-1: none)."""

    message: BaseMessage
    segment: Segment
    role: Role
    keys: tuple[str, ...] = ()
    turn: int = -1
    newest: bool = False
    """It belongs to the newest batch of the running turn."""
    part: bool = False
    """It is a part of a continued answer: what follows it joins without a separator."""
    tokens: int = -1
    """Its count, -1 until it was counted: `piece_tokens` gives it."""


def piece_tokens(piece: Piece) -> int:
    """Tokens of a piece's message, counted once."""
    if piece.tokens < 0:
        piece.tokens = message_tokens(piece.message)
    return piece.tokens


@dataclass(slots=True)
class Layout:
    """The pieces in order, and why each stored message that is not shown as it stands is not."""

    cuts: Cuts
    pieces: list[Piece] = field(default_factory=list)
    excluded: dict[str, ExcludedReason] = field(default_factory=dict)


def lay_out(tape: Tape, anchors: Sequence[Anchor], system_texts: Iterable[str], profile: ModelProfile) -> Layout:
    """The request that a tape and its anchors make.

    Law: the keys of the pieces and the excluded keys together are all keys of the tape.
    """
    cuts = read_cuts(tape, anchors)
    layout = Layout(cuts, excluded={entry.key: "empty" for entry in tape.spare})
    _system(layout, tape, system_texts)
    if cuts.summary.strip():
        text = HumanMessage(texts.summary(clean(cuts.summary)), id="turngraph-summary")
        layout.pieces.append(Piece(text, "summary", "summary"))
    running, wants = len(tape.turns) - 1, shape_key(profile)
    for number, turn in enumerate(tape.turns):
        reason = _left_out(turn, cuts)
        if reason is not None:
            layout.excluded |= {entry.key: reason for unit in turn.units for entry in unit.entries if entry.index >= 0}
        else:
            _Renderer(layout, cuts, turn, number, number == running, tape, profile, wants).render()
    return layout


def _system(layout: Layout, tape: Tape, system_texts: Iterable[str]) -> None:
    """The one system message: the given texts, then the system messages of the tape, each text once."""
    said = [text.strip() for text in system_texts]
    said += [entry.message.text.strip() for entry in tape.systems]
    joined = "\n\n".join(dict.fromkeys(clean(text) for text in said if text))
    keys = tuple(entry.key for entry in tape.systems)
    if joined:
        layout.pieces.append(Piece(SystemMessage(joined, id=SYSTEM_ID), "system", "system", keys))
    else:
        layout.excluded |= dict.fromkeys(keys, "empty")


def _left_out(turn: Turn, cuts: Cuts) -> ExcludedReason | None:
    if turn.span.start < cuts.summarized_before:
        return "summarized"
    return "out_of_budget" if turn.span.start < cuts.dropped_before else None


@dataclass(slots=True)
class _Renderer:
    """Renders one turn into a layout."""

    layout: Layout
    cuts: Cuts
    turn: Turn
    number: int
    running: bool
    tape: Tape
    profile: ModelProfile
    wants: ShapeKey

    def render(self) -> None:
        """Adds the turn's pieces: units in order, folded ones replaced, checkpoint blocks and notes at their place."""
        units = self.turn.units
        folds = _newest_automatic(sorted(self._folds(), key=lambda fold: fold[0]))
        through = max((at for at, _ in folds), default=-1)
        notes = self._notes()
        newest = max((at for at, unit in enumerate(units) if unit.results), default=-1) if self.running else -1
        seeded = self._seeded()
        calls: list[tuple[str, str]] = []
        for at in range(-1, len(units)):
            if at >= 0:
                if at <= through:
                    calls += self._fold(units[at], seeded)
                else:
                    self._show(units[at], seeded, newest=at == newest)
            for _, anchor in (fold for fold in folds if fold[0] == at):
                text = texts.checkpoint(clean(anchor.get("text", "")), calls)
                self._add(HumanMessage(text, id=anchor["id"]), "block")
                calls = []
            for message in notes.get(at, ()):
                self.layout.pieces.append(Piece(message, "notes", "note", turn=self.number))

    def _folds(self) -> Iterator[tuple[int, FoldAnchor]]:
        """Each checkpoint with the number of the last unit that it folds; -1 where nothing stands before it.

        A checkpoint never folds the batch that made it, nor half of a unit.
        """
        anchors = self.cuts.checkpoints.get(self.number, ())
        if not anchors:
            return
        unit_of: dict[str, int] = {}
        batch_of: dict[str, int] = {}
        for at, unit in enumerate(self.turn.units):
            for entry in unit.entries:
                unit_of.setdefault(entry.key, at)
            for call_id in unit.head.facts.call_ids:
                batch_of.setdefault(call_id, at)
        for anchor in anchors:
            last = unit_of.get(anchor.get("through_message_id", ""))
            made_by = batch_of.get(anchor.get("call_id", ""))
            if made_by is not None:
                last = made_by - 1 if last is None else min(last, made_by - 1)
            if last is not None:
                yield last, anchor

    def _notes(self) -> dict[int, list[HumanMessage]]:
        """Notes by the number of the unit after which they stand: the one with their message, or the last before it."""
        placed: dict[int, list[HumanMessage]] = {}
        if not self.running:
            return placed
        heads = [unit.head.index for unit in self.turn.units] if self.cuts.notes else []
        for anchor in self.cuts.notes:
            at = self.tape.place.get(anchor["after_message_id"], len(self.tape.keys))
            after = bisect_right(heads, at) - 1
            message = HumanMessage(texts.note(clean(anchor["text"])), id=anchor["id"])
            placed.setdefault(after, []).append(message)
        return placed

    def _seeded(self) -> str | None:
        """The key of the message that carries the turn's seed: its first human one."""
        anchor = self.turn.span.anchor
        if anchor is None or not anchor.get("seed", "").strip():
            return None
        return next((unit.head.key for unit in self.turn.units if unit.head.facts.kind == "user"), None)

    def _fold(self, unit: Unit, seeded: str | None) -> list[tuple[str, str]]:
        """A unit before a checkpoint: what the user said stays, results become placeholders, the rest leaves.

        Returns name and call id of each result that left.
        """
        if unit.head.facts.kind == "user":
            self._show(unit, seeded)
            return []
        if any(entry.facts.is_answer for entry in unit.results):
            self._show(unit, seeded, placeholders=True)
            return []
        self.layout.excluded |= {entry.key: "folded" for entry in unit.entries if entry.index >= 0}
        return [
            (entry.message.name or "tool", entry.message.tool_call_id)
            for entry in unit.results
            if entry.index >= 0 and isinstance(entry.message, ToolMessage)
        ]

    def _show(self, unit: Unit, seeded: str | None, *, placeholders: bool = False, newest: bool = False) -> None:
        """A unit that is sent."""
        head, shape = unit.head, self._shape(unit.head)
        if shape is None:
            self.layout.excluded[head.key] = "empty"
            return
        sent, tokens = shape
        if head.key in self.cuts.shortened:
            sent, tokens = self._shortened(head, sent), -1
        if head.key == seeded and self.turn.span.anchor is not None:
            sent, tokens = _with_seed(sent, self.turn.span.anchor["seed"]), -1
        role: Role = "user" if head.facts.kind == "user" else "assistant"
        self._add(sent, role, (head.key,), newest=newest, part=head.facts.role == "part", tokens=tokens)
        for entry in unit.results:
            sent, tokens = self._shape(entry) or (entry.message, -1)
            answer = entry.facts.is_answer
            if not answer and (placeholders or entry.key in self.cuts.folded):
                sent, tokens = self._placeholder(entry, sent, tokens)
            elif not answer and entry.key in self.cuts.shortened:
                sent, tokens = self._shortened(entry, sent), -1
            keys = (entry.key,) if entry.index >= 0 else ()
            self._add(sent, "answer" if answer else "result", keys, newest=newest, tokens=tokens)

    def _shape(self, entry: Entry) -> tuple[BaseMessage, int] | None:
        """The message in the shape in which it is sent, and its tokens; made anew only where the profile changed."""
        shape = entry.facts.shape
        if shape is None or shape.key != self.wants:
            made = shape_message(entry.message, self.profile)
            same = made is entry.message
            tokens = -1 if made is None else count_message(made)
            shape = entry.facts.shape = Shape(self.wants, None if same else made, same, tokens)
        if shape.same:
            return entry.message, shape.tokens
        return None if shape.copy is None else (shape.copy, shape.tokens)

    def _placeholder(self, entry: Entry, shown: BaseMessage, tokens: int) -> tuple[BaseMessage, int]:
        """The result as its placeholder, where that is shorter than the result, and its tokens; made once, too."""
        shape = entry.facts.folded
        if shape is None or shape.key != self.wants:
            assert isinstance(shown, ToolMessage)
            text = str(shown.text)
            start = " ".join(text[:FOLDED_START].split())
            folded = texts.folded(shown.name or "", shown.tool_call_id, len(text), start)
            same = len(folded) >= len(text) and isinstance(shown.content, str)
            made = None if same else shown.model_copy(update={"content": folded})
            shape = Shape(self.wants, made, same, tokens if made is None else count_message(made))
            entry.facts.folded = shape
        if shape.copy is None:
            return shown, tokens
        self.layout.excluded[entry.key] = "folded"
        return shape.copy, shape.tokens

    def _shortened(self, entry: Entry, shaped: BaseMessage) -> BaseMessage:
        """The message in the number of tokens that a shorten anchor gives it; blocks become text and placeholders."""
        tokens = self.cuts.shortened.get(entry.key)
        if tokens is None:
            return shaped
        call_id = shaped.tool_call_id if isinstance(shaped, ToolMessage) else None
        update: dict[str, object] = {}
        content = shaped.content
        if not isinstance(content, str) and not isinstance(shaped, AIMessage):
            content = one_string(content) if message_tokens(shaped) > tokens else content
        if isinstance(content, str) and (short := shorten_text(content, tokens, call_id)) != shaped.content:
            update["content"] = short
        if isinstance(shaped, AIMessage) and shaped.tool_calls:
            calls = [{**call, "args": shorten_args(call["args"], tokens)} for call in shaped.tool_calls]
            if calls != shaped.tool_calls:
                update["tool_calls"] = calls
        if not update:
            return shaped
        self.layout.excluded[entry.key] = "shortened"
        return shaped.model_copy(update=update)

    def _add(
        self,
        message: BaseMessage,
        role: Role,
        keys: tuple[str, ...] = (),
        *,
        newest: bool = False,
        part: bool = False,
        tokens: int = -1,
    ) -> None:
        segment: Segment = "turn" if self.running else "history"
        self.layout.pieces.append(Piece(message, segment, role, keys, self.number, newest, part, tokens))


def _newest_automatic(folds: list[tuple[int, FoldAnchor]]) -> list[tuple[int, FoldAnchor]]:
    """The folds without automatic ones that a later automatic one replaces: their blocks would add up for ever."""
    automatic = [at for at, (_, anchor) in enumerate(folds) if anchor.get("why") == AUTOMATIC]
    return [fold for at, fold in enumerate(folds) if at not in automatic[:-1]]


def _with_seed(message: BaseMessage, seed: str) -> BaseMessage:
    """The user's message with the turn's seed at its end."""
    text = texts.seed(clean(seed))
    if isinstance(message.content, str):
        return message.model_copy(update={"content": f"{message.content}\n\n{text}"})
    return message.model_copy(update={"content": [*message.content, {"type": "text", "text": text}]})
