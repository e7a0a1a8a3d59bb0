"""Text that can be stored and sent: without NUL and lone surrogates, whatever a provider cut where."""

import re
from typing import Any

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean_text(text: str) -> str:
    """The text without NUL and lone surrogates; a pair of surrogates becomes its character."""
    if not _UNSTORABLE.search(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return joined.replace("\0", "")


def clean_value(value: Any) -> Any:
    """A plain JSON value with every text in it clean, keys included."""
    match value:
        case str():
            return clean_text(value)
        case list():
            return [clean_value(each) for each in value]
        case dict():
            return {clean_text(str(key)): clean_value(each) for key, each in value.items()}
        case _:
            return value


class PairJoiner:
    """Cleans one text that comes in pieces, each of which may end in the middle of a character of two code units.

    Law: however a text is cut, the pieces given out join to `clean_text` of the whole. At most one code unit is held
    back; at the end it is alone, and no part of the text.
    """

    def __init__(self) -> None:
        self._high = ""

    def feed(self, text: str) -> str:
        """The next piece, clean."""
        if self._high:
            text, self._high = self._high + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._high = text[:-1], text[-1]
        return clean_text(text)
