"""One model call of a turn, streamed as events: the shared rim of `call_llm` and `forced_finish`."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, BaseMessage

from turngraph.context import View, count_tokens, view
from turngraph.context.facts import facts_of
from turngraph.context.tokens import warm_up
from turngraph.llm.call import CallFailed, ModelRequest, RoundResult, StreamProgress, stream_round
from turngraph.llm.fault_overflow import stated_limit
from turngraph.llm.profile import effective_profile
from turngraph.nodes import texts
from turngraph.nodes.belt import Belt
from turngraph.nodes.emit import DeltaEvents, later_here
from turngraph.nodes.over_window import over_window
from turngraph.nodes.parts import Visit
from turngraph.nodes.trace import trace_of
from turngraph.state.anchors import Anchor
from turngraph.state.channels import Progress
from turngraph.state.errors import ProviderFault
from turngraph.state.events import Emit
from turngraph.state.receipt import ErrorInfo, Usage, add_usage, no_usage
from turngraph.state.settings import DEFAULT_CONTEXT_WINDOW, ModelProfile, TurnSettings
from turngraph.tools.redact import describe_error, hushed

SURE_OF_STATED = 0.9
"""How much of a window that a provider names is used: its tokens are not counted as ours are."""

MIN_CONTEXT_WINDOW = 512


@dataclass(frozen=True)
class Answered:
    """The model answered. `models` are all that were tried, the one that answered last."""

    result: RoundResult
    seen: View
    anchors: list[Anchor]
    models: list[str]
    usage: Usage


@dataclass(frozen=True)
class Failed:
    """Every try failed; `partial` is what was streamed before the stream broke.

    `seen` is the first view that did not fit its window, by our own count, or else the last one that was sent.
    """

    fault: ProviderFault
    error: BaseException
    partial: RoundResult | None
    anchors: list[Anchor]
    models: list[str]
    usage: Usage
    seen: View


@dataclass(frozen=True)
class Stopped:
    """The call was cut short from our side: the time budget, or the run was cancelled."""

    why: Literal["max_seconds", "cancelled"]
    partial: RoundResult | None
    anchors: list[Anchor]
    models: list[str]
    usage: Usage


def error_info(failed: Failed) -> ErrorInfo:
    """The failure as a receipt shows it."""
    return {
        "type": type(failed.error).__name__,
        "message": describe_error(failed.error),
        "retryable": failed.fault.retryable,
    }


CallOutcome: TypeAlias = Answered | Failed | Stopped


@dataclass
class Tape:
    """What a view is made of, with the anchors that this call adds."""

    messages: Sequence[AnyMessage | BaseMessage]
    anchors: list[Anchor]


@dataclass(frozen=True)
class CallPlan:
    """How a call is to be made: with which tools, whether they can be used, and how long it may take (seconds)."""

    belt: Belt
    tool_choice: Literal["auto", "none"] = "auto"
    seconds: float | None = None
    retries: int | None = None


def make_view(visit: Visit, tape: Tape, belt: Belt, settings: TurnSettings, profile: ModelProfile) -> View:
    """The view of the tape for one model; cuts that it made are added to the tape's anchors."""
    seen = view(
        tape.messages,
        tape.anchors,
        settings,
        belt.offered,
        blocks=belt.blocks,
        profile=profile,
        calibration=visit.progress.get("calibration", 1.0),
    )
    tape.anchors.extend(seen.new_anchors)
    return seen


def report_cuts(emit: Emit, seen: View) -> None:
    """Says which messages the new cuts of a view left out."""
    if any(anchor["kind"] in ("trim", "shorten", "fold") for anchor in seen.new_anchors):
        counts: dict[str, int] = {}
        for entry in seen.report.get("excluded", []):
            counts[entry["reason"]] = counts.get(entry["reason"], 0) + 1
        emit("history_trimmed", excluded_counts=counts)


