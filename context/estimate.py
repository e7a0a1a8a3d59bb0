"""Estimates tokens of a text without a vocabulary. Errs high, on every script, on code and on dense JSON."""

import re
from bisect import bisect_left
from math import ceil

_PIECES = re.compile(
    r"(?P<word>[A-Z]?[a-z]+)|(?P<capitals>[A-Z]+)|(?P<digits>[0-9]+)|(?P<line>[\r\n]+)|(?P<mark>[!-~])"
    r"|(?P<wide>[^\x00-\x7f]+)"
)
_LETTERS = {"word": 4, "capitals": 1, "digits": 2, "line": 8, "mark": 1}
"""How many characters of a piece one token holds; a piece is at least one token."""

_PLANES = (
    ("\u06ff", 0.75),  # Latin with marks, Greek, Cyrillic, Hebrew, Arabic
    ("\u0eff", 1.0),  # scripts of India, Thai, Lao
    ("\u0fff", 1.8),  # Tibetan, of which vocabularies hold single bytes
    ("\u1fff", 1.2),  # Burmese, Georgian, Khmer, Mongolian
    ("\uffff", 1.5),  # symbols, kana, Chinese, Hangul
    ("\U0010ffff", 3.0),  # emoji, rare characters
)
_LAST_OF_PLANE = [last for last, _ in _PLANES]
_WEIGHTS = [weight for _, weight in _PLANES]
"""Tokens of a character by the plane that it stands in: last character of the plane, tokens."""

LONG_WORD = 14
"""Beyond this many letters a run is rarely a word but encoded data, of which a token holds about two letters."""


def estimate_text(text: str) -> int:
    """Tokens of a text, at least as many as o200k_base gives for prose, code, JSON and text in any living script.

    Linear in the length of the text.
    """
    total = ceil(text.count("  ") / 4)
    for found in _PIECES.finditer(text):
        kind, length = found.lastgroup or "", found.end() - found.start()
        if kind == "wide":
            total += _wide(found.group())
        elif kind == "word" and length > LONG_WORD:
            total += ceil(length / 2)
        else:
            total += ceil(length / _LETTERS[kind])
    return total


def _wide(text: str) -> int:
    """Tokens of text outside ASCII, by the plane that its characters stand in."""
    return ceil(sum(_weight(character) for character in text))


def _weight(character: str) -> float:
    """Tokens of one character, from the table of planes."""
    return _WEIGHTS[bisect_left(_LAST_OF_PLANE, character)]
