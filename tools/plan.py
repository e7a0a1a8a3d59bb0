"""What may happen with each call of a batch now: run, wait for a person, be answered at once, or be held. Pure."""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from turngraph.state.calls import Call, CallOutcome, CallProblem
from turngraph.state.channels import Grant
from turngraph.state.decisions import Decision
from turngraph.state.words import Permission, ToolStatus
from turngraph.tools import texts
from turngraph.tools.applied import EndTurn, RunCall, SettleCall, apply_decision
from turngraph.tools.ask import ASK_USER, Question, parse_questions
from turngraph.tools.permission import digest, make_grant
from turngraph.tools.policy import ToolPolicy

AnswerCode: TypeAlias = Literal[
    "bad_call",
    "unknown_tool",
    "not_loaded",
    "denied",
    "cannot_pause",
    "over_budget",
    "unknown_outcome",
    "decided",
    "abandoned",
]
"""Why a call is answered without being run. `decided`: a person rejected it, or answered in its place."""


@dataclass(frozen=True)
class Run:
    """A call that may run now, under its own id.

    `call` is what runs (edited where a person edited it), `digest` what it is claimed under, `note` what stands
    before its result. `retry`: it was started before with unknown outcome, and a person approved running it again.
    """

    call: Call
    policy: ToolPolicy
    digest: str
    note: str = ""
    retry: bool = False


@dataclass(frozen=True)
class Wait:
    """A call that waits for a person. `digest` binds the decision; `unknown`: it was started and nobody knows more."""

    call: Call
    kind: Literal["permission", "ask_user"]
    digest: str
    unknown: bool = False
    questions: tuple[Question, ...] = ()


@dataclass(frozen=True)
class Hold:
    """A write that may run, but not before an earlier call that still waits."""

    call: Call


@dataclass(frozen=True)
class Own:
    """A call whose tool called LangGraph's `interrupt()` itself and has no answer yet."""

    call: Call


@dataclass(frozen=True)
class Answer:
    """A call that is answered without being run."""

    outcome: CallOutcome
    code: AnswerCode


Step: TypeAlias = Run | Wait | Hold | Own | Answer


@dataclass(frozen=True)
class Plan:
    """The unsettled calls of a batch, each in exactly one of these, every list in call order.

    `reads` run together in one gather; `parallel` run side by side; `writes` run one after the other in this order
    (and stop where one of them pauses: plan again then). `held` run when what they wait for is settled.
    """

    reads: tuple[Run, ...] = ()
    parallel: tuple[Run, ...] = ()
    writes: tuple[Run, ...] = ()
    waiting: tuple[Wait, ...] = ()
    own: tuple[Own, ...] = ()
    held: tuple[Hold, ...] = ()
    answers: tuple[Answer, ...] = ()

    @property
    def runs(self) -> tuple[Run, ...]:
        """Everything that may run now."""
        return (*self.reads, *self.parallel, *self.writes)

    @property
    def empty(self) -> bool:
        """Whether every call of the batch is settled."""
        return not (self.runs or self.waiting or self.own or self.held or self.answers)


@dataclass(frozen=True)
class BatchFacts:
    """What is known of a batch when it is planned.

    problems: of calls that can never run, by call id. policies: of the tools that may be executed, by name. deferred:
    names that must be loaded first. permission_of: the rule for one (name, arguments). decisions: a person's, by call
    id. settled: ids of calls that have their outcome. unknown: calls that were claimed and never settled, with the
    digest of that claim. own: ids of calls whose tool paused itself and has no answer yet. calls_left: how many of the
    unsettled calls the budget covers (a call is counted once it is settled). can_pause: is there a checkpointer.
    """

    policies: Mapping[str, ToolPolicy]
    permission_of: Callable[[str, Mapping[str, Any]], Permission]
    problems: Mapping[str, CallProblem] = field(default_factory=dict)
    deferred: Collection[str] = ()
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    settled: Collection[str] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    own: Collection[str] = ()
    calls_left: int = 1_000_000
    can_pause: bool = True


def plan_batch(calls: Sequence[Call], facts: BatchFacts) -> Plan:
    """What may happen now with each call of a batch that has no outcome yet.

    Laws: each unsettled call is in exactly one part of the plan; with all calls settled the plan is empty; nothing that
    waits or was refused runs; a write never runs before an earlier call that waits nor out of call order; the calls
    that run, wait or were decided on are at most `calls_left`, the tools' own pauses aside.
    """
    left = facts.calls_left
    barrier = False
    steps: list[Step] = []
    for call in calls:
        if call["id"] in facts.settled:
            continue
        step: Step = _step(call, facts, left)
        left -= int(takes_budget(step))
        if isinstance(step, Run) and barrier and step.policy.effect == "write":
            step = Hold(call)
        barrier = barrier or isinstance(step, Wait | Own)
        steps.append(step)
    runs = [step for step in steps if isinstance(step, Run)]
    return Plan(
        reads=tuple(run for run in runs if run.policy.effect == "read"),
        parallel=tuple(run for run in runs if run.policy.effect is None),
        writes=tuple(run for run in runs if run.policy.effect == "write"),
        waiting=tuple(step for step in steps if isinstance(step, Wait)),
        own=tuple(step for step in steps if isinstance(step, Own)),
        held=tuple(step for step in steps if isinstance(step, Hold)),
        answers=tuple(step for step in steps if isinstance(step, Answer)),
    )


def takes_budget(step: Step) -> bool:
    """Whether a call counts against `max_tool_calls`: it ran, will run, or a person decides on it."""
    return not isinstance(step, Answer) or step.code == "decided"


