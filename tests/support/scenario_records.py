"""The record of a played scenario, and what of two records has to be the same."""

import re
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage


@dataclass
class Ran:
    """What one input gave, and what the thread held after it. `spoken` and `nodes` are None where the run was cancelled:
    they end anywhere. `tape` is None where the run did not come to an end."""

    events: list[dict[str, Any]] = field(default_factory=list)
    spoken: list[tuple[str, str]] | None = field(default_factory=list)
    nodes: list[str] | None = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    pauses: list[Any] = field(default_factory=list)
    tape: list[dict[str, Any]] | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)


@dataclass
class Played:
    """The record of a whole scenario. `receipts`: those that the thread holds; in a parent, those that events told."""

    ran: list[Ran]
    receipts: list[dict[str, Any]]
    script_left: int
    past_end: int


def plain(message: BaseMessage | dict[str, Any]) -> dict[str, Any]:
    """A message as the JSON that a server sends."""
    return message.model_dump(mode="json") if isinstance(message, BaseMessage) else dict(message)


ID_KEYS = {"id", "turn_id", "call_id", "tool_call_id", "thread_id", "first_id", "last_id", "call_ids", "message_id"}
DROPPED = {"seconds", "namespace", "thread_id"}


def normalised(value: Any) -> Any:
    """The same without times and namespaces, every id a number in the order in which it first appears.

    Ids are replaced inside texts, too: messages for the model may name a call.
    """
    ids: dict[str, str] = {}
    _collect(value, ids)
    pattern = re.compile("|".join(re.escape(each) for each in sorted(ids, key=len, reverse=True)) or r"(?!)")
    return _renamed(value, ids, pattern)


def _collect(value: Any, ids: dict[str, str], key: str = "") -> None:
    match value:
        case dict():
            for name, each in value.items():
                if name not in DROPPED:
                    _collect(each, ids, name)
        case list() | tuple():
            for each in value:
                _collect(each, ids, key)
        case str() if key in ID_KEYS and value:
            ids.setdefault(value, f"<{len(ids) + 1}>")


def _renamed(value: Any, ids: dict[str, str], pattern: re.Pattern[str]) -> Any:
    match value:
        case dict():
            return {
                pattern.sub(lambda found: ids[found[0]], str(name)): _renamed(each, ids, pattern)
                for name, each in value.items()
                if name not in DROPPED
            }
        case list() | tuple():
            return [_renamed(each, ids, pattern) for each in value]
        case str():
            return pattern.sub(lambda found: ids[found[0]], value)
        case _:
            return value


def joined(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events with the texts of neighbouring deltas of one kind and round joined."""
    out: list[dict[str, Any]] = []
    for event in events:
        same = out and event["type"] in ("content", "thinking") and _kind(out[-1]) == _kind(event)
        if same:
            out[-1] = {**out[-1], "text": out[-1]["text"] + event["text"]}
        else:
            out.append(event)
    return out


def _kind(event: dict[str, Any]) -> tuple[Any, ...]:
    return event["type"], event["round"], event["turn_id"]
