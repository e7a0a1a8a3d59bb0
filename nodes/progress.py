"""The progress of a turn as it is stored and as nodes read it: neither defaults nor what the rest implies is stored."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from turngraph.state.channels import Progress
from turngraph.state.receipt import no_usage

DEFAULTS: Progress = {
    "phase": "running",
    "rounds": 0,
    "uncounted": 0,
    "tool_calls": 0,
    "tool_errors": 0,
    "interactions": 0,
    "usage": no_usage(),
    "seconds": 0.0,
    "nudges": 0,
    "continuations": 0,
    "cut_batches": 0,
    "folds": 0,
    "compactions": 0,
    "summary_calls": 0,
    "calibration": 1.0,
    "models": [],
    "loaded": [],
    "skills": [],
    "guard": {},
}


def lean(progress: Progress) -> Progress:
    """The progress as it is written at every step. Law: `whole(lean(p)) == whole(p)`."""
    defaults = cast(dict[str, Any], DEFAULTS)
    kept = {key: value for key, value in progress.items() if key not in defaults or value != defaults[key]}
    for key, follow in _FOLLOWING.items():
        if isinstance(value := kept.get(key), dict):
            kept[key] = _without(value, follow)
    return cast(Progress, kept)


def whole(stored: Progress) -> Progress:
    """The progress with its defaults and what follows from it; empty where no turn ever started."""
    if not stored:
        return {}
    filled = {**cast(dict[str, Any], DEFAULTS), **stored}
    for key, follow in _FOLLOWING.items():
        if filled.get(key):
            filled[key] = {**follow(filled[key]), **filled[key]}
    return cast(Progress, filled)


def _without(value: dict[str, Any], follow: Callable[[Mapping[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """The record without the fields that the others imply. None of these implies another."""
    implied = follow(value)
    return {key: each for key, each in value.items() if key not in implied or each != implied[key]}


def _of_context(context: Mapping[str, Any]) -> dict[str, Any]:
    """What the rest of a request's report implies: `used`, `free`, and the ids at the edges of what is left out."""
    implied: dict[str, Any] = {}
    if "segments" in context:
        implied["used"] = sum(context["segments"].values())
        if "window" in context and "reserved" in context:
            implied["free"] = max(0, context["window"] - context["reserved"] - implied["used"])
    if "excluded_counts" in context:
        implied["excluded"] = [
            {"id": edges[at], "reason": reason}
            for reason, edges in context["excluded_counts"].items()
            for at in (("first_id",) if edges["count"] == 1 else ("first_id", "last_id"))
        ]
    return implied


def _of_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    implied: dict[str, Any] = {"estimated": False}
    if "input_tokens" in usage and "output_tokens" in usage:
        implied["total_tokens"] = usage["input_tokens"] + usage["output_tokens"]
    return implied


_FOLLOWING = {"context": _of_context, "usage": _of_usage}
