"""Shortens texts to a number of tokens: head and tail stay, the mark between says how much is missing."""

from typing import Any

from turngraph.context import texts
from turngraph.context.tokens import count_text

SMALLEST = 200
"""No text is shortened below this many tokens: mark, head and tail need room."""

_HEAD_SHARE = 2 / 3


def shorten_text(text: str, tokens: int, call_id: str | None = None) -> str:
    """The text in at most `tokens` tokens (at least 60); itself where it fits. `call_id` names the readable original."""
    total = count_text(text)
    if total <= tokens:
        return text
    keep = int(len(text) * tokens / total)
    while keep > 0:
        head = int(keep * _HEAD_SHARE)
        tail = keep - head
        short = text[:head] + texts.left_out(len(text) - keep, call_id, head) + text[len(text) - tail :]
        if count_text(short) <= tokens:
            return short
        keep = int(keep * 0.85) - 8
    return texts.left_out(len(text), call_id, 0)


def shorten_args(args: dict[str, Any], tokens: int) -> dict[str, Any]:
    """Arguments of a call whose long strings are shortened so that all strings together take about `tokens` tokens."""
    total = sum(count_text(leaf) for leaf in _strings(args))
    if total <= tokens:
        return args
    share = tokens / total
    return {key: _shorten_value(value, share) for key, value in args.items()}


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [leaf for each in inner for leaf in _strings(each)]


def _shorten_value(value: Any, share: float) -> Any:
    if isinstance(value, str):
        count = count_text(value)
        return value if count <= 60 else shorten_text(value, max(60, int(count * share)))
    if isinstance(value, dict):
        return {key: _shorten_value(each, share) for key, each in value.items()}
    if isinstance(value, list):
        return [_shorten_value(each, share) for each in value]
    return value
