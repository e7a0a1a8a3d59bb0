"""The closed vocabularies of the domain: every Literal that more than one room uses."""

from typing import Literal, TypeAlias

Status: TypeAlias = Literal["completed", "incomplete", "abandoned", "cancelled", "error"]
"""How a turn ended, as its receipt says it."""

StopReason: TypeAlias = Literal[
    "finish",
    "terminated",
    "max_rounds",
    "max_tool_calls",
    "max_tokens",
    "max_seconds",
    "no_progress",
    "provider_error",
    "context_window",
    "empty_response",
    "truncated",
    "pending_input",
    "user_abandoned",
    "cancelled",
    "crashed",
]
"""Why a turn ended. A lower recursion limit of the caller's counts as `max_rounds`."""

CallRole: TypeAlias = Literal["narration", "finish"]
"""What a round was: its message carries tool calls (narration) or it does not (finish)."""

FinishKind: TypeAlias = Literal["stop", "tool_calls", "length", "context_window", "content_filter", "missing", "other"]
"""A provider's finish reason, normalised. It only says whether output was cut."""

Permission: TypeAlias = Literal["allow", "ask", "deny"]
PermissionMode: TypeAlias = Literal["declared", "ask_all", "full_access"]
Effect: TypeAlias = Literal["read", "write"]
"""What a tool declares of its effect; None (undeclared) is treated as an effect that may run in parallel."""

TextTools: TypeAlias = Literal["auto", "always", "never"]
OnPendingInput: TypeAlias = Literal["yield", "steer"]

ToolStatus: TypeAlias = Literal["ok", "error", "denied", "cancelled", "unknown"]
"""How one tool call ended, in events and in the stored tool message."""

ExcludedReason: TypeAlias = Literal["out_of_budget", "summarized", "folded", "shortened", "empty"]
"""Why a stored message is not in the view as it stands on the tape."""

FaultKind: TypeAlias = Literal[
    "overflow",
    "tools_unsupported",
    "parameter_unsupported",
    "rate_limit",
    "transport",
    "auth",
    "invalid_request",
    "bad_generation",
    "other",
]
"""What a provider's failure means for the turn."""

STATE_VERSION = 1
"""Version of the stored state; a later version reads every earlier one."""
