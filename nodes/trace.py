"""What a trace says of each model call of a turn: which turn, which round, what for, and what the request held."""

from typing import Any, Literal

from turngraph.context import View
from turngraph.context.report import strip_for_receipt
from turngraph.nodes.parts import Visit

CallPurpose = Literal["round", "forced_finish", "structured_answer", "summary"]


def trace_of(visit: Visit, purpose: CallPurpose, seen: View | None = None) -> dict[str, Any]:
    """Metadata of a model call's run, as plain JSON: `turngraph_turn_id`, `_round`, `_role` and, where the call was
    made from a view, `_view`: its report in the short form, with counts and no text of any message."""
    metadata: dict[str, Any] = {
        "turngraph_turn_id": visit.turn_id,
        "turngraph_round": visit.shown + 1,
        "turngraph_role": purpose,
    }
    if seen is not None:
        metadata["turngraph_view"] = strip_for_receipt(seen.report)
    return metadata
