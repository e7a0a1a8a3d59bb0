"""The progress of a turn as it is stored and as nodes read it: what stands at its default is not stored. Pure."""

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
    return cast(Progress, kept)


def whole(stored: Progress) -> Progress:
    """The progress with its defaults; empty where no turn ever started."""
    return {**DEFAULTS, **stored} if stored else {}
