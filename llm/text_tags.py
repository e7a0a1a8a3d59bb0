"""The tags of call markup: which ones there are, and whether one stands, or may come to stand, at a position."""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

MAX_TAG = 256
"""Longest tag of call markup, in characters, its attributes included."""

MISTRAL = "[TOOL_CALLS]"

MARKER = r"<(?=[/|｜a-z]|\Z)|\[(?=T|\Z)"
"""What begins a tag, for a search through text."""

WRAPPERS = frozenset({"tool_call", "tool_calls", "function_call", "function_calls"})
CALLS = frozenset({"invoke", "function"})
VALUES = frozenset({"parameter", "arg_key", "arg_value"})

_PREFIX = r"(?:[|｜]+DSML[|｜]+|minimax:|antml:)?"
_TAG = re.compile(
    rf"<(?P<close>/?){_PREFIX}(?P<name>tool_calls?|function_calls?|invoke|function|parameter|arg_key|arg_value)"
    r"(?P<rest>(?:=|\s)[^<>]*)?>"
)
_OPENINGS = tuple(
    prefix + name for prefix in ("", "|DSML|", "minimax:", "antml:") for name in sorted(WRAPPERS | CALLS, reverse=True)
)
_BARS = re.compile(r"[|｜]+")
_NAME = re.compile(r"""(?:\A=|\sname\s*=)\s*["']?(?P<name>[^"'\s<>=]+)["']?""")
_STRING = re.compile(r"""\sstring\s*=\s*["']?(?P<flag>true|false)""")
_VALUE_END = {name: re.compile(rf"</{_PREFIX}{name}\s*>|<(?=/?[^<>]{{0,40}}\Z)") for name in VALUES}

Found: TypeAlias = Literal["yes", "part", "no"]
"""It stands there; what is known of the text may be its beginning; it does not."""


@dataclass(frozen=True)
class Tag:
    """One whole tag. `key` is the name that it carries; `is_string` what DSML says of the value that follows."""

    name: str
    closes: bool
    key: str | None
    is_string: bool | None
    end: int


def tag_at(text: str, at: int) -> Tag | None:
    """The whole tag of call markup at position `at`."""
    found = _TAG.match(text, at, at + MAX_TAG)
    if found is None:
        return None
    rest = found["rest"] or ""
    key, flag = _NAME.search(rest), _STRING.search(rest)
    return Tag(
        name=found["name"],
        closes=bool(found["close"]),
        key=key["name"] if key else None,
        is_string=flag["flag"] == "true" if flag else None,
        end=found.end(),
    )


def is_open_ended(text: str, at: int) -> bool:
    """True where a tag begins at `at` that the end of the text cuts off."""
    window = text[at : at + MAX_TAG]
    return len(window) < MAX_TAG and ">" not in window and "<" not in window[1:]


def opening_at(text: str, at: int) -> Found:
    """Whether a block of call markup begins at `at`, which is a `MARKER`."""
    if text[at] == "[":
        window = text[at : at + len(MISTRAL)]
        return "yes" if window == MISTRAL else "part" if MISTRAL.startswith(window) else "no"
    tag = tag_at(text, at)
    if tag is not None:
        return "yes" if not tag.closes and (tag.name in WRAPPERS or (tag.name in CALLS and tag.key)) else "no"
    return "part" if is_open_ended(text, at) and _begins_opening(text[at + 1 :]) else "no"


def wrapper_close_at(text: str, at: int) -> tuple[Found, int]:
    """Whether the closing tag of a wrapper stands at the `<` at `at`, and where it ends."""
    tag = tag_at(text, at)
    if tag is not None:
        return ("yes" if tag.closes and tag.name in WRAPPERS else "no"), tag.end
    begun = text[at + 1 :]
    part = is_open_ended(text, at) and (not begun or (begun[0] == "/" and _begins_opening(begun[1:])))
    return ("part" if part else "no"), at


def value_end(name: str, text: str, at: int) -> tuple[Found, int, int]:
    """The closing tag that ends a value (`part`: may be one): its start and its end.

    It must be followed by other markup, since a value may hold closing tags of its own.
    """
    while found := _VALUE_END[name].search(text, at):
        if found.group() == "<":
            return "part", found.start(), len(text)
        window = text[found.end() : found.end() + MAX_TAG]
        after = window.lstrip()
        if after.startswith("<") and tag_at(after, 0):
            return "yes", found.start(), found.end()
        if len(window) < MAX_TAG and (not after or (after.startswith("<") and is_open_ended(after, 0))):
            return "part", found.start(), found.end()
        at = found.end()
    return "no", len(text), len(text)


def _begins_opening(begun: str) -> bool:
    """True where the text after `<` may become an opening tag."""
    begun = _BARS.sub("|", begun)
    for word in _OPENINGS:
        if word.startswith(begun) or (begun.startswith(word) and begun[len(word)] in "= \t\r\n"):
            return True
    return False
