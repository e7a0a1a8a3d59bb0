"""Shortens texts to a number of tokens: head and tail stay, the mark between says how much is missing."""

from typing import Any

from turngraph.context import texts
from turngraph.context.tokens import count_text

SMALLEST = 200
"""No text is shortened below this many tokens: mark, head and tail need room."""

LEAST_STRING = 60
"""Strings inside arguments are shortened only beyond this many tokens, and never below it."""

_HEAD_SHARE = 2 / 3


def shorten_text(text: str, tokens: int, call_id: str | None = None) -> str:
    """The text in at most `tokens` (60 or more) tokens; itself where it fits. `call_id` names the readable original."""
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
    """Arguments of a call whose long strings take about `tokens` tokens together; keys and short strings stay."""
    total = strings_tokens(args)
    if total <= tokens:
        return args
    share = tokens / total
    return {key: _shorten_value(value, share) for key, value in args.items()}


def strings_tokens(value: Any) -> int:
    """Tokens of the strings in a JSON value that are long enough to be shortened."""
    if isinstance(value, str):
        return count if (count := count_text(value)) > LEAST_STRING else 0
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(strings_tokens(each) for each in inner)


def _shorten_value(value: Any, share: float) -> Any:
    if isinstance(value, str):
        count = count_text(value)
        return value if count <= LEAST_STRING else shorten_text(value, max(LEAST_STRING, int(count * share)))
    if isinstance(value, dict):
        return {key: _shorten_value(each, share) for key, each in value.items()}
    if isinstance(value, list):
        return [_shorten_value(each, share) for each in value]
    return value
