"""ResponseAssembler: raw chunks of one response in, the deltas to show and the one clean message out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from langchain_core.messages import AIMessage, merge_content
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGeneration

from turngraph.llm.calls import CallAssembler, NormalisedCalls, RawCall, normalise_calls
from turngraph.llm.choices import FirstChoice
from turngraph.llm.finish import finish_kind, is_cut
from turngraph.llm.metadata import kept_metadata, meter_of, model_name, raw_finish
from turngraph.llm.pieces import is_sealed, joined_details, merge_plain, read_piece, without_calls
from turngraph.llm.storable import PairJoiner, clean_value
from turngraph.llm.text_tools import Piece, RawTextCall, TextCallParser
from turngraph.llm.think import InlineThinkFilter
from turngraph.llm.usage import UsageMeter
from turngraph.state.calls import CallProblem
from turngraph.state.words import FinishKind

Delta: TypeAlias = tuple[Literal["content", "thinking"], str]

TextCalls: TypeAlias = Literal["off", "rescue", "protocol"]
"""Whether calls are looked for in the text: never, native markup that slipped through, or the text protocol."""


def _new_id() -> str:
    return f"call_{uuid4().hex[:24]}"


@dataclass(frozen=True)
class Reading:
    """How a response is read. `offered`: names of the tools that may be called.

    `opens_think`: the text starts inside a thinking block. `openai_wire`: a whole response names its finish reason.
    `drop_calls`: calls were not allowed, so none is kept, and their markup is no text. `provider`: who wrote it.
    `schemas`: the parameters of tools by name, which tell numbers from text in markup.
    """

    offered: frozenset[str] = frozenset()
    text_calls: TextCalls = "off"
    opens_think: bool = False
    openai_wire: bool = False
    drop_calls: bool = False
    taken_ids: frozenset[str] = frozenset()
    provider: str = ""
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False)
    new_id: Callable[[], str] = field(default=_new_id, compare=False)


@dataclass(frozen=True)
class Assembled:
    """One response. `message` has no id and no usage yet; `stray_close`: a thinking block closed that none opened."""

    message: AIMessage
    problems: dict[str, CallProblem]
    finish: FinishKind
    cut: bool
    model_name: str
    meter: UsageMeter
    stray_close: bool


class ResponseAssembler:
    """Reads one response. One parser decides what is shown and what is stored.

    Laws: the `content` deltas joined are `message.text`; the `thinking` deltas joined are its `reasoning_content`;
    how the text was cut into chunks changes nothing.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._joiners = {"text": PairJoiner(), "reasoning": PairJoiner()}
        self._think = InlineThinkFilter(opened=reading.opens_think)
        self._markup = _markup_parsers(reading)
        self._calls = CallAssembler()
        self._whole_calls: list[RawCall] = []
        self._text_calls: list[RawTextCall] = []
        self._raw: list[str] = []
        self._content: list[str] = []
        self._thinking: list[str] = []
        self._metadata: dict[str, Any] = {}
        self._extra: dict[str, Any] = {}
        self._details: list[Any] = []
        self._usages: list[Mapping[str, Any]] = []
        self._blocks: list[list[Any]] = []
        self._choice = FirstChoice()
        self._sealed = False
        self._ended = False
        self._whole: Assembled | None = None
        self._ids: list[str] = []
        self.pieces = 0
        """Chunks that came in so far."""

    @property
    def visible(self) -> bool:
        """True once visible text was given out."""
        return bool(self._content)

    @property
    def began(self) -> bool:
        """True once the model said anything: text, reasoning, a call."""
        return bool(self._raw or self._thinking or self._whole_calls or self._calls.finish())

    @property
    def finished(self) -> bool:
        """True once the provider said why the response ends."""
        return finish_kind(raw_finish(self._metadata)) != "missing"

    @property
    def text(self) -> str:
        """The visible text so far."""
        return "".join(self._content)

    def feed(self, generation: ChatGeneration) -> list[Delta]:
        """Takes the next chunk, or a whole answer; returns what can be shown of it. Never raises."""
        piece = read_piece(generation)
        self.pieces += 1
        if piece.usage:
            self._usages.append(piece.usage)
        if not self._choice.takes(piece.choice):
            return []
        for fragment in piece.fragments:
            self._calls.feed(fragment)
        self._whole_calls.extend(piece.calls)
        self._metadata.update(piece.metadata)
        if piece.extra:
            self._details.extend(piece.extra.pop("reasoning_details", ()))
            self._extra = merge_plain(self._extra, piece.extra)
        if piece.blocks:
            self._blocks.append(piece.blocks)
            self._sealed = self._sealed or is_sealed(piece.blocks)
        deltas: list[Delta] = []
        for kind, said in piece.parts:
            text = self._joiners[kind].feed(said)
            if kind == "reasoning":
                deltas.append(("thinking", text))
            elif text:
                self._raw.append(text)
                deltas.extend(self._split(self._think.feed(text)))
        return self._keep(deltas)

    def end(self) -> list[Delta]:
        """The stream is over: what was held back. Idempotent."""
        if self._ended:
            return []
        self._ended = True
        deltas = self._split(self._think.flush())
        for at, parser in enumerate(self._markup):
            deltas.extend(self._read_markup(parser.flush(), at + 1))
        return self._keep(deltas)

    def _split(self, pairs: Sequence[Delta]) -> list[Delta]:
        """Calls are looked for in what is left once reasoning is split away."""
        deltas: list[Delta] = []
        for kind, text in pairs:
            deltas.extend([(kind, text)] if kind == "thinking" else self._read_markup([("content", text)], 0))
        return deltas

    def _read_markup(self, found: Sequence[Piece], parser: int) -> list[Delta]:
        """What is left of the text once the parsers from that one on have taken their calls out."""
        deltas: list[Delta] = []
        for piece in found:
            if piece[0] == "call":
                self._text_calls.append(piece[1])
            elif parser == len(self._markup):
                deltas.append(piece)
            else:
                deltas.extend(self._read_markup(self._markup[parser].feed(piece[1]), parser + 1))
        return deltas

    def _keep(self, deltas: list[Delta]) -> list[Delta]:
        kept = [(kind, text) for kind, text in deltas if text]
        for kind, text in kept:
            (self._content if kind == "content" else self._thinking).append(text)
        return kept

    def assembled(self, *, broken: bool = False) -> Assembled:
        """The response so far. `broken`: it stopped in the middle, whatever it said of its end."""
        if self._whole is not None and not broken:
            return self._whole
        made = self._assembled(broken)
        if self._ended and not broken:
            self._whole = made
        return made

    def _assembled(self, broken: bool) -> Assembled:
        said = raw_finish(self._metadata)
        finish = "missing" if broken else finish_kind(said)
        cut = broken or is_cut(finish, openai_wire=self._reading.openai_wire)
        made = self._normalised(cut)
        raw_text = "".join(self._raw)
        message = AIMessage(
            content=self.text,
            tool_calls=[tool_call(name=each["name"], args=each["args"], id=each["id"]) for each in made.calls],
            additional_kwargs=self._kwargs(raw_text),
            response_metadata=kept_metadata(self._metadata, said, self._reading.provider),
        )
        return Assembled(
            message=message,
            problems=made.problems,
            finish=finish,
            cut=cut,
            model_name=model_name(self._metadata),
            meter=meter_of(self._usages, running_totals=self._reading.openai_wire),
            stray_close=self._think.saw_stray_close,
        )

    def _normalised(self, cut: bool) -> NormalisedCalls:
        """The calls, made safe. Native ones win where both kinds came."""
        if self._reading.drop_calls:
            return NormalisedCalls()
        raw = [*self._calls.finish(), *self._whole_calls]
        if not raw:
            raw = [RawCall(None, each.name, each.arguments) for each in self._text_calls]
            cut = cut or any(not each.complete for each in self._text_calls)
        return normalise_calls(
            raw,
            offered=self._reading.offered,
            taken_ids=self._reading.taken_ids,
            cut=cut,
            new_id=self._stable_ids(),
        )

    def _stable_ids(self) -> Callable[[], str]:
        """Ids for calls that have none: the same ones each time this response is asked for."""
        used = 0

        def next_id() -> str:
            nonlocal used
            used += 1
            while len(self._ids) < used:
                self._ids.append(self._reading.new_id())
            return self._ids[used - 1]

        return next_id

    def _kwargs(self, raw_text: str) -> dict[str, Any]:
        kwargs: dict[str, Any] = clean_value(self._extra)
        if self._thinking:
            kwargs["reasoning_content"] = "".join(self._thinking)
        if self._details:
            kwargs["reasoning_details"] = clean_value(joined_details(self._details))
        if raw_text != self.text:
            kwargs["raw_text"] = raw_text
            if self._text_calls:
                kwargs["calls_in_text"] = True
        if self._sealed:
            merged = merge_content(*self._blocks)
            if blocks := without_calls(merged):
                kwargs["raw_blocks"] = clean_value(blocks)
        return kwargs


def _markup_parsers(reading: Reading) -> list[TextCallParser]:
    """Where no call is allowed, the markup of tools that do not exist is no answer either."""
    if reading.text_calls == "off" or not reading.offered:
        return []
    protocol = reading.text_calls == "protocol"
    parser = TextCallParser(reading.offered, protocol=protocol, schemas=reading.schemas)
    return [parser, TextCallParser(None, protocol=protocol)] if reading.drop_calls else [parser]