async def call_model(visit: Visit, tape: Tape, plan: CallPlan, emit: Emit) -> CallOutcome:
    """Calls the turn's model, then its fallbacks, makes room once on overflow, and streams events all the while."""
    await warm_up()
    before = len(tape.anchors)
    usage = no_usage()
    tried: list[str] = []
    failure: CallFailed | None = None
    overflowed = False
    deadline = None if plan.seconds is None else asyncio.get_running_loop().time() + plan.seconds
    tries = _Tries(visit, tape, plan, emit)
    candidates = [await visit.model(), *await visit.fallbacks()]
    for model, name in candidates:
        settings = visit.windowed(model)
        for _attempt in range(2):
            progress = StreamProgress()
            tried = [*tried, name] if name not in tried else tried
            try:
                with DeltaEvents(emit, visit.settings.stream_interval_ms, later=later_here()) as deltas:
                    async with asyncio.timeout_at(deadline):
                        result = await tries.once(model, settings, progress, deltas)
            except (asyncio.CancelledError, TimeoutError) as stop:
                why: Literal["max_seconds", "cancelled"] = (
                    "max_seconds" if isinstance(stop, TimeoutError) else "cancelled"
                )
                partial = progress.partial()
                usage = usage if partial is None else add_usage(usage, partial.usage)
                return Stopped(why, partial, tape.anchors[before:], tried, usage)
            except CallFailed as failed:
                failure, usage = failed, add_usage(usage, failed.usage)
                if failed.fault.kind != "overflow" or overflowed:
                    break
            else:
                usage = add_usage(usage, result.usage)
                if not result.overflow or result.message.text:
                    return Answered(result, tries.views[-1], tape.anchors[before:], tried, usage)
                if overflowed:
                    return _silent(tape.anchors[before:], tried, usage, tries.blamed)
            overflowed = True
            settings = _smaller(settings, failure)
        if failure is not None and (failure.partial is not None or failure.fault.kind == "overflow"):
            break
    assert failure is not None, "every try that did not answer failed"
    error = failure.__cause__ or failure
    return Failed(failure.fault, error, failure.partial, tape.anchors[before:], tried, usage, tries.blamed)


def _silent(anchors: list[Anchor], tried: list[str], usage: Usage, seen: View) -> Failed:
    """The model cut its input twice without raising an error."""
    error = RuntimeError("The conversation does not fit the model, which cut it silently.")
    return Failed(ProviderFault("overflow"), error, None, anchors, tried, usage, seen)


def _smaller(settings: TurnSettings, failure: CallFailed | None) -> TurnSettings:
    """Settings for the one retry after an overflow: the real window is what the provider says, else half."""
    window = settings.context_window or DEFAULT_CONTEXT_WINDOW
    stated = None if failure is None else stated_limit(str(failure.__cause__))
    real = int(stated * SURE_OF_STATED) if stated is not None and stated < window else window // 2
    return settings.model_copy(update={"context_window": max(MIN_CONTEXT_WINDOW, real)})


@dataclass
class _Tries:
    """The tries of one call: what they are made from, and the views that they sent, newest last."""

    visit: Visit
    tape: Tape
    plan: CallPlan
    emit: Emit
    views: list[View] = field(default_factory=list)

    async def once(
        self, model: BaseChatModel, settings: TurnSettings, progress: StreamProgress, deltas: DeltaEvents
    ) -> RoundResult:
        """One try with one model: view, request, stream."""
        profile = effective_profile(model, settings.model_profile)
        first = self._see(settings, profile)
        plan = self.plan
        request = ModelRequest(
            messages=first.messages,
            tools=plan.belt.offered,
            tool_choice=plan.tool_choice,
            temperature=settings.temperature,
            max_output_tokens=settings.max_output_tokens,
            profile=profile,
            text_tools=settings.text_tools,
            taken_ids=taken_ids(self.tape.messages) | self.visit.scope.claimed,
            max_retries=settings.max_retries if plan.retries is None else plan.retries,
            estimate=count_tokens,
            window=settings.context_window or DEFAULT_CONTEXT_WINDOW,
            response_format=self.visit.parts.response_format,
            reshape=lambda learned: self._see(settings, learned).messages,
            trace=trace_of(self.visit, "round" if plan.tool_choice == "auto" else "forced_finish", first),
            run_name=None if plan.tool_choice == "auto" else "turngraph forced finish",
            hushed=hushed,
        )
        return await stream_round(model, request, deltas, progress)

    @property
    def blamed(self) -> View:
        """The view that shows best why nothing came of the call."""
        return next((view for view in self.views if over_window(view.report)), self.views[-1])

    def _see(self, settings: TurnSettings, profile: ModelProfile) -> View:
        """The next view; says what it leaves out, and once that it does not fit."""
        seen = make_view(self.visit, self.tape, self.plan.belt, settings, profile)
        report_cuts(self.emit, seen)
        known = [self.visit.progress.get("context", {}), *(view.report for view in self.views)]
        over = over_window(seen.report)
        if over is not None and not any(map(over_window, known)):
            self.emit("notice", code=f"{over.part}_over_window", text=texts.does_not_fit(over))
        self.views.append(seen)
        return seen


def models_so_far(progress: Progress, outcome: CallOutcome) -> list[str]:
    """Every model that the turn tried, each once, the one that was asked last at the end."""
    return [*(name for name in progress["models"] if name not in outcome.models), *outcome.models]


def taken_ids(messages: Sequence[Any]) -> frozenset[str]:
    """Every tool call id on the tape."""
    return frozenset(call_id for message in messages for call_id in facts_of(message).call_ids if call_id)
