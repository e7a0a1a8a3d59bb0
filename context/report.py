"""Reports what a request holds and what it leaves out, in full and in the short form that is stored."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from turngraph.context.budget import Budget
from turngraph.context.render import Segment
from turngraph.state.receipt import ContextReport, Excluded
from turngraph.state.words import ExcludedReason


def make_report(
    budget: Budget,
    counted: Mapping[Segment, int],
    excluded: Mapping[str, ExcludedReason],
    order: Sequence[str],
) -> ContextReport:
    """The report of a request, in the provider's tokens. Law: `used == sum(segments.values())`.

    `counted` is our own count by segment; `order` the keys of the tape. Segments: `system` (the one system message),
    `tools` (schemas), `summary`, `history` (earlier turns), `turn` (the running turn), `notes` (our instructions).
    """
    segments: dict[str, int] = {name: budget.billed(counted.get(name, 0)) for name in get_args(Segment)}
    used = sum(segments.values())
    listed: list[Excluded] = [{"id": key, "reason": excluded[key]} for key in order if key in excluded]
    return {
        "window": budget.window,
        "reserved": budget.reserved,
        "used": used,
        "free": max(0, budget.window - budget.reserved - used),
        "segments": segments,
        "excluded": listed,
    }


def strip_for_receipt(report: ContextReport) -> ContextReport:
    """The report as receipts, events and traces carry it: per reason a count and the first and last id.

    `excluded` keeps those first and last ids only, so its size does not grow with the thread. Idempotent.
    """
    if "excluded_counts" in report:
        return report
    counts: dict[str, dict[str, Any]] = {}
    edges: dict[str, list[Excluded]] = {}
    for entry in report.get("excluded", []):
        reason = entry["reason"]
        if reason not in counts:
            counts[reason] = {"count": 1, "first_id": entry["id"], "last_id": entry["id"]}
            edges[reason] = [entry]
        else:
            counts[reason]["count"] += 1
            counts[reason]["last_id"] = entry["id"]
            edges[reason][1:] = [entry]
    stripped: ContextReport = {**report, "excluded": [entry for pair in edges.values() for entry in pair]}
    stripped["excluded_counts"] = counts
    return stripped
