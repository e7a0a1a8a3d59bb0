"""One pass over an open batch: recall what is known, plan, run, keep what came. The decisions are tools.plan's."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from langchain_core.messages import AIMessage, message_to_dict

from turngraph.nodes import texts
from turngraph.nodes.belt import Belt
from turngraph.nodes.closing import marks_of, outcome
from turngraph.nodes.originals import read_original
from turngraph.nodes.parts import Visit
from turngraph.nodes.run_call import Asks, run_call, stopped_result, tool_context
from turngraph.state.calls import Call, CallOutcome, CallProblem
from turngraph.state.channels import OwnPause, TurnState
from turngraph.state.decisions import Decision
from turngraph.state.words import ToolStatus
from turngraph.tools import texts as tool_texts
from turngraph.tools.claims import ClaimRequest, ClaimState, Fresh, Settled, Started, claim_keys, is_claim_of
from turngraph.tools.parallel import Job, run_many
from turngraph.tools.permission import decide_permission
from turngraph.tools.plan import Answer, BatchFacts, Plan, Run, claim_digest, grants_of, plan_batch
from turngraph.tools.run import RawToolResult


class BatchWork:
    """The calls of one assistant message, and what is known of each."""

    def __init__(self, state: TurnState, visit: Visit, message: AIMessage, belt: Belt) -> None:
        batch = state.get("batch") or {}
        self.state, self.visit, self.message, self.belt = state, visit, message, belt
        self.calls: list[Call] = [
            {"id": c["id"] or "", "name": c["name"], "args": c["args"]} for c in message.tool_calls
        ]
        self.problems = _standing(self.calls, marks_of(message).get("problems", {}), belt)
        self.outcomes: dict[str, CallOutcome] = dict(batch.get("outcomes", {}))
        self.decisions: dict[str, Decision] = dict(batch.get("decisions", {}))
        self.own: dict[str, OwnPause] = dict(batch.get("own", {}))
        self.asked: list[str] = list(batch.get("asked", []))
        self.unknown: dict[str, str] = dict(batch.get("unknown", {}))
        self.counted = 0
        self.errors = 0
        self._recorded = bool(batch)
        self._keys: dict[str, str] = {}
        self._emit = visit.emit(visit.shown)
        self._context = tool_context(visit, state, list(belt.known.values()))

    async def recall(self) -> None:
        """What the journal knows: results of calls that finished, and calls that were started and never finished.

        Of a batch that this run's own model call just gave it can know nothing.
        """
        if not (self._recorded or self.visit.scope.continued):
            return
        claims = await self.visit.journal.lookup(self.visit.thread, self.visit.turn_id)
        for call_id in [call["id"] for call in self.calls if call["id"] not in self.outcomes]:
            match self._claim_in(claims, call_id):
                case Settled(outcome=known):
                    self.outcomes[call_id] = {**known, "call_id": call_id}
                    self.counted += 1
                    self.errors += int(known["status"] in ("error", "unknown"))
                case Started(digest=digest):
                    self.unknown.setdefault(call_id, digest)

    def _claim_in(self, claims: Mapping[str, ClaimState], call_id: str) -> ClaimState | None:
        """The claim that was made for this call, of those that the journal has of the turn."""
        call = next(call for call in self.calls if call["id"] == call_id)
        made_for = claim_digest(call, None)
        for key in claim_keys(call_id, made_for):
            claim = claims.get(key)
            if claim is not None and not isinstance(claim, Fresh) and is_claim_of(claim, made_for):
                self._keys[call_id] = key
                return claim
        return None

    def plan(self) -> Plan:
        """What may happen with each call now; pure over what is known."""
        settings, grants = self.visit.settings, self.state.get("grants", [])
        policies = self.belt.policies()
        facts = BatchFacts(
            policies=policies,
            permission_of=lambda name, args: decide_permission(name, args, policies[name], settings, grants),
            problems=self.problems,
            deferred=self.belt.deferred,
            decisions=self.decisions,
            settled=self.outcomes,
            unknown=self.unknown,
            own=[call_id for call_id, pause in self.own.items() if not pause["answered"]],
            calls_left=settings.max_tool_calls - self.visit.progress["tool_calls"] - self.counted,
            can_pause=self.visit.can_pause,
        )
        return plan_batch(self.calls, facts)

    async def run(self) -> Plan:
        """Answers and runs until nothing more can; gives the plan of what is left to a person.

        Raises CancelledError when cancelled from outside; `outcomes` then holds what finished.
        """
        plan = self.plan()
        while plan.answers or plan.runs:
            self.take(plan.answers)
            await self._record(plan)
            jobs = [Job(run.call["id"], self._job(run), run.policy.effect == "write") for run in self._in_order(plan)]
            await run_many(jobs, self.visit.settings.max_parallel_tools)
            plan = self.plan()
        return plan

    async def _record(self, plan: Plan) -> None:
        """Keeps the batch's message in the journal before its effects: LangGraph may save the step only later."""
        if not self._recorded and any(run.policy.effect != "read" for run in plan.runs):
            record = {"batch": message_to_dict(self.message)}
            await self.visit.journal.update_turn(self.visit.thread, self.visit.turn_id, record)
            self._recorded = True

    def _in_order(self, plan: Plan) -> list[Run]:
        """The runs of a plan in call order, so that calls start in the order in which they were asked for."""
        place = {call["id"]: at for at, call in enumerate(self.calls)}
        return sorted(plan.runs, key=lambda run: place[run.call["id"]])

    def _job(self, run: Run) -> Callable[[], Any]:
        return lambda: self._run(run)

    async def _run(self, run: Run) -> None:
        """One call: claim it, run it, keep its result, settle the claim."""
        call, journal, where = run.call, self.visit.journal, (self.visit.thread, self.visit.turn_id)
        claimed = run.policy.effect != "read"
        if claimed:
            claim = await self._claim(run)
            if isinstance(claim, Settled):
                self.outcomes[call["id"]] = {**claim.outcome, "call_id": call["id"]}
                return
            if isinstance(claim, Started):
                self._keep(outcome(call, "unknown", tool_texts.UNKNOWN_OUTCOME))
                return
            self.unknown.pop(call["id"], None)
        await self._refuse_if_cancelled(call, claimed=claimed)
        self._emit("tool_started", call_id=call["id"], name=call["name"], args=call["args"])
        result = await self._result(run)
        if isinstance(result, Asks):
            self._paused_itself(run, result)
            if claimed and call["id"] in self.own:
                await journal.pause(*where, self._keys[call["id"]])
            return
        if run.note:
            result["content"] = _noted(run.note, result["content"])
        try:
            if claimed:
                await journal.settle(*where, {**result, "call_id": self._keys[call["id"]]})
        except asyncio.CancelledError:  # it does not make a finished call a cancelled one
            self._keep(result)
            raise
        self._keep(result)

    async def _refuse_if_cancelled(self, call: Call, *, claimed: bool) -> None:
        """Raises CancelledError where the run's cancel came already, but has not reached this task yet."""
        if not self.visit.scope.cancelled:
            return
        if claimed and not self.visit.scope.lost:  # else the claim is the other runner's to judge
            await self.visit.journal.release(self.visit.thread, self.visit.turn_id, [self._keys[call["id"]]])
        raise asyncio.CancelledError

    async def _claim(self, run: Run) -> ClaimState:
        """The claim of the call that is about to run. One under its id that was made for another call is none of it."""
        call, where = run.call, (self.visit.thread, self.visit.turn_id)
        if run.retry:
            await self.visit.journal.release(*where, [self._keys.get(call["id"], call["id"])])
        claim: ClaimState = Fresh()
        for key in claim_keys(call["id"], run.digest):
            self._keys[call["id"]] = key
            request = ClaimRequest(key, call["name"], run.digest)
            claim = (await self.visit.journal.claim(*where, [request]))[key]
            if isinstance(claim, Fresh) or is_claim_of(claim, run.digest):
                break
        return claim

    async def _result(self, run: Run) -> CallOutcome | Asks:
        """What the tool gave; `read_tool_result` reads the thread's own originals."""
        call = run.call
        if call["name"] == "read_tool_result":
            return read_original(self.state, call, self.visit.settings.max_tool_output_tokens)
        started = time.monotonic()

        def stopped(raw: RawToolResult) -> None:
            self._keep(stopped_result(self.visit, call, run.policy, raw, time.monotonic() - started))

        resumes = self.own[call["id"]]["resumes"] if call["id"] in self.own else []
        tool = self.belt.known[call["name"]]
        return await run_call(self.visit, self._context, tool, call, run.policy, resumes, stopped)

    def _paused_itself(self, run: Run, asks: Asks) -> None:
        """A tool's own `interrupt()`: the call waits, where it can; reads are repeated freely and so may not ask."""
        call, pause = run.call, asks.pause
        if run.policy.effect == "read" or not self.visit.can_pause:
            text = tool_texts.NO_CHECKPOINTER if not self.visit.can_pause else texts.READ_MAY_NOT_ASK
            self._keep(outcome(call, "error", text))
            return
        before = self.own[call["id"]]["resumes"] if call["id"] in self.own else []
        self.own[call["id"]] = {
            "payload": pause.value,
            "resumes": before[: pause.count],
            "ids": [each.id for each in pause.interrupts],
            "answered": False,
        }

    def take(self, answers: Iterable[Answer]) -> None:
        """Calls that are answered without being run."""
        for answer in answers:
            if answer.code == "cannot_pause":
                self._emit("notice", code="cannot_pause", text=answer.outcome["content"])
            self._keep(answer.outcome, counts=answer.code == "decided")

    def _keep(self, result: CallOutcome, *, counts: bool = True) -> None:
        """The call has its outcome: kept, counted, and said."""
        self.outcomes[result["call_id"]] = result
        self.counted += int(counts)
        self.errors += int(result["status"] in ("error", "unknown"))
        if self.visit.scope.lost:  # whoever took the thread over tells how the call ended
            return
        self._emit(
            "tool_finished",
            call_id=result["call_id"],
            name=result["name"],
            status=result["status"],
            seconds=result["seconds"],
        )

    def give_up(self, otherwise: tuple[ToolStatus, str]) -> None:
        """Every call that has no outcome gets this one: the run was stopped."""
        for call in self.calls:
            if call["id"] not in self.outcomes:
                self._keep(outcome(call, *otherwise), counts=False)

    def role_of(self, call_id: str) -> str:
        """Whether a call's result is a person's own words, which no fold or cut may touch."""
        return "answer" if cast(Any, self.decisions.get(call_id, {})).get("type") == "respond" else "tool"

    def grants(self) -> list[Any]:
        """The standing grants that this batch's decisions gave."""
        return grants_of(self.calls, self.decisions, self.visit.turn_id)


def _standing(calls: list[Call], problems: dict[str, CallProblem], belt: Belt) -> dict[str, CallProblem]:
    """The problems that hold here. That a deferred tool was not offered is the plan's to answer: it can be loaded."""
    deferred = {call["id"] for call in calls if call["name"] in belt.deferred}
    return {
        call_id: problem
        for call_id, problem in problems.items()
        if problem["code"] != "unknown_tool" or call_id not in deferred
    }


def _noted(note: str, content: Any) -> Any:
    """The result with what is to be said before it."""
    return f"{note}\n{content}" if isinstance(content, str) else [{"type": "text", "text": note}, *content]
