"""TextCallParser: finds tool calls that a model wrote as text, while the text streams."""

import re
from collections.abc import Collection
from typing import Literal, TypeAlias

from turngraph.llm.text_code import CodeTracker
from turngraph.llm.text_dialects import RawTextCall, Schemas, calls_of
from turngraph.llm.text_fenced import FencedCall
from turngraph.llm.text_markup import MarkupBlock
from turngraph.llm.text_tags import MARKER, opening_at, wrapper_close_at

Piece: TypeAlias = tuple[Literal["content"], str] | tuple[Literal["call"], RawTextCall]

_SPACE = re.compile(r"\s*")


class TextCallParser:
    """Splits visible text into `("content", text)` and `("call", RawTextCall)` pieces, in order.

    Takes what a model wrote, reasoning split away; never the text of users or tools. Understood are, for tools in
    `tool_names`: `<tool_call>` with JSON (one call, a list, several in a row), `<tool_call>` with a bare name and
    `<arg_key>`/`<arg_value>`, `<function=name>` with JSON or `<parameter=...>` elements, `<invoke name="...">` with
    `<parameter name="...">` elements, alone or in `<function_calls>`, each with or without a DSML prefix,
    `[TOOL_CALLS]`, and one fenced JSON object `{"name", "arguments"}` that is the whole text.

    Markup in code, in lines that begin with `>` and between double quotes is text, and so is markup of other tools.
    Text that may become a call is held until that is decided; all other text is handed on at once.
    `tool_names` None: the markup of every name counts (and fenced JSON does not).
    `schemas` (name -> JSON schema of the parameters) tells numbers from text where the markup does not.
    `protocol`: the model was told to write `<tool_call>`, so that one cut off before its name is a cut call.

    Laws: content pieces and the `raw` of calls, joined in order, are the text, but for closing tags that follow a
    call with nothing to close; the pieces, neighbours joined, do not depend on the chunks; time grows linearly.
    """

    def __init__(self, tool_names: Collection[str] | None, *, protocol: bool, schemas: Schemas | None = None) -> None:
        self._names = None if tool_names is None else frozenset(tool_names)
        self._protocol = protocol
        self._schemas: Schemas = schemas or {}
        self._code = CodeTracker(MARKER, quotes=True)
        self._held = ""
        self._calm = False
        self._fenced: FencedCall | None = None if tool_names is None else FencedCall()
        self._block: MarkupBlock | None = None
        self._raw: list[str] = []
        self._plain_json = False
        self._after_call = False

    def feed(self, text: str) -> list[Piece]:
        """Takes the next text; returns what is decided, neighbouring content joined."""
        if (
            self._calm
            and "<" not in text
            and "[" not in text
            and "`" not in text
            and "~" not in text
            and '"' not in text
            and (text.isascii() or ("“" not in text and "”" not in text))
        ):
            if "\n" in text or self._code.at_line_start:
                self._code.pass_plain(text)
            return [("content", text)] if text else []
        out: list[Piece] = []
        self._read(text, out)
        return _joined(out)

    def flush(self) -> list[Piece]:
        """The text is over: what was held is decided now."""
        out: list[Piece] = []
        if self._fenced is not None:
            self._end_fenced(self._fenced, out)
        while self._block is not None:
            self._end_block(self._block, out)
        held, self._held = self._held, ""
        out.append(("content", held))
        return _joined(out)

    def _known(self, name: str) -> bool:
        return self._names is None or name in self._names

    def _possible(self, begun: str) -> bool:
        return self._names is None or any(name.startswith(begun) for name in self._names)

    def _read(self, text: str, out: list[Piece]) -> None:
        text, self._held = self._held + text, ""
        at = 0
        while at < len(text):
            if self._fenced is not None:
                text, at = self._read_start(self._fenced, text, out), 0
                continue
            if self._block is None:
                after = self._read_content(text, at, out)
            else:
                after = self._read_block(self._block, text, at, out)
            if after < 0:
                self._held = text[~after:]
                break
            at = after
        self._calm = not (self._held or self._block or self._fenced or self._after_call) and self._code.plain

    def _read_start(self, fenced: FencedCall, text: str, out: list[Piece]) -> str:
        """Before it is sure that the text is not one fenced call; returns what goes on as ordinary text."""
        released = fenced.feed(text)
        if fenced.state == "rejected":
            self._fenced = None
            return released
        self._code.find(released, 0)
        out.append(("content", released))
        return ""

    def _end_fenced(self, fenced: FencedCall, out: list[Piece]) -> None:
        self._fenced = None
        call = fenced.end(self._known)
        if call is not None:
            out.append(("call", call))
        else:
            self._read(fenced.raw, out)

    def _read_content(self, text: str, at: int, out: list[Piece]) -> int:
        """Reads up to a block, or past what only looked like one; returns where to go on, `~place` to wait there."""
        if self._after_call:
            space = _SPACE.match(text, at)
            start = space.end() if space else at
            found, end = wrapper_close_at(text, start) if text.startswith("<", start) else ("no", start)
            self._after_call = found != "no" or start == len(text)
            if self._after_call:
                self._emit(text[at:start], out)
                return ~start if found == "part" else end
        start = self._code.find(text, at)
        out.append(("content", text[at:start]))
        if start == len(text):
            return start
        match opening_at(text, start):
            case "yes":
                self._begin_block()
                return start
            case "part":
                return ~start
            case "no":
                self._emit(text[start], out)
                return start + 1

    def _begin_block(self) -> None:
        self._raw = []
        self._block = MarkupBlock(known=self._known, possible=self._possible, plain_json=self._plain_json)

    def _read_block(self, block: MarkupBlock, text: str, at: int, out: list[Piece]) -> int:
        end = block.read(text, at)
        self._raw.append(text[at:end])
        if block.progress == "open":
            return end if end == len(text) else ~end
        self._finish(block, "".join(self._raw), out)
        return end

    def _finish(self, block: MarkupBlock, raw: str, out: list[Piece]) -> None:
        """The block is over: its calls, or its text."""
        self._block = None
        calls: list[RawTextCall] = []
        if block.progress != "rejected":
            calls = calls_of(block.drafts, raw=raw, known=self._known, possible=self._possible, schemas=self._schemas)
        if not calls:
            self._emit(raw, out)
        self._after_call = bool(calls)
        out.extend(("call", call) for call in calls)

    def _end_block(self, block: MarkupBlock, out: list[Piece]) -> None:
        """The text ends inside a block: a call that was cut, or JSON whose quotes do not close, which is read again."""
        held, self._held = self._held, ""
        raw = "".join(self._raw) + held
        if not block.end():
            self._plain_json = True
            self._begin_block()
            self._read(raw, out)
        elif not block.drafts and (self._protocol or held.strip()):
            self._block = None
            out.append(("call", RawTextCall("", "", raw, complete=False)))
        else:
            self._finish(block, raw, out)

    def _emit(self, text: str, out: list[Piece]) -> None:
        """Hands on text whatever markers it holds."""
        at = 0
        while (at := self._code.find(text, at)) < len(text):
            self._code.pass_over(text[at])
            at += 1
        out.append(("content", text))


def strip_call_markup(text: str) -> str:
    """The text without any call markup, whatever tool it names, and without space around it; else as it is."""
    parser = TextCallParser(None, protocol=True)
    pieces = parser.feed(text) + parser.flush()
    if all(piece[0] == "content" for piece in pieces):
        return text
    return "".join(piece[1] for piece in pieces if piece[0] == "content").strip()


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Neighbouring content as one piece, none of it empty."""
    out: list[Piece] = []
    texts: list[str] = []
    for piece in (*pieces, None):
        if piece is not None and piece[0] == "content":
            texts.append(piece[1])
            continue
        if joined := "".join(texts):
            out.append(("content", joined))
        texts = []
        if piece is not None:
            out.append(piece)
    return out
