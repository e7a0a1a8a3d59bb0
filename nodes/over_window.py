"""A request that is larger than its window even after every cut: by how much, and what of it is too large. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Part: TypeAlias = Literal["instructions", "question", "conversation"]


@dataclass(frozen=True)
class OverWindow:
    """What is too large, what the request needs, and the room that the window has for it, in tokens.

    `instructions`: the system prompt and the tools alone leave no room. `question`: they do, but what must be sent of
    the running turn does not fit beside them. `conversation`: it would fit without what is left of earlier turns.
    """

    part: Part
    needed: int
    room: int


def over_window(report: Mapping[str, Any]) -> OverWindow | None:
    """What a view's report says of a request that does not fit; None where it fits or nothing was reported."""
    needed, room = report.get("used", 0), report.get("window", 0) - report.get("reserved", 0)
    if needed <= room:
        return None
    segments = report.get("segments", {})
    fixed = segments.get("system", 0) + segments.get("tools", 0)
    turn = segments.get("turn", 0) + segments.get("notes", 0)
    part: Part = "instructions" if fixed > room else "question" if fixed + turn > room else "conversation"
    return OverWindow(part, needed, max(0, room))
