"""Any interleaving of messages, answers, cancels, crashes, continues and failing tools leaves what was promised."""

import contextlib
from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import EmptyInputError
from langgraph.types import Command, interrupt

from tests.support.scripts import calls
from tests.support.strict import assert_valid_history
from tests.support.turns import check_calls, thread
from turngraph.graph import ResumeError, build_turn_graph
from turngraph.llm import ScriptedModel
from turngraph.tools import ask_user, idempotency_key, tool_policy
from turngraph.tools.journal import MemoryJournal


class Died(Exception):
    """The process died here."""


class Fuse:
    """Kills the process at a chosen one of its writes (before or after it), and everything that it does after that."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.dead = False

    def burn(self) -> None:
        if self.left is not None and not self.dead:
            self.left -= 1
            self.dead = self.left < 0
        if self.dead:
            raise Died

    def mend(self) -> None:
        self.left, self.dead = None, False


class MortalJournal(MemoryJournal):
    """A journal that outlives the processes that use it."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self.fuse = fuse


def _mortal(name: str) -> Any:
    async def operation(self: MortalJournal, *args: Any, **kwargs: Any) -> Any:
        self.fuse.burn()
        result = await getattr(MemoryJournal, name)(self, *args, **kwargs)
        self.fuse.burn()
        return result

    return operation


for _name in ("open_turn", "update_turn", "open_turns", "close_turn", "claim", "settle", "lookup", "release", "pause"):
    setattr(MortalJournal, _name, _mortal(_name))


class MortalSaver(InMemorySaver):
    """A checkpointer that outlives the processes that use it."""

    def __init__(self, fuse: Fuse) -> None:
        super().__init__()
        self.fuse = fuse

    def put(self, *args: Any, **kwargs: Any) -> Any:
        self.fuse.burn()
        result = super().put(*args, **kwargs)
        self.fuse.burn()
        return result

    def put_writes(self, *args: Any, **kwargs: Any) -> None:
        self.fuse.burn()
        super().put_writes(*args, **kwargs)


KINDS = ("write", "note", "send", "send", "fail", "fetch", "ask_user", "confirm", "nothing like it")
BATCHES = st.lists(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4), max_size=3)
DECISIONS = st.sampled_from(("approve", "approve", "reject", "respond", "edit", "always"))


