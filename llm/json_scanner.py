"""JsonScanner: how far a JSON text has come, while it arrives in pieces."""

import re
from typing import Literal, TypeAlias

Extent: TypeAlias = Literal["blank", "open", "whole", "stray"]
"""Nothing but space; begun; its first bracket or quote is closed again; whole, with more text that is no payload."""

_IN_STRING = re.compile(r'["\\]')
_OUTSIDE = re.compile(r'["{}\[\]]')
_NOT_SPACE = re.compile(r"\S")


class JsonScanner:
    """Follows one payload, each character read once, whatever pieces it arrives in.

    A bare number or word is `open` for ever, since it shows no end. Brackets are counted, not matched: whether the
    text is valid is the parser's question. Law: `extent` depends on the joined text only, not on how it was cut.
    """

    def __init__(self) -> None:
        self.extent: Extent = "blank"
        self._opener = ""
        self._depth = 0
        self._string = False
        self._escaped = False

    def feed(self, text: str, at: int = 0) -> int:
        """Reads on from position `at`; returns the position where the next payload starts, else the end."""
        while at < len(text):
            match self.extent:
                case "blank":
                    at = self._begin(text, at)
                case "open":
                    at = self._go_on(text, at)
                case "whole":
                    found = _NOT_SPACE.search(text, at)
                    if found is None:
                        return len(text)
                    if self.opens_next(text, at):
                        return found.start()
                    self.extent = "stray"
                case "stray":
                    return len(text)
        return at

    def opens_next(self, text: str, at: int) -> bool:
        """True where the text from `at` can only be a new payload: this one is whole and another one begins."""
        if self.extent != "whole":
            return False
        found = _NOT_SPACE.search(text, at)
        return found is not None and found.group() in ("{", self._opener)

    def _begin(self, text: str, at: int) -> int:
        found = _NOT_SPACE.search(text, at)
        if found is None:
            return len(text)
        self.extent = "open"
        self._opener = found.group() if found.group() in '{["' else ""
        return found.start()

    def _go_on(self, text: str, at: int) -> int:
        if not self._opener:
            return len(text)
        if self._escaped:
            self._escaped = False
            return at + 1
        found = (_IN_STRING if self._string else _OUTSIDE).search(text, at)
        if found is None:
            return len(text)
        match found.group():
            case "\\":
                self._escaped = True
            case '"':
                self._string = not self._string
            case "{" | "[":
                self._depth += 1
            case _:
                self._depth -= 1
        if self._depth <= 0 and not self._string and not self._escaped:
            self.extent = "whole"
        return found.end()
