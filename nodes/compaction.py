"""Makes room before a round: old turns become a rolling summary, written by a hidden model call. Never fails a turn."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.language_models import BaseChatModel

from turngraph.context import count_tokens
from turngraph.context.compact import CompactPlan, make_summary, plan_compaction, summary_request
from turngraph.llm.call import CallFailed, ModelRequest, stream_round
from turngraph.llm.profile import effective_profile
from turngraph.nodes.belt import Belt
from turngraph.nodes.model_call import Tape
from turngraph.nodes.parts import Visit
from turngraph.nodes.terms import terms_of
from turngraph.nodes.trace import trace_of
from turngraph.state.anchors import SummaryAnchor
from turngraph.state.channels import Progress
from turngraph.state.events import Emit
from turngraph.state.receipt import Usage, add_usage, no_usage
from turngraph.state.settings import DEFAULT_CONTEXT_WINDOW, TurnSettings
from turngraph.tools.redact import hushed, redact

MAX_SUMMARY_CALLS = 2
"""In one turn, those that gave nothing included."""

SUMMARY_SECONDS = 60.0


@dataclass(frozen=True)
class Written:
    """What a summary call gave: the anchor, or None, and what it cost."""

    anchor: SummaryAnchor | None
    usage: Usage


async def make_room(visit: Visit, tape: Tape, belt: Belt, emit: Emit) -> list[SummaryAnchor]:
    """The summaries that the tape needs before the next call, added to its anchors; counted in the visit's progress.

    Where none comes back nothing changes, and the view drops whole turns instead. CancelledError passes through.
    """
    made: list[SummaryAnchor] = []
    while visit.progress.get("summary_calls", 0) < MAX_SUMMARY_CALLS:
        model, _ = await visit.model()
        plan = plan_compaction(tape.messages, tape.anchors, terms_of(visit, model, belt))
        left = visit.time_left()
        if plan is None or left == 0.0:
            break
        seconds = SUMMARY_SECONDS if left is None else min(SUMMARY_SECONDS, left)
        written = await write_summary(model, visit.windowed(model), plan, seconds, trace_of(visit, "summary"))
        _count(visit, written)
        if written.anchor is None:
            break
        made.append(written.anchor)
        tape.anchors.append(written.anchor)
        emit("history_compacted", summarized=plan.summarized)
    return made


def _count(visit: Visit, written: Written) -> None:
    """The call in the turn's progress, whether it gave a summary or not."""
    before = visit.progress
    counted = {
        **before,
        "usage": add_usage(before["usage"], written.usage),
        "summary_calls": before.get("summary_calls", 0) + 1,
        "compactions": before.get("compactions", 0) + int(written.anchor is not None),
    }
    visit.progress = cast(Progress, counted)


async def write_summary(
    model: BaseChatModel,
    settings: TurnSettings,
    plan: CompactPlan,
    seconds: float = SUMMARY_SECONDS,
    trace: Mapping[str, Any] | None = None,
) -> Written:
    """One call, hidden from every stream, that writes the summary of a plan. Raises nothing but CancelledError."""
    profile = effective_profile(model, settings.model_profile)
    request = ModelRequest(
        messages=summary_request(plan, profile),
        max_output_tokens=settings.max_output_tokens,
        profile=profile,
        text_tools="never",
        max_retries=min(1, settings.max_retries),
        estimate=count_tokens,
        window=settings.context_window or DEFAULT_CONTEXT_WINDOW,
        reshape=lambda learned: summary_request(plan, learned),
        hidden=True,
        trace=trace or {},
        run_name="turngraph summary",
        hushed=hushed,
    )
    try:
        async with asyncio.timeout(seconds):
            result = await stream_round(model, request, lambda *_: None)
    except CallFailed as failed:
        return Written(None, failed.usage)
    except TimeoutError:
        return Written(None, no_usage())
    if result.overflow:
        return Written(None, result.usage)
    return Written(make_summary(plan, result.message.text, redact), result.usage)
