"""The turn's decisions, pure: what a round was, which budget is spent, what comes next."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from turngraph.state.channels import Progress
from turngraph.state.settings import TurnSettings
from turngraph.state.words import FinishKind, StopReason

MAX_CUT_BATCHES = 2
"""How often a batch whose arguments were cut off is answered before the turn is made to finish."""


@dataclass(frozen=True)
class RoundFacts:
    """What one model message was, as far as the turn's course depends on it."""

    calls: int
    cut_calls: int
    text: str
    cut: bool
    finish: FinishKind


@dataclass(frozen=True)
class RunTools:
    """The message carries tool calls: the round is narration, its calls are dispatched."""

    cut: bool


@dataclass(frozen=True)
class AskAgain:
    """Another model call of the same turn with an instruction: after an empty message, or to continue a cut one."""

    why: Literal["empty", "cut"]


@dataclass(frozen=True)
class FinishTurn:
    """The message is the answer."""

    reason: Literal["finish", "truncated"]


@dataclass(frozen=True)
class EmptyTwice:
    """No visible text for the second time: earlier text of this turn, else a forced finish."""


RoundOutcome: TypeAlias = RunTools | AskAgain | FinishTurn | EmptyTwice


def decide_round(facts: RoundFacts, progress: Progress, settings: TurnSettings) -> RoundOutcome:
    """What a round is follows from its calls; the finish reason only says whether output was cut."""
    if facts.calls:
        return RunTools(cut=facts.cut_calls > 0)
    if not facts.text.strip():
        return AskAgain("empty") if progress.get("nudges", 0) == 0 else EmptyTwice()
    if facts.finish == "content_filter":
        return FinishTurn("truncated")  # the rest would be withheld again
    if facts.cut:
        return (
            AskAgain("cut")
            if progress.get("continuations", 0) < _continuations(facts, settings)
            else FinishTurn("truncated")
        )
    return FinishTurn("finish")


def _continuations(facts: RoundFacts, settings: TurnSettings) -> int:
    """A stream that ended without any finish reason is continued once at most; a length cut as often as is set."""
    return min(1, settings.max_continuations) if facts.finish == "missing" else settings.max_continuations


def spent_budget(progress: Progress, settings: TurnSettings, min_rounds: int = 0) -> StopReason | None:
    """The first budget that is spent, or None. `min_rounds` is the most that a capability asks for."""
    if settings.max_seconds is not None and progress.get("seconds", 0.0) >= settings.max_seconds:
        return "max_seconds"
    if settings.max_tokens is not None and progress["usage"]["total_tokens"] >= settings.max_tokens:
        return "max_tokens"
    if progress.get("tool_calls", 0) >= settings.max_tool_calls:
        return "max_tool_calls"
    if progress.get("rounds", 0) >= max(settings.max_rounds, min_rounds):
        return "max_rounds"
    return None


@dataclass(frozen=True)
class GoOn:
    """The loop goes on; `settle` says that the model is to be told now to settle, with so many rounds left."""

    settle: int | None = None


@dataclass(frozen=True)
class ForceFinish:
    reason: StopReason


@dataclass(frozen=True)
class EndNow:
    """The turn ends without another model call: a tool's own answer, or new input that waits."""

    reason: Literal["terminated", "pending_input"]


FoldOutcome: TypeAlias = GoOn | ForceFinish | EndNow


def decide_fold(
    progress: Progress,
    settings: TurnSettings,
    *,
    terminated: bool,
    yields: bool,
    stuck: bool,
    min_rounds: int = 0,
) -> FoldOutcome:
    """What comes after a closed batch. A tool's own end goes first, then new input, then no progress, then budgets."""
    if terminated:
        return EndNow("terminated")
    if yields:
        return EndNow("pending_input")
    if stuck:
        return ForceFinish("no_progress")
    if progress.get("cut_batches", 0) > MAX_CUT_BATCHES:
        return ForceFinish("truncated")
    spent = spent_budget(progress, settings, min_rounds)
    if spent is None:
        return GoOn()
    if spent == "max_rounds" and settings.settlement_rounds:
        over = progress["rounds"] - max(settings.max_rounds, min_rounds)
        left = settings.settlement_rounds - over
        if left > 0:
            return GoOn(settle=left if over == 0 else None)
    return ForceFinish(spent)
