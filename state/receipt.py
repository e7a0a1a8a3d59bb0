"""The receipt: what one turn did and how it ended."""

from typing import Any

from typing_extensions import TypedDict

from turngraph.state.words import ExcludedReason, Status, StopReason


class Usage(TypedDict, total=False):
    """Tokens of model calls. `estimated` is True where at least one call reported none and was counted by us."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    estimated: bool
    reasoning_tokens: int
    cached_tokens: int


class Excluded(TypedDict):
    """One stored message that the model did not see as it stands, and why."""

    id: str
    reason: ExcludedReason


class ContextReport(TypedDict, total=False):
    """Tokens of the last request of a turn. Law: `used == sum(segments.values())`.

    `excluded` in `View.report` lists each message; in stored receipts it is `excluded_counts`
    (reason -> {count, first_id, last_id}) and `excluded` holds at most those first and last ids.
    """

    window: int
    reserved: int
    used: int
    free: int
    segments: dict[str, int]
    excluded: list[Excluded]
    excluded_counts: dict[str, dict[str, Any]]


class ErrorInfo(TypedDict):
    """An error as a receipt shows it: redacted text, never a traceback."""

    type: str
    message: str
    retryable: bool


class TurnReceipt(TypedDict, total=False):
    """What a turn did. `seconds` is work, pauses not counted; `rounds` is completed `call_llm` rounds."""

    turn_id: str
    status: Status
    stop_reason: StopReason
    rounds: int
    tool_calls: int
    tool_errors: int
    interactions: int
    usage: Usage
    seconds: float
    model: str
    models: list[str]
    folds: int
    compactions: int
    context: ContextReport
    error: ErrorInfo | None
    structured_error: str


def no_usage() -> Usage:
    """A usage of nothing."""
    return {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0, "estimated": False}


def add_usage(left: Usage, right: Usage) -> Usage:
    """The sum of two calls' usage; estimated if either is. Associative, with `no_usage()` as its zero."""
    total: Usage = {
        "input_tokens": left.get("input_tokens", 0) + right.get("input_tokens", 0),
        "output_tokens": left.get("output_tokens", 0) + right.get("output_tokens", 0),
        "total_tokens": left.get("total_tokens", 0) + right.get("total_tokens", 0),
        "estimated": left.get("estimated", False) or right.get("estimated", False),
    }
    for key in ("reasoning_tokens", "cached_tokens"):
        if key in left or key in right:
            total[key] = left.get(key, 0) + right.get(key, 0)
    return total