class Turns(RuleBasedStateMachine):
    """One thread. `effects`: (name, number, key) of everything that tools did; `allowed`: sends that were approved."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.fuse = Fuse()
        self.saver, self.journal = MortalSaver(self.fuse), MortalJournal(self.fuse)
        self.patch.setattr("turngraph.graph.build.journal_for", lambda *_: self.journal)
        self.effects: list[tuple[str, int, str]] = []
        self.allowed: Counter[int] = Counter()
        self.faults: list[str] = []
        self.planned: list[list[str]] = []
        self.numbers = 0

    def teardown(self) -> None:
        self.patch.undo()

    @initialize()
    def restart(self) -> None:
        """A new process: another graph object on the same saver and journal."""
        self.fuse.mend()
        self.graph = build_turn_graph(ScriptedModel(self._reply), self._tools(), checkpointer=self.saver)

    # --- the world

    def _tools(self) -> list[Any]:
        def effect(name: str, number: int) -> str:
            self.effects.append((name, number, idempotency_key() or ""))
            return f"{name} {number} done"

        def write(number: int) -> str:
            """Write."""
            return effect("write", number)

        def note(number: int) -> str:
            """Note."""
            return effect("note", number)

        def send(number: int) -> str:
            """Send."""
            return effect("send", number)

        def fail(number: int) -> str:
            """Fail."""
            effect("fail", number)
            raise ValueError("it failed")

        def fetch(number: int) -> str:
            """Fetch."""
            return f"fetched {number}"

        def confirm(number: int) -> str:
            """Ask by itself, then act."""
            answer = interrupt(f"confirm {number}?")
            return f"{answer}: {effect('confirm', number)}"

        return [
            tool_policy(write, effect="write"),
            tool_policy(note),
            tool_policy(send, permission="ask", effect="write"),
            tool_policy(fail),
            tool_policy(fetch, effect="read"),
            tool_policy(confirm, effect="write"),
            ask_user,
        ]

    def _reply(self, messages: list[Any]) -> Any:
        try:
            assert_valid_history(messages)
        except AssertionError as fault:
            self.faults.append(str(fault))
        if not self.planned:
            return "Done."
        batch = []
        for kind in self.planned.pop(0):
            self.numbers += 1
            asked = {"questions": [{"question": f"{self.numbers}?"}]}
            batch.append((kind, asked if kind == "ask_user" else {"number": self.numbers}))
        return calls(*batch)

    def _go(self, input: Any, *, stop_after: int | None = None) -> Any:
        """One run. A dead process is followed by a new one; a run that ends by itself must keep its promises."""
        try:
            if stop_after is None:
                output = self.graph.invoke(input, thread())
                if "__interrupt__" not in output and output.get("answer"):
                    check_calls(output["messages"])
                    told = {m.tool_call_id for m in output["messages"] if isinstance(m, ToolMessage)}
                    lost = [each for each in self.effects if each[2].rsplit(":", 1)[1] not in told]
                    assert not lost, f"effects that the tape does not know: {lost}"
                return output
            stream = self.graph.stream(input, thread(), stream_mode="custom")
            for at, _ in enumerate(stream):
                if at >= stop_after:
                    break
            stream.close()
        except Died:
            self.restart()
        except EmptyInputError:
            assert not self.saver.storage["t1"][""], "a thread with a checkpoint can always go on"
        return None

    def _pauses(self) -> list[Any]:
        return [pause for task in self.graph.get_state(thread()).tasks for pause in task.interrupts]

    def _requests(self) -> list[tuple[str, dict[str, Any]]]:
        """What a person is asked by turngraph itself now: call id and action."""
        pauses = self._pauses()
        if len(pauses) != 1 or not isinstance(pauses[0].value, dict):
            return []
        requests = pauses[0].value["turngraph"]["requests"]
        return [(r["call_id"], a) for r, a in zip(requests, pauses[0].value["action_requests"], strict=True)]

    def _decision(self, action: dict[str, Any], kind: str) -> dict[str, Any]:
        """A decision, and what it allows."""
        if action["name"] != "send":
            return {"type": "respond", "message": "an answer"}
        number = action["args"]["number"]
        if kind in ("approve", "always"):
            self.allowed[number] += 1
            return {"type": "approve"} if kind == "approve" else {"type": "always", "scope": "call"}
        if kind == "edit":
            self.allowed[number + 1_000] += 1
            return {"type": "edit", "edited_action": {"name": "send", "args": {"number": number + 1_000}}}
        return {"type": kind, "message": "so it is"}

    # --- what may happen; a rule that does not fit does nothing, so that no draw depends on when threads ran

    @rule(batches=BATCHES)
    def message(self, batches: list[list[str]]) -> None:
        self.planned = list(batches)
        self._go({"messages": [("user", "go")]})

    @rule(batches=BATCHES, at=st.integers(0, 40))
    def message_and_crash(self, batches: list[list[str]], at: int) -> None:
        self.planned, self.fuse.left = list(batches), at
        self._go({"messages": [("user", "go")]})
        self.fuse.mend()

    @rule(batches=BATCHES, at=st.integers(0, 25))
    def message_and_cancel(self, batches: list[list[str]], at: int) -> None:
        self.planned = list(batches)
        self._go({"messages": [("user", "go")]}, stop_after=at)

    @rule(crash=st.none() | st.integers(0, 30))
    def go_on(self, crash: int | None) -> None:
        self.fuse.left = crash
        self._go(None)
        self.fuse.mend()

    @rule(kinds=st.lists(DECISIONS, min_size=4, max_size=4), crash=st.none() | st.integers(0, 30))
    def answer_all(self, kinds: list[str], crash: int | None) -> None:
        if not (requests := self._requests()):
            return
        decisions = [self._decision(a, kinds[at % 4]) for at, (_, a) in enumerate(requests)]
        self.fuse.left = crash
        self._go(Command(resume={"decisions": decisions}))
        self.fuse.mend()

    @rule(kind=DECISIONS, which=st.integers(0, 3))
    def answer_one(self, kind: str, which: int) -> None:
        if not (requests := self._requests()):
            return
        call_id, action = requests[which % len(requests)]
        self._go(Command(resume={"decisions": {call_id: self._decision(action, kind)}}))

    @rule(wrong=st.sampled_from(({}, {"decisions": []}, {"decisions": {"no": {"type": "approve"}}}, {"decisions": [{"type": "fly"}]})))
    def answer_wrongly(self, wrong: Any) -> None:
        if not self._requests():
            return
        before = self.graph.get_state(thread())
        with pytest.raises(ResumeError):
            self.graph.invoke(Command(resume=wrong), thread())
        assert self.graph.get_state(thread()).config == before.config
        assert [pause.id for pause in self._pauses()] == [p.id for task in before.tasks for p in task.interrupts]

    @rule()
    def abandon(self) -> None:
        if not self._requests():
            return
        output = self._go(Command(resume={"type": "abandon"}))
        assert output["receipt"]["status"] == "abandoned"

    @rule(crash=st.none() | st.integers(0, 30))
    def answer_a_tool(self, crash: int | None) -> None:
        if self._requests() or not self._pauses():
            return
        self.fuse.left = crash
        self._go(Command(resume="sure"))
        self.fuse.mend()

    @rule()
    def answer_nothing(self) -> None:
        if self._pauses():
            return
        with pytest.raises(ResumeError):
            self.graph.invoke(Command(resume="yes"), thread())

    # --- what must hold

    @invariant()
    def every_request_was_valid(self) -> None:
        assert not self.faults, self.faults

    @invariant()
    def no_effect_is_doubled_and_none_is_unasked(self) -> None:
        keys = Counter(key for _, _, key in self.effects)
        assert all(times == 1 for times in keys.values()), [e for e in self.effects if keys[e[2]] > 1]
        sent = Counter(number for name, number, _ in self.effects if name == "send")
        assert all(sent[number] <= self.allowed[number] for number in sent), (sent, self.allowed)

    @invariant()
    def every_call_has_at_most_one_result_and_every_effect_is_told(self) -> None:
        values = self.graph.get_state(thread()).values
        tape = values.get("messages", [])
        results = Counter(message.tool_call_id for message in tape if isinstance(message, ToolMessage))
        asked = [call["id"] for message in tape if isinstance(message, AIMessage) for call in message.tool_calls]
        assert len(asked) == len(set(asked))
        assert set(results) <= set(asked)
        assert all(times == 1 for times in results.values())
        status = {m.tool_call_id: m.additional_kwargs["turngraph"]["status"] for m in tape if isinstance(m, ToolMessage)}
        for name, _, key in self.effects:
            told = status.get(key.rsplit(":", 1)[1], "ok")
            assert told in (("error", "unknown") if name == "fail" and told != "ok" else ("ok", "unknown")), (name, key, told)

    @invariant()
    def ended_turns_have_one_receipt_each(self) -> None:
        with contextlib.suppress(KeyError):
            receipts = [each["turn_id"] for each in self.graph.get_state(thread()).values["receipts"]]
            assert len(receipts) == len(set(receipts))


TestTurns = Turns.TestCase
TestTurns.settings = settings(
    max_examples=60, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
