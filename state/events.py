"""The whole vocabulary of the `custom` stream, on one page. Every event has `type`, `turn_id`, `round`."""

from typing import Any, Literal, Protocol, TypeAlias

from typing_extensions import TypedDict

EventType: TypeAlias = Literal[
    "turn_started",  # model, thread_id
    "round_started",
    "content",  # text
    "thinking",  # text
    "round_finished",  # call_role, finish_reason, usage
    "tool_started",  # call_id, name, args
    "tool_finished",  # call_id, name, status, seconds
    "interaction_requested",  # requests
    "interaction_resolved",  # call_ids
    "checkpoint_folded",  # call_id, folded
    "history_compacted",  # summarized
    "history_trimmed",  # excluded_counts
    "notice",  # code (offline_model, unknown_name, cannot_pause, question_over_window, ...), text
    "turn_finished",  # receipt
]


class Event(TypedDict):
    """The fields that every event has; the rest is named beside its type above."""

    type: EventType
    turn_id: str
    round: int


class Emit(Protocol):
    """Sends one event of the running turn: `emit("content", text="...")`."""

    def __call__(self, type: EventType, /, **fields: Any) -> None: ...
