"""Text that is safe and short enough for a terminal. Pure."""

import json
import re
from collections.abc import Mapping
from typing import Any

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_DIRECTION = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with control characters and lone surrogates replaced by U+FFFD; newlines and tabs stay.

    What a model or a tool wrote must not move the cursor, set the title or clear the screen. Law: character by
    character, so that joining visible deltas gives the visible text (a carriage return before a newline included).
    """
    return _SURROGATE.sub("\ufffd", _CONTROL.sub(lambda found: "" if found[0] == "\r" else "\ufffd", text))


def one_line(text: str, limit: int = 100) -> str:
    """The text on one line of at most `limit` characters; characters that turn the reading direction are spelt out."""
    flat = _DIRECTION.sub(lambda found: f"\\u{ord(found[0]):04x}", visible(" ".join(text.split())))
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def call_text(name: str, args: Mapping[str, Any], limit: int = 160) -> str:
    """A call as `name(key="value", ...)`, on one line."""
    inner = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False, default=str)}" for key, value in args.items())
    return one_line(f"{name}({inner})", limit)


def seconds_text(seconds: float) -> str:
    """Seconds as a person reads them: 0.04 s, 12.3 s, 3 min 05 s."""
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


def plural(count: int, word: str) -> str:
    """1 round, 2 rounds."""
    return f"{count:,} {word}{'' if count == 1 else 's'}"
