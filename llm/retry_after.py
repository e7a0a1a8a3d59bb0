"""Retry-After: how many seconds a provider asked us to wait, in any of the forms in use."""

import math
import re
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST = 60.0
"""Seconds; a provider that asks for more gets no more of our patience."""

_UNITS = {"ms": 0.001, "s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0, "h": 3600.0}
_UNITS |= {"hour": 3600.0, "d": 86400.0, "day": 86400.0, "millisecond": 0.001}
_PART = r"\d+(?:\.\d+)?\s*(?:milliseconds?|ms|seconds?|secs?|minutes?|mins?|hours?|days?|s|m|h|d)(?![a-z])"
_DURATION = re.compile(rf"(?:{_PART}\s*)+", re.I)
_ONE_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.I)
_ASKED = re.compile(
    rf"(?:(?:try|retry)(?:ing)?(?: again| your request)?|wait|retry[ _-]?delay|available again|resets?)"
    rf"\W{{1,3}}(?:in|after|for|until)?\W{{0,3}}(?:about |at least )?((?:{_PART}\s*)+)",
    re.I,
)
_RESETS = (
    "x-ratelimit-reset-after",
    "ratelimit-reset",
    "x-ratelimit-reset",
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-tokens-reset",
    "anthropic-ratelimit-input-tokens-reset",
    "anthropic-ratelimit-output-tokens-reset",
)


def retry_after(headers: Mapping[str, str], delays: Sequence[str], text: str, *, limited: bool) -> float | None:
    """Seconds from 0 to 60, or None where the provider named none.

    `headers` in lower case; `delays` are times that the body names; `text` is what the error says. Reset headers and
    words count only where the failure is a rate limit (`limited`): they stand on other responses too.
    """
    now = _moment(headers.get("date", "")) or time.time()
    asked = _number(headers.get("retry-after-ms", ""), 0.001)
    if asked is None:
        asked = _header(headers.get("retry-after", ""), now)
    if asked is None and limited:
        named = [seconds for delay in delays if (seconds := _duration(delay)) is not None]
        said = _ASKED.search(text)
        asked = max(named, default=None) or (_duration(said.group(1)) if said else None) or _resets(headers, now)
    return None if asked is None else min(max(asked, 0.0), LONGEST)


def _header(value: str, now: float) -> float | None:
    """A header's wait: seconds, a duration (`6m0s`), a date, or a time since the epoch in seconds or milliseconds."""
    number = _number(value, 1.0)
    if number is not None:
        if number > 1e11:
            return number / 1000 - now
        return number - now if number > 1e8 else number
    moment = _moment(value)
    return _duration(value) if moment is None else moment - now


def _resets(headers: Mapping[str, str], now: float) -> float | None:
    """The longest wait of the limits that are spent; of all of them where none says what remains."""
    waits: list[float] = []
    spent: list[float] = []
    for name in _RESETS:
        seconds = _header(headers.get(name, ""), now)
        if seconds is None:
            continue
        waits.append(seconds)
        remaining = headers.get(name.replace("reset", "remaining"))
        if remaining is not None and _number(remaining, 1.0) == 0:
            spent.append(seconds)
    return max(spent or waits, default=None)


def _number(value: str, unit: float) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number * unit if math.isfinite(number) else None


def _duration(value: str) -> float | None:
    """`1m30s`, `20ms`, `7.66 seconds` in seconds."""
    text = value.strip()
    if not _DURATION.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[_unit(unit)] for number, unit in _ONE_PART.findall(text))


def _unit(word: str) -> str:
    lower = word.lower()
    return lower if lower in _UNITS else lower.removesuffix("s")


def _moment(value: str) -> float | None:
    """An HTTP date or an ISO time as seconds since the epoch."""
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = parse(value)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return None
