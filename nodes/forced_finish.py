"""`forced_finish`: one call in which tools cannot be used, told why. Never raises because of our own budget."""

from typing import Any, cast

from langchain_core.messages import AIMessage

from turngraph.nodes import texts
from turngraph.nodes.belt import belt_of
from turngraph.nodes.call_llm import fill, mark, note
from turngraph.nodes.closing import close_calls, finishing_text
from turngraph.nodes.model_call import (
    Answered,
    CallOutcome,
    CallPlan,
    Failed,
    Stopped,
    Tape,
    call_model,
    error_info,
    models_so_far,
)
from turngraph.nodes.parts import Visit
from turngraph.nodes.receipts import kept_context
from turngraph.state.channels import Progress, TurnState, Update
from turngraph.state.receipt import add_usage
from turngraph.state.words import StopReason

FORCED_SECONDS = 60.0
"""The allowance of a forced finish: it has its own, because the turn's time budget may be what is spent."""


async def forced_finish(state: TurnState, visit: Visit) -> Update:
    """Closes what is open, tells the model why, and lets it write the answer; the fallback is finalize's."""
    reason: StopReason = visit.progress.get("reason", "max_rounds")
    number = visit.shown + 1
    emit = visit.emit(number)
    closed = close_calls(state["messages"], visit.turn_id, {}, ("cancelled", texts.not_run(reason)))
    messages = [*state["messages"], *closed]
    told = note(visit, messages[-1].id or "", texts.finish_now(reason))
    tape = Tape(messages, [*state.get("anchors", []), told])
    emit("round_started")
    belt = belt_of(visit, state)
    plan = CallPlan(belt, tool_choice="none", seconds=FORCED_SECONDS, retries=_retries(visit, reason))
    outcome = await call_model(visit, tape, plan, emit)
    message, changes = _read(visit, outcome, number)
    role = "finish" if message is not None else "narration"
    finish_reason = outcome.result.finish if isinstance(outcome, Answered) else "error"
    emit("round_finished", call_role=role, finish_reason=finish_reason, usage=dict(outcome.usage))
    progress = {
        **visit.progress,
        "reason": reason,
        "next": "final",
        "usage": add_usage(visit.progress["usage"], outcome.usage),
        "seconds": visit.seconds(),
        "models": models_so_far(visit.progress, outcome),
        "uncounted": visit.progress["uncounted"] + 1,
        **changes,
    }
    update: Update = {"anchors": [told, *outcome.anchors], "batch": None}
    if message is not None:
        answer = finishing_text([*messages, message], visit.turn_id)
        update |= await fill(visit, Tape([*messages, message], tape.anchors), belt, answer, cast(Progress, progress))
    return {**update, "messages": [*closed, *([message] if message is not None else [])], "progress": progress}


def _retries(visit: Visit, reason: StopReason) -> int:
    """One retry, but none once the time budget is spent: nobody should sit out a provider's wish to wait then."""
    return 0 if reason == "max_seconds" else min(1, visit.settings.max_retries)


def _read(visit: Visit, outcome: CallOutcome, number: int) -> tuple[AIMessage | None, dict[str, Any]]:
    """The answering message, if the call gave one with visible text, and what changes in the progress."""
    changes: dict[str, Any] = {}
    match outcome:
        case Answered(result=result):
            changes["context"] = kept_context(outcome.seen.report)
            partial = result
        case Stopped(partial=partial):
            if outcome.why == "cancelled":
                changes["reason"] = "cancelled"
        case Failed(partial=partial):
            changes["error"] = error_info(outcome)
    if partial is None or not partial.message.text.strip():
        return None, changes
    bare = partial.message.model_copy(update={"tool_calls": [], "invalid_tool_calls": []})
    changes["final"] = {"kind": "round"}
    return mark(bare, visit, number, "finish"), changes
