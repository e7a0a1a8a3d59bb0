"""The routes: pure functions over state, each with its targets declared, so that the drawing is exact.

A route only maps what the node before it decided, and makes the loop end early while the caller's recursion limit
still covers the way to the end: after a node with `remaining_steps` r, LangGraph can run r - 1 more.
"""

from typing import Literal

from turngraph.state.channels import TurnState

MIN_RECURSION_LIMIT = 5
"""prepare_turn, call_llm, forced_finish, finalize, and the one that LangGraph keeps."""


def _room_for(state: TurnState, steps: int) -> bool:
    """Whether so many more nodes can run under the caller's recursion limit."""
    return state.get("remaining_steps", 10_000) - 1 >= steps


def _forced(state: TurnState) -> Literal["forced_finish", "finalize"]:
    """The forced finish, or straight to the end where not even that fits."""
    return "forced_finish" if _room_for(state, 2) else "finalize"


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
            return "dispatch_tools" if _room_for(state, 4) else _forced(state)
        case "again":
            return "call_llm" if _room_for(state, 3) else _forced(state)
        case "final":
            return "finalize"
        case _:
            return _forced(state)


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
        case "again" if _room_for(state, 3):
            return "call_llm"
        case _:
            return _forced(state)
