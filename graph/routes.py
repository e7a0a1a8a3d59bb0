"""The routes: pure functions over state, each with its targets declared, so that the drawing is exact.

A route only maps what the node before it decided. That the loop ends early while the caller's recursion limit still
covers the way to the end is decided once, when the node decides (`within_limit`), and not by the routes: LangGraph
also asks them outside of a run, for `update_state`, where no limit says anything.
"""

from typing import Literal

from langchain_core.messages import AIMessage

from turngraph.state.channels import Next, TurnState

MIN_RECURSION_LIMIT = 5
"""prepare_turn, call_llm, forced_finish, finalize, and the one that LangGraph keeps."""

_STEPS: dict[Next, int] = {"tools": 4, "again": 3, "forced": 2}
"""How many nodes must still be able to run to the end of a turn that goes this way."""


def within_limit(decided: Next, remaining: int) -> Next:
    """The way that is decided, or the longest one that the caller's recursion limit still covers.

    After a node with `remaining_steps` r, LangGraph can run r - 1 more.
    """
    room = remaining - 1
    if room >= _STEPS.get(decided, 1):
        return decided
    return "forced" if room >= _STEPS["forced"] else "final"


def route_after_call_llm(
    state: TurnState,
) -> Literal["dispatch_tools", "interrupt", "call_llm", "finalize", "forced_finish"]:
    """Calls are dispatched; an empty or cut message is asked for again; an answer ends the turn.

    `interrupt` is taken when the tape was edited from outside (`update_state(..., as_node="call_llm")`) while a batch
    waits for a person: the pause stays.
    """
    if (state.get("batch") or {}).get("waiting"):
        return "interrupt"
    match state["progress"].get("next"):
        case "tools":
            return "dispatch_tools"
        case "again":
            return "call_llm"
        case "final":
            return "finalize"
        case "forced":
            return "forced_finish"
        case _:  # written from outside in the node's name
            return "dispatch_tools" if _has_calls(state) else "forced_finish"


def route_after_dispatch_tools(state: TurnState) -> Literal["interrupt", "fold_checkpoint"]:
    """A batch that waits for a person pauses; a settled one closes its round."""
    batch = state.get("batch") or {}
    return "interrupt" if batch.get("waiting") else "fold_checkpoint"


def route_after_interrupt(
    state: TurnState,
) -> Literal["dispatch_tools", "fold_checkpoint", "interrupt", "finalize"]:
    """Approved and edited calls run; a refused or partly given answer asks again; abandoning ends the turn."""
    match state["progress"].get("next"):
        case "dispatch":
            return "dispatch_tools"
        case "fold":
            return "fold_checkpoint"
        case "final":
            return "finalize"
        case _:
            return "interrupt"


def route_after_fold_checkpoint(state: TurnState) -> Literal["call_llm", "forced_finish", "finalize"]:
    """The loop goes on while budget and steps are left."""
    match state["progress"].get("next"):
        case "final":
            return "finalize"
        case "again":
            return "call_llm"
        case _:
            return "forced_finish"


def _has_calls(state: TurnState) -> bool:
    """Whether the tape ends with tool calls."""
    tape = state.get("messages") or []
    return bool(tape) and isinstance(tape[-1], AIMessage) and bool(tape[-1].tool_calls)
