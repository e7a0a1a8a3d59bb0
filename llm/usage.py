"""Usage: what one response cost, from whatever its provider reported, however often and however broken."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from turngraph.state.receipt import Usage

_LARGEST = 2**53
"""Counts beyond it are noise, and would not survive JSON or msgpack."""

_INPUT = (("prompt_tokens",), ("input_tokens",))
_OUTPUT = (("completion_tokens",), ("output_tokens",))
_TOTAL = (("total_tokens",),)
_REASONING = (
    ("completion_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
    ("output_token_details", "reasoning"),
    ("reasoning_tokens",),
)
_CACHED = (
    ("prompt_tokens_details", "cached_tokens"),
    ("input_tokens_details", "cached_tokens"),
    ("input_token_details", "cache_read"),
    ("prompt_cache_hit_tokens",),
    ("cache_read_input_tokens",),
    ("cached_tokens",),
)
_PATHS = {"input": _INPUT, "output": _OUTPUT, "total": _TOTAL, "reasoning": _REASONING, "cached": _CACHED}


class UsageMeter:
    """The usage of one response, observed as often as its provider reports it.

    Reports are running totals: each field counts with its largest value, never with the sum. Laws: the order of
    reports does not matter, a report twice is a report once, `total_tokens == input_tokens + output_tokens`,
    `cached_tokens <= input_tokens` and `reasoning_tokens <= output_tokens`.
    """

    def __init__(self) -> None:
        self._most: dict[str, int] = {}

    def observe(self, raw: Mapping[str, Any] | None) -> None:
        """Takes an OpenAI `usage` object or LangChain's `usage_metadata`; what is no count in it is passed over."""
        if not isinstance(raw, Mapping):
            return
        for field, paths in _PATHS.items():
            found = [count for path in paths if (count := _count(_at(raw, path))) is not None]
            if found:
                self._most[field] = max(*found, self._most.get(field, 0))

    @property
    def reported(self) -> bool:
        """True once a report named how many tokens went in or came out, or both together."""
        return any(self._most.get(field) for field in ("input", "output", "total"))

    def result(self, estimate: Callable[[], tuple[int, int]]) -> Usage:
        """The response's usage. `estimate() -> (input, output)` in tokens is asked only for what was not reported.

        No input and no output that was charged is ever zero in truth, so a reported zero beside an estimate above
        zero counts as not reported. A total above input plus output holds reasoning that the output left out.
        """
        taken, made, estimated = self._both(estimate)
        reasoning = self._most.get("reasoning")
        total = self._most.get("total", 0)
        if total > taken + made:
            made = total - taken
        elif reasoning is not None and reasoning > made:
            made += reasoning
        usage: Usage = {
            "input_tokens": taken,
            "output_tokens": made,
            "total_tokens": taken + made,
            "estimated": estimated,
        }
        if reasoning is not None:
            usage["reasoning_tokens"] = min(reasoning, made)
        if (cached := self._most.get("cached")) is not None:
            usage["cached_tokens"] = min(cached, taken)
        return usage

    def _both(self, estimate: Callable[[], tuple[int, int]]) -> tuple[int, int, bool]:
        """Input and output tokens, and whether one of them is an estimate."""
        taken, made = self._most.get("input", 0), self._most.get("output", 0)
        if taken and made:
            return taken, made, False
        total = self._most.get("total", 0)
        if taken and total > taken:
            return taken, total - taken, False
        if made and total > made:
            return total - made, made, False
        guessed_in, guessed_out = (_count(each) or 0 for each in estimate())
        if not taken and not made and total:
            made = min(guessed_out, total)
            return total - made, made, True
        estimated = (not taken and guessed_in > 0) or (not made and guessed_out > 0) or not self.reported
        return taken or guessed_in, made or guessed_out, estimated


def _at(raw: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = raw
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _count(value: Any) -> int | None:
    """A token count, or None for what is none: NaN, infinity, a negative, a bool, text that is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return int(number) if math.isfinite(number) and 0 <= number <= _LARGEST else None
