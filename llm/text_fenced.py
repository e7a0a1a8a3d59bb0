"""FencedCall: whether a whole message is nothing but one call in a fenced block of JSON."""

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

from turngraph.llm.text_dialects import RawTextCall, name_begun, whole_message_call
from turngraph.llm.text_markup import JsonSpan

State: TypeAlias = Literal["blank", "held", "rejected"]

_LINE = r"```[ \t]{0,4}(?:json|tool_calls?|tool)?[ \t]{0,4}"
_HEAD = re.compile(
    _LINE + r"""\r?\n\s{0,16}(?=\{\s{0,16}"(?:name|arguments|parameters|args|type|id)")""",
    re.IGNORECASE,
)
_HEAD_BEGUN = re.compile(
    r"`{1,2}|```[ \t]{0,4}[a-z_]{0,10}|" + _LINE + r"""(?:\r|\r?\n\s{0,16}(?:\{\s{0,16}(?:"[a-z]{0,10})?)?)?""",
    re.IGNORECASE,
)
_NOT_SPACE = re.compile(r"\S")


class FencedCall:
    """Holds the text as long as it can still be one fenced call; lets it go at the first sign that it is not.

    The first key of the object is such a sign, so that other JSON is not held for long.
    Law: `raw` and what `feed` returned, joined, are the text.
    """

    def __init__(self) -> None:
        self.state: State = "blank"
        self._parts: list[str] = []
        self._head: str | None = ""
        self._json = JsonSpan()
        self._payload: list[str] = []
        self._tail = ""

    @property
    def raw(self) -> str:
        """The text that is held."""
        return "".join(self._parts)

    def feed(self, text: str) -> str:
        """Takes the next text; returns what can be no part of a call: all that was held, once it is `rejected`."""
        released = ""
        if self.state == "blank":
            found = _NOT_SPACE.search(text)
            start = found.start() if found else len(text)
            if start == len(text):
                return text
            released, text, self.state = text[:start], text[start:], "held"
        self._parts.append(text)
        if self._fits(text):
            return released
        self.state = "rejected"
        return released + self.raw

    def end(self, known: Callable[[str], bool]) -> RawTextCall | None:
        """The text is over. None where it is no call of a known tool."""
        if self.state != "held" or self._head is not None:
            return None
        payload = "".join(self._payload)
        if not self._json.whole:
            name, told = name_begun(payload)
            return RawTextCall(name, payload, self.raw, complete=False) if told and known(name) else None
        call = whole_message_call(payload, known)
        return RawTextCall(call[0], call[1], self.raw) if call else None

    def _fits(self, text: str) -> bool:
        """False once the text, with `text` added to it, can be no fenced call."""
        if self._head is not None:
            head = self._head + text
            found = _HEAD.match(head)
            if found is None:
                self._head = head
                return _HEAD_BEGUN.fullmatch(head) is not None
            self._head, text = None, head[found.end() :]
        if not self._json.whole:
            text = self._read_json(text)
        self._tail += "".join(text.split())
        return "```".startswith(self._tail)

    def _read_json(self, text: str) -> str:
        """Reads on in the object; returns what stands after its end."""
        at = 0
        while at < len(text) and not self._json.whole:
            end = self._json.read(text, at)
            if end < len(text) and text[end] == "<" and not self._json.whole:
                end += 1
            self._payload.append(text[at:end])
            at = end
        return text[at:]
