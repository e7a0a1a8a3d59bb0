"""InlineThinkFilter: tells reasoning between inline think tags from visible text, while it streams."""

import re
from itertools import groupby
from operator import itemgetter
from typing import Literal, TypeAlias

from turngraph.llm.text_code import CodeTracker

Kind: TypeAlias = Literal["content", "thinking"]
Piece: TypeAlias = tuple[Kind, str]

MAX_TAG = 24
"""Longest tag, in characters; also the bound of what is held back. A longer tag is text."""

_ATTRIBUTES = r"""(?:\s+[\w:.-]+\s*=\s*(?:"[^"<>]*"|'[^'<>]*'|[^\s"'<>=/]+))*"""
_OPENING = re.compile(rf"<think(?:ing)?{_ATTRIBUTES}\s*(?P<empty>/?)>", re.ASCII | re.IGNORECASE)
_CLOSING = re.compile(r"</\s*think(?:ing)?\s*>", re.ASCII | re.IGNORECASE)

_NAME_BEGUN = r"t(?:h(?:i(?:n(?:k(?:i(?:ng?)?)?)?)?)?)?"
_OPENING_BEGUN = re.compile(
    rf"""<(?:{_NAME_BEGUN}|think(?:ing)?{_ATTRIBUTES}
    (?:\s+(?:[\w:.-]+\s*(?:=\s*(?:"[^"<>]*|'[^'<>]*|[^\s"'<>=/]*))?)?|\s*/)?)?""",
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
_CLOSING_BEGUN = re.compile(
    rf"<(?:/(?:\s*(?:{_NAME_BEGUN}|think(?:ing)?\s*)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_TAG_START = r"<(?=[/tT]|\Z)"
_CLOSING_START = re.compile(r"<(?=/|\Z)")
_SPACE = re.compile(r"\s*")

_Tag: TypeAlias = Literal["open", "close", "empty", "part", "text"]


class InlineThinkFilter:
    """Splits streamed text into `("content", text)` and `("thinking", text)` pieces.

    Tags are `<think>` and `<thinking>`, in any case, with attributes and space after the name (`<think >`, and
    `</ think>`, but not `< think>`: there the `<` of `a < b` would have to wait). `<think/>` is an empty block.
    No other name counts: `<thought>` or `<reasoning>` may be what the user asked to see.
    In visible text, tags inside code fences and code spans are text. Inside a block only the closing tag of either
    name matters, the first one ends the block, and opening tags are text, but for one that repeats the tag the block
    began with. A closing tag without a block is not shown and sets `saw_stray_close`.
    White space after a closing tag is dropped as long as no visible text came before it.

    At most `MAX_TAG` characters are held back, and only what can still become a tag. `opened`: the text begins inside
    a block. Text without a closing tag is then all thinking.

    Laws: the joined text of each kind does not depend on the chunks; pieces of one call alternate in kind; nothing
    but tags and the white space named above is lost; time grows linearly with the text.
    """

    def __init__(self, *, opened: bool = False) -> None:
        self.saw_stray_close = False
        """A closing tag came with no block open: the chat template may have opened one."""
        self._kind: Kind = "thinking" if opened else "content"
        self._code = CodeTracker(_TAG_START)
        self._held = ""
        self._calm = False
        """Text without tags and fences can be handed on as it is."""
        self._block_blank = True
        self._content_blank = True
        self._dropping = False

    @property
    def unclosed(self) -> bool:
        """True while a block is open; after `flush`, the reasoning was cut off or never closed."""
        return self._kind == "thinking"

    def feed(self, chunk: str) -> list[Piece]:
        """Takes the next text; returns what is decided, in order, neighbours of one kind joined."""
        if self._calm and "<" not in chunk:
            if self._kind == "thinking":
                return [("thinking", chunk)] if chunk else []
            if "`" not in chunk and "~" not in chunk:
                if "\n" in chunk or self._code.at_line_start:
                    self._code.pass_plain(chunk)
                return [("content", chunk)] if chunk else []
        return self._read(chunk)

    def flush(self) -> list[Piece]:
        """The text is over: what was held back is text."""
        held, self._held = self._held, ""
        return [(self._kind, held)] if held else []

    def _read(self, chunk: str) -> list[Piece]:
        text, self._held = self._held + chunk, ""
        out: list[Piece] = []
        at = 0
        while at < len(text):
            at = self._read_block(text, at, out) if self._kind == "thinking" else self._read_content(text, at, out)
        blank = self._block_blank if self._kind == "thinking" else self._content_blank
        self._calm = not (self._held or blank) and (self._kind == "thinking" or self._code.plain)
        return _joined(out)

    def _read_block(self, text: str, at: int, out: list[Piece]) -> int:
        """Reads up to a tag or past it; returns where to go on."""
        start = _end_of_space(text, at) if self._block_blank else at
        repeats = self._block_blank and text.startswith("<", start)
        if not repeats:
            found = _CLOSING_START.search(text, start)
            start = found.start() if found else len(text)
            self._block_blank = self._block_blank and (start == at or text[at:start].isspace())
        out.append(("thinking", text[at:start]))
        if start == len(text):
            return start
        tag, end = _tag_at(text, start, opening=repeats)
        match tag:
            case "close":
                self._kind = "content"
                self._dropping = self._content_blank
            case "part":
                self._held = text[start:]
            case "text" | "empty":
                out.append(("thinking", text[start:end]))
                self._block_blank = False
            case "open":
                pass
        return end

    def _read_content(self, text: str, at: int, out: list[Piece]) -> int:
        """Reads up to a tag or past it; returns where to go on."""
        if self._dropping:
            at = _end_of_space(text, at)
            self._dropping = at == len(text)
        start = self._code.find(text, at)
        self._content_blank = self._content_blank and (start == at or text[at:start].isspace())
        out.append(("content", text[at:start]))
        if start == len(text):
            return start
        tag, end = _tag_at(text, start, opening=True)
        match tag:
            case "open":
                self._kind = "thinking"
                self._block_blank = True
            case "close" | "empty":
                self.saw_stray_close = self.saw_stray_close or tag == "close"
                self._dropping = self._content_blank
            case "part":
                self._held = text[start:]
            case "text":
                out.append(("content", text[start:end]))
                self._content_blank = False
                self._code.pass_over(text[start:end])
        return end


def split_think(text: str, *, opened: bool = False) -> tuple[str, str]:
    """`(content, thinking)` of a whole text, by the same parser."""
    parser = InlineThinkFilter(opened=opened)
    pieces = parser.feed(text) + parser.flush()
    return (
        "".join(each for kind, each in pieces if kind == "content"),
        "".join(each for kind, each in pieces if kind == "thinking"),
    )


def _end_of_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _tag_at(text: str, start: int, *, opening: bool) -> tuple[_Tag, int]:
    """What stands at the `<` at `start`, and where it ends; opening tags only where they are sought."""
    window = text[start : start + MAX_TAG]
    if found := _CLOSING.match(window):
        return "close", start + found.end()
    if opening and (found := _OPENING.match(window)):
        return ("empty" if found["empty"] else "open"), start + found.end()
    if len(window) < MAX_TAG and (_CLOSING_BEGUN.fullmatch(window) or (opening and _OPENING_BEGUN.fullmatch(window))):
        return "part", len(text)
    return "text", start + 1


def _joined(pieces: list[Piece]) -> list[Piece]:
    """Neighbours of one kind as one piece, none of them empty."""
    out: list[Piece] = []
    for kind, group in groupby((piece for piece in pieces if piece[1]), key=itemgetter(0)):
        out.append((kind, "".join(text for _, text in group)))
    return out
