"""MarkupBlock: one block of call markup, read piece by piece into the calls that are written in it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Progress: TypeAlias = Literal["open", "closed", "rejected"]

MAX_TAG = 256
"""Longest tag of call markup, in characters, its attributes included."""

_BARS = re.compile(r"[|｜]+")
_PREFIXES = ("", "|DSML|", "minimax:", "antml:")
_WRAPPERS = ("tool_call", "tool_calls", "function_call", "function_calls")
_CALLS = ("invoke", "function")
_OPENINGS = tuple(prefix + name for prefix in _PREFIXES for name in (*_WRAPPERS, *_CALLS))
_MISTRAL = "[TOOL_CALLS]"

_NAMESPACE = r"(?:[|｜]+DSML[|｜]+|minimax:|antml:)?"
_TAG = re.compile(
    rf"<(?P<close>/?){_NAMESPACE}(?P<name>tool_calls?|function_calls?|invoke|function|parameter|arg_key|arg_value)"
    r"(?P<rest>(?:=|\s)[^<>]*)?>"
)
_NAME = re.compile(r"""(?:^=|\sname\s*=)\s*["']?(?P<name>[^"'\s<>]+)""")
_STRING = re.compile(r"""\sstring\s*=\s*["']?(?P<flag>true|false)""")
_VALUE_END = {
    name: re.compile(rf"</{_NAMESPACE}{name}\s*>|<(?=[^<>]{{0,40}}\Z)") for name in ("parameter", "arg_key", "arg_value")
}
_WORD = re.compile(r"[\w.\-]+")
_SPACE = re.compile(r"\s*")
_FENCE = re.compile(r"```(?:json)?(?=\s)")
_MISTRAL_MARK = re.compile(r"\[(?:CALL_ID\][\w\-]*\[)?ARGS\]")
_JSON_OUTSIDE = re.compile(r'["{}\[\]<]')
_JSON_STRING = re.compile(r'["\\]')


@dataclass
class Draft:
    """One call as it is written. `values` are `(key, text, is_string)`; None where the markup does not tell.

    `payload` is JSON text: the arguments where `name` is set by a tag, else a call or a list of calls.
    `whole`: nothing of what began is left open.
    """

    name: str | None = None
    values: list[tuple[str, str, bool | None]] = field(default_factory=list)
    payload: str | None = None
    whole: bool = False


def opening_at(text: str, at: int) -> Literal["opening", "part", "text"]:
    """Whether a block of call markup begins at `at`, or may begin there once more text is known."""
    window = text[at : at + MAX_TAG]
    if window.startswith("["):
        if window.startswith(_MISTRAL):
            return "opening"
        return "part" if _MISTRAL.startswith(window) else "text"
    found = _TAG.match(window)
    if found:
        known = not found["close"] and _opens(found["name"], found["rest"] or "")
        return "opening" if known else "text"
    if len(window) == MAX_TAG or ">" in window or "<" in window[1:]:
        return "text"
    begun = _BARS.sub("|", window[1:])
    if any(word.startswith(begun) for word in _OPENINGS):
        return "part"
    stem = next((word for word in reversed(_OPENINGS) if begun.startswith(word)), None)
    return "part" if stem is not None and begun[len(stem)] in "= \t\r\n" else "text"


def _opens(name: str, rest: str) -> bool:
    return (name in _WRAPPERS and not rest.strip()) or (name in _CALLS and _NAME.search(rest) is not None)


def closing_at(text: str, at: int) -> tuple[Literal["closing", "part", "text"], int]:
    """Whether a closing tag of a wrapper stands at `at`, and where it ends."""
    window = text[at : at + MAX_TAG]
    found = _TAG.match(window)
    if found:
        return ("closing" if found["close"] else "text"), at + found.end()
    begun = _BARS.sub("|", window[2:]).rstrip()
    part = ">" not in window and ("</".startswith(window) or any(word.startswith(begun) for word in _OPENINGS))
    return ("part" if part and window.startswith("</"[: len(window)]) else "text"), at


_State: TypeAlias = Literal["between", "json", "value"]


class MarkupBlock:
    """Reads one block from its opening marker on. Which names may be called decides `known` (a whole name) and
    `possible` (the beginning of one) where a bare name stands in the markup.

    Closing tags inside JSON strings and inside values do not end anything: a value ends at the closing tag that
    other markup follows. With `plain_json`, JSON ends at the first closing tag, whatever stands around it.
    Time grows linearly with the text. Law: the result depends on the joined text only.
    """

    def __init__(self, known: Callable[[str], bool], possible: Callable[[str], bool], *, plain_json: bool) -> None:
        self.progress: Progress = "open"
        self.drafts: list[Draft] = []
        self._known = known
        self._possible = possible
        self._plain_json = plain_json
        self._state: _State = "between"
        self._stack: list[str] = []
        self._mistral = False
        self._pending = ""
        self._parts: list[str] = []
        self._depth = 0
        self._string = False
        self._escaped = False
        self._key = ""
        self._is_string: bool | None = None
        self._closer = ""

    @property
    def begun(self) -> bool:
        """True once anything but the opening marker of a wrapper was read."""
        return bool(self.drafts) or self._state != "between"

    def feed(self, text: str) -> str:
        """Takes the next text; returns what follows the end of the block, or the part it was rejected at."""
        text, self._pending = self._pending + text, ""
        at = 0
        while at < len(text) and self.progress == "open":
            match self._state:
                case "between":
                    after = self._read_between(text, at)
                case "json":
                    after = self._read_json(text, at)
                case "value":
                    after = self._read_value(text, at)
            if after is None:
                self._pending = text[at:]
                return ""
            at = after
        return text[at:]
