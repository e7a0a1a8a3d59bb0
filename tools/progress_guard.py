"""Notices a turn that goes in circles: the same tool batches with the same results. A pure observer."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from turngraph.state.calls import Call
from turngraph.tools.permission import canonical_args

Verdict: TypeAlias = Literal["go", "correct", "stop"]

_CORRECT_AT = 2
_STOP_AT = 4
_LONGEST_CIRCLE = 4
_KEPT = _LONGEST_CIRCLE * _STOP_AT
_CIRCLES = range(1, _LONGEST_CIRCLE + 1)

_VOLATILE = re.compile(
    r"""
      "(?:[\w-]*(?:timestamp|duration|elapsed|latency|took)[\w-]*|[\w-]*(?:request|trace|span|correlation|run|session)_?id
        |(?:created|updated|fetched)_?at|date|time|now|etag|nonce)"\s*:\s*(?:"[^"]*"|-?[\d.]+(?:[eE][+-]?\d+)?)
    | [0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}
    | \d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?)?(?:\s?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?
    | (?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s)?
      \d{1,2}\s(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\s\d{4}
    | \b\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?\b
    | \b1\d{9}(?:\d{3}|\.\d+)?\b
    | \b\d+(?:[.,]\d+)?\s?(?:ns|µs|us|ms|s|sec|secs|seconds?|min|minutes?)\b
    | \b(?:call|req|request|run|trace|msg|chatcmpl|toolu)[_-][A-Za-z0-9_-]{6,}
    | call_id="[^"]*"
    | 0x[0-9a-fA-F]{6,}
    | \b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{16,}\b
    """,
    re.VERBOSE,
)


def observe(
    snapshot: Mapping[str, Any],
    calls: Sequence[Call] | Sequence[Mapping[str, Any]],
    outcomes: Mapping[str, str],
    polling: Collection[str],
) -> tuple[dict[str, Any], Verdict]:
    """The new snapshot and what it says of the batch that was just closed.

    snapshot: what the last call returned, {} at the beginning of a turn; plain JSON of bounded size. outcomes: the text
    of each call's result by call id. polling: names of tools that may repeat themselves; calls of these are not looked
    at, and a batch of nothing else changes nothing.
    `correct` once when a batch, or a circle of up to four different batches, came for the second time with the same
    results (times, durations and ids of requests aside); `stop` from the fourth time on. Anything new in between
    starts the count again.
    """
    looked_at = [call for call in calls if call["name"] not in polling]
    if not looked_at:
        return dict(snapshot), "go"
    seen = [*snapshot.get("seen", []), signature(looked_at, outcomes)][-_KEPT:]
    times = max(_times(seen, length) for length in _CIRCLES)
    # What lies before the longest circle that may still go on can never count again.
    kept = {"seen": seen[-max(_repeating(seen, length) for length in _CIRCLES) :]}
    if times >= _STOP_AT:
        return kept, "stop"
    newly = times == _CORRECT_AT and times > max(_times(seen[:-1], length) for length in _CIRCLES)
    return kept, "correct" if newly else "go"


def _times(seen: Sequence[int], length: int) -> int:
    """How often the last batch came in the circle of `length` batches that the newest ones form; 1: they form none."""
    repeating = _repeating(seen, length)
    return -(-repeating // length) if repeating >= 2 * length else 1


def _repeating(seen: Sequence[int], length: int) -> int:
    """How many of the newest batches are each equal to the one `length` before, these first `length` included."""
    count = min(length, len(seen))
    while count < len(seen) and seen[-count - 1] == seen[len(seen) - count - 1 + length]:
        count += 1
    return count


def signature(calls: Sequence[Call] | Sequence[Mapping[str, Any]], outcomes: Mapping[str, str]) -> int:
    """One number below 2**32 for a batch: equal for equal calls with equal results, in whatever order."""
    parts = sorted(
        json.dumps([call["name"], canonical_args(call["args"]), mask(outcomes.get(call["id"], ""))]) for call in calls
    )
    return int.from_bytes(hashlib.sha256("\n".join(parts).encode()).digest()[:4])


def mask(text: str) -> str:
    """The text without what changes from call to call and means nothing: times, durations, ids. Law: idempotent."""
    return _VOLATILE.sub("~", text)