def _step(call: Call, facts: BatchFacts, left: int) -> Run | Wait | Own | Answer:
    """What happens with one call, the order among writes aside."""
    name, call_id = call["name"], call["id"]
    policy = facts.policies.get(name)
    if problem := facts.problems.get(call_id):
        code: AnswerCode = "unknown_tool" if problem["code"] == "unknown_tool" else "bad_call"
        return _answer(call, "error", problem["text"], code)
    if call_id in facts.own:
        return Own(call)
    permission = facts.permission_of(name, call["args"]) if policy else "deny"
    decision = _covering(call, facts)
    if _is_unknown(call, facts):
        asks = decision is not None or (permission == "ask" and facts.can_pause)
        if permission == "deny" or left < 1 or not asks:
            return _answer(call, "unknown", texts.UNKNOWN_OUTCOME, "unknown_outcome")
    if policy is None:
        if name in facts.deferred:
            return _answer(call, "error", texts.not_loaded(name), "not_loaded")
        return _answer(call, "error", texts.unknown_tool(name, facts.policies), "unknown_tool")
    if permission == "deny":
        return _answer(call, "denied", texts.DENIED, "denied")
    if left < 1:
        return _answer(call, "error", texts.OVER_BUDGET, "over_budget")
    if name == ASK_USER:
        return _question(call, facts, decision)
    if decision is not None:
        return _decided(call, decision, facts)
    if permission == "ask":
        if not facts.can_pause:
            return _answer(call, "denied", texts.NO_CHECKPOINTER, "cannot_pause")
        return Wait(call, "permission", claim_digest(call, _before(call, facts)), _is_unknown(call, facts))
    return Run(call, policy, claim_digest(call, None))


def _is_unknown(call: Call, facts: BatchFacts) -> bool:
    """Whether the call was claimed and nobody knows how it ended. Reads are never claimed, questions never started.

    The effect that the call declares does not matter here: what was claimed may have been an edited call.
    """
    return call["id"] in facts.unknown and call["name"] != ASK_USER


def _before(call: Call, facts: BatchFacts) -> str | None:
    """The claim of unknown outcome that this call would be run after, if any."""
    return facts.unknown[call["id"]] if _is_unknown(call, facts) else None


def _question(call: Call, facts: BatchFacts, decision: Decision | None) -> Wait | Answer:
    """A call of `ask_user`: it waits, or has its answer, or cannot be asked."""
    questions = parse_questions(call["args"])
    if not isinstance(questions, list):
        return _answer(call, "error", questions["text"], "bad_call")
    if decision is not None:
        match apply_decision(call, decision, questions):
            case SettleCall(status=status, text=text):
                return _answer(call, status, text, "decided")
            case EndTurn():
                return _answer(call, "cancelled", texts.ABANDONED, "abandoned")
            case RunCall():
                pass  # a question cannot be run: it is asked again
    if not facts.can_pause:
        return _answer(call, "denied", texts.NO_CHECKPOINTER, "cannot_pause")
    return Wait(call, "ask_user", claim_digest(call, None), questions=tuple(questions))


def _decided(call: Call, decision: Decision, facts: BatchFacts) -> Run | Answer:
    """A call that a person decided on. What an edit names must be a tool that may run, too."""
    unknown = _is_unknown(call, facts)
    match apply_decision(call, decision):
        case SettleCall(status="denied", text=text) if unknown:
            return _answer(call, "unknown", f"{texts.UNKNOWN_OUTCOME}\n{text}", "decided")
        case SettleCall(status=status, text=text):
            return _answer(call, status, text, "decided")
        case EndTurn():
            return _answer(call, "cancelled", texts.ABANDONED, "abandoned")
        case RunCall(call=ran, note=note):
            policy = facts.policies.get(ran["name"])
            if policy is None or ran["name"] == ASK_USER:
                told = texts.unknown_tool(ran["name"], facts.policies)
                return _answer(call, "error", f"{note}\n{told}", "unknown_tool")
            if facts.permission_of(ran["name"], ran["args"]) == "deny":
                return _answer(call, "denied", f"{note}\n{texts.DENIED}", "denied")
            return Run(ran, policy, claim_digest(call, _before(call, facts)), note, unknown)


def _covering(call: Call, facts: BatchFacts) -> Decision | None:
    """The decision on this call, where it was made for exactly this call as it stands now.

    One made for other arguments, or before the outcome became unknown, does not count: the person is asked again.
    """
    decision = facts.decisions.get(call["id"])
    if decision is None:
        return None
    bound = cast(Mapping[str, Any], decision).get("digest", claim_digest(call, None))
    return decision if bound == claim_digest(call, _before(call, facts)) else None


def claim_digest(call: Call, unknown_claim: str | None) -> str:
    """What a call is claimed, and its approval bound, under.

    `unknown_claim`: the digest of an earlier claim of unknown outcome. Running again is another thing to approve, so it
    has another digest, and an approval of the first run never covers a second one, however often the process dies.
    """
    plain = digest(call["name"], call["args"])
    if unknown_claim is None:
        return plain
    return f"{plain}-{hashlib.sha256(f'{plain} after {unknown_claim}'.encode()).hexdigest()[:16]}"


def grants_of(calls: Sequence[Call], decisions: Mapping[str, Decision], turn_id: str) -> list[Grant]:
    """The standing grants that the `always` decisions on these calls give."""
    return [
        make_grant(call["name"], call["args"], cast(Any, decision)["scope"], turn_id)
        for call in calls
        if (decision := decisions.get(call["id"])) is not None and decision["type"] == "always"
    ]


def _answer(call: Call, status: ToolStatus, text: str, code: AnswerCode) -> Answer:
    return Answer(
        {"call_id": call["id"], "name": call["name"], "status": status, "content": text, "seconds": 0.0}, code
    )
