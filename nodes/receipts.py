"""Receipts of turns, from their progress. Pure."""

from typing import Any

from turngraph.context.report import strip_for_receipt
from turngraph.state.channels import Progress
from turngraph.state.receipt import ContextReport, TurnReceipt, no_usage
from turngraph.state.words import Status, StopReason

_STATUS: dict[StopReason, Status] = {
    "finish": "completed",
    "terminated": "completed",
    "user_abandoned": "abandoned",
    "cancelled": "cancelled",
    "crashed": "error",
}


def status_of(reason: StopReason, *, answered: bool = True) -> Status:
    """The status that a stop reason means; a provider's failure in the first round (no answer) is an error."""
    if reason == "provider_error" and not answered:
        return "error"
    return _STATUS.get(reason, "incomplete")


def make_receipt(progress: Progress, reason: StopReason, status: Status, seconds: float) -> TurnReceipt:
    """The receipt of a turn that ends with this reason."""
    models = progress.get("models", [])
    receipt: TurnReceipt = {
        "turn_id": progress["turn_id"],
        "status": status,
        "stop_reason": reason,
        "rounds": progress.get("rounds", 0),
        "tool_calls": progress.get("tool_calls", 0),
        "tool_errors": progress.get("tool_errors", 0),
        "interactions": progress.get("interactions", 0),
        "usage": progress.get("usage", no_usage()),
        "seconds": seconds,
        "model": models[-1] if models else "",
        "folds": progress.get("folds", 0),
        "compactions": progress.get("compactions", 0),
        "context": whole_context(progress.get("context")),
        "error": progress.get("error"),
    }
    if len(models) > 1:
        receipt["models"] = models
    if "structured_error" in progress:
        receipt["structured_error"] = progress["structured_error"]
    return receipt


def kept_context(report: ContextReport) -> ContextReport:
    """A report as progress carries it from step to step: counts instead of lists, and nothing that is zero or empty."""
    short = strip_for_receipt(report)
    segments = {name: tokens for name, tokens in short["segments"].items() if tokens}
    kept: ContextReport = {**short, "segments": segments}
    if not short["excluded"]:
        del kept["excluded"], kept["excluded_counts"]
    return kept


def whole_context(kept: ContextReport | None) -> ContextReport:
    """A kept report as receipts show it; empty where the turn never got as far as a request."""
    return {"excluded": [], "excluded_counts": {}, **kept} if kept else {}


def late_receipt(progress: Progress, record: dict[str, Any] | None, *, paused: bool) -> TurnReceipt:
    """The receipt of a turn that never reached `finalize`, written by the next one.

    A turn that waited for a person was walked away from; one whose failure was recorded says so; else it crashed.
    """
    merged: Progress = {**progress}
    if record and record.get("error"):
        merged["error"] = record["error"]
    if paused:
        return make_receipt(merged, "user_abandoned", "abandoned", merged.get("seconds", 0.0))
    stopped: StopReason = "cancelled" if merged.get("reason") == "cancelled" else "crashed"
    reason: StopReason = (record or {}).get("reason") or stopped
    return make_receipt(merged, reason, status_of(reason, answered=False), merged.get("seconds", 0.0))
