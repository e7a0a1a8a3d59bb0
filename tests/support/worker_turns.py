"""Worker processes that compete for the same threads on one PostgreSQL and may be killed or stopped at any moment.

`serve` is one worker: it does the jobs that come through its pipe, one after the other, and tells how each ended. A job
names a moment at which the worker ends itself (or stops, as a machine that sleeps does), so that the moments with most
to lose are hit exactly: around a claim, an effect, a settled result, a write of a checkpoint, a change of the lease.
"""

import asyncio
import functools
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.errors import EmptyInputError
from langgraph.types import Command

from tests.support.crash_turns import note, noted
from tests.support.strict import assert_valid_history
from turngraph.graph import (
    InputError,
    ResumeError,
    TurnConflict,
    TurnSettings,
    asend_input,
    build_turn_graph,
    send_input,
)
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import ask_user, idempotency_key, journal_sql, lease, sql_lease, tool_policy
from turngraph.tools.journal_sql import SqlJournal

SHAPES = ("batch", "rounds", "mixed", "asks", "asks", "question", "plain")
DURABILITIES = ("async", "sync", "exit")

_HOOKS: dict[str, tuple[type, str]] = {
    "acquire": (SqlJournal, "acquire"),
    "release": (SqlJournal, "release_lease"),
    "open": (SqlJournal, "open_turn"),
    "close": (SqlJournal, "close_turn"),
    "claim": (SqlJournal, "claim"),
    "settle": (SqlJournal, "settle"),
    "enqueue": (SqlJournal, "enqueue"),
    "dequeue": (SqlJournal, "dequeue"),
    "put": (PostgresSaver, "put"),
    "writes": (PostgresSaver, "put_writes"),
    "aput": (AsyncPostgresSaver, "aput"),
    "awrites": (AsyncPostgresSaver, "aput_writes"),
}
MOMENTS = (*(f"{name}{side}" for name in _HOOKS if name[:2] not in ("ap", "aw") for side in "-+"), "effect-", "effect+", "model")
"""Moments of a run; `-` is just before the thing happens, `+` just after."""


@dataclass
class Job:
    """One piece of work on a thread."""

    thread: str
    action: str
    """message, continue, resume, queue, pickup (a turn on what is queued)."""
    message: str = ""
    """The id of the message that is sent or queued."""
    shape: str = ""
    durability: str = "async"
    steer: bool = False
    moment: str = ""
    """When the worker ends; empty: it lives."""
    count: int = 0
    """How many such moments pass before."""
    number: int = 0
    """Of this attempt; stands in the metadata of every checkpoint that it writes."""


@dataclass
class Fate:
    """What a worker has before it."""

    moment: str = ""
    count: int = 0
    signal: int = signal.SIGKILL
    seen: Callable[[str], None] | None = None

    def arm(self, moment: str, count: int) -> None:
        self.moment, self.count = moment, count

    def reach(self, moment: str) -> None:
        """This moment has come."""
        if self.moment != moment:
            return
        self.count -= 1
        if self.count < 0:
            self.moment = ""
            os.kill(os.getpid(), self.signal)
            time.sleep(0.1)  # the signal may be taken by another thread: this one goes no further


def hook(fate: Fate) -> None:
    """Lets journal and savers tell the fate where they are."""
    for name, (owner, method) in _HOOKS.items():
        moment = name.removeprefix("a") if name in ("aput", "awrites") else name
        setattr(owner, method, _told(getattr(owner, method), fate, moment))


def _told(original: Any, fate: Fate, moment: str) -> Any:
    if asyncio.iscoroutinefunction(original):

        @functools.wraps(original)
        async def atold(*args: Any, **kwargs: Any) -> Any:
            fate.reach(f"{moment}-")
            result = await original(*args, **kwargs)
            fate.reach(f"{moment}+")
            return result

        return atold

    @functools.wraps(original)
    def told(*args: Any, **kwargs: Any) -> Any:
        fate.reach(f"{moment}-")
        result = original(*args, **kwargs)
        fate.reach(f"{moment}+")
        return result

    return told


def tools(folder: Path, fate: Fate) -> list[Any]:
    """Tools with effects that are lines of `effects`: what was done, and under which key."""

    def happen(name: str) -> None:
        fate.reach("effect-")
        note(folder, "effects", name, idempotency_key())
        fate.reach("effect+")

    def write(name: str) -> str:
        """Write something."""
        time.sleep(0.002)
        happen(name)
        return f"wrote {name}"

    async def parallel(name: str) -> str:
        """Do something beside others."""
        happen(name)
        return f"did {name}"

    def read(name: str) -> str:
        """Read something."""
        return f"read {name}"

    def send(name: str) -> str:
        """Send something, with permission."""
        happen(name)
        return f"sent {name}"

    return [
        tool_policy(write, effect="write"),
        tool_policy(parallel),
        tool_policy(read, effect="read"),
        tool_policy(send, permission="ask", effect="write"),
        ask_user,
    ]


def words(thread: str, message: str, shape: str) -> str:
    """What a user says: which thread it is for, and what is to be done."""
    return f"{thread} {message} {shape}"


def script(folder: Path, fate: Fate, seed: int) -> ScriptedModel:
    """A model that does what the newest user message names, and ends with "Done", the thread and that message."""
    chance = random.Random(seed)

    def reply(messages: list[BaseMessage]) -> Any:
        try:
            assert_valid_history(messages)
        except AssertionError as fault:
            note(folder, "faults", str(fault))
        fate.reach("model")
        time.sleep(chance.uniform(0, 0.008))
        asked = max(at for at, message in enumerate(messages) if isinstance(message, HumanMessage))
        thread, message, shape = messages[asked].text.splitlines()[-1].split()[:3]
        done = sum(isinstance(each, ToolMessage) for each in messages[asked:])
        name = f"{thread} {message}"
        steps = _steps(shape, name)
        for step in steps:
            if done < len(step):
                return ScriptedReply(f"Working on {name}.", calls=step)
            done -= len(step)
        return f"Done {name}"

    return ScriptedModel(reply)


def _steps(shape: str, name: str) -> list[list[tuple[str, dict[str, Any]]]]:
    """The batches of calls of one shape of a turn."""
    a, b, c = (("write", {"name": f"{name} a"}), ("parallel", {"name": f"{name} b"}), ("write", {"name": f"{name} c"}))
    permitted, looked = ("send", {"name": f"{name} d"}), ("read", {"name": f"{name} x"})
    match shape:
        case "batch":
            return [[a, b, c]]
        case "rounds":
            return [[a], [b], [c]]
        case "mixed":
            return [[b, looked, a], [c]]
        case "asks":
            return [[a, b, permitted], [c]]
        case "question":
            return [[b, ("ask_user", {"questions": [{"question": f"Which, {name}?", "id": "q"}]})], [a]]
        case _:
            return []


class Worker:
    """One process on one saver."""

    def __init__(self, folder: Path, graph: Any, fate: Fate, *, sync: bool) -> None:
        self.folder, self.graph, self.fate, self.sync = folder, graph, fate, sync

    async def do(self, job: Job) -> tuple[str, str]:
        """Does a job; gives how it ended: `done`, `paused`, `nothing` (to do), `conflict`, `refused`, `empty`, `failed: ...`."""
        config: dict[str, Any] = {"configurable": {"thread_id": job.thread}, "metadata": {"job": job.number}}
        self.fate.arm(job.moment, job.count)
        try:
            return await self._act(job, config)
        except TurnConflict as error:
            return "conflict", str(error)
        except ResumeError as error:
            return "refused", str(error)
        except EmptyInputError:
            return "empty", ""
        except InputError as error:
            return "nothing", str(error)
        except Exception as error:
            return f"failed: {type(error).__name__}", str(error)
        finally:
            self.fate.arm("", 0)

    async def _act(self, job: Job, config: dict[str, Any]) -> tuple[str, str]:
        said = HumanMessage(words(job.thread, job.message, job.shape), id=job.message)
        match job.action:
            case "queue":
                await (self._apart(send_input, self.graph, job.thread, said) if self.sync else asend_input(self.graph, job.thread, said))
                return "done", ""
            case "message":
                return await self._run(job, config, {"messages": [said]})
            case "again":  # the process that was sent this message died: it may be on the tape or not
                snapshot = await self.state(config)
                if any(each.id == job.message for each in snapshot.values.get("messages", [])):
                    begun = not snapshot.tasks or any(task.interrupts for task in snapshot.tasks)
                    # Input whose turn did not begin is dropped by LangGraph when other input comes: it is gone on with.
                    return ("done", "it was there") if begun else await self._run(job, config, None)
                return await self._run(job, config, {"messages": [said]})
            case "pickup":
                return await self._run(job, config, {"messages": []})
            case "resume":
                snapshot = await self.state(config)
                pending = [each for task in snapshot.tasks for each in task.interrupts]
                return await self._run(job, config, answer(pending))
            case _:
                return await self._run(job, config, None)

    async def state(self, config: dict[str, Any]) -> Any:
        return await (self._apart(self.graph.get_state, config) if self.sync else self.graph.aget_state(config))

    @staticmethod
    async def _apart(function: Any, *args: Any) -> Any:
        return await asyncio.to_thread(function, *args)

    async def _run(self, job: Job, config: dict[str, Any], input: Any) -> tuple[str, str]:
        options: dict[str, Any] = {"stream_mode": ["custom", "values"], "durability": job.durability}
        options["context"] = TurnSettings(on_pending_input="steer" if job.steer else "yield")
        ended: list[Any] = []

        def take(mode: str, data: Any) -> None:
            if mode == "values":
                ended.append(data)
            elif data["type"] == "turn_started":
                note(self.folder, "turns", job.thread, data["turn_id"])
            elif data["type"] == "tool_finished" and data["status"] == "ok":
                note(self.folder, "finished", job.thread, data["turn_id"], data["call_id"], data["name"], job.durability)

        def stream() -> None:
            for mode, data in self.graph.stream(input, config, **options):
                take(mode, data)

        if self.sync:
            await self._apart(stream)
        else:
            async for mode, data in self.graph.astream(input, config, **options):
                take(mode, data)
        last = ended[-1] if ended else {}
        return ("paused", "") if "__interrupt__" in last else ("done", str(last.get("answer", "")))


def answer(pending: list[Any]) -> Command[Any]:
    """Everything that waits is approved or answered; where nothing waits, somebody was quicker, or it never asked."""
    if not pending:
        return Command(resume={"decisions": [{"type": "approve"}]})
    payload = pending[0].value
    decisions = [
        _decision(request["kind"], action["description"])
        for request, action in zip(payload["turngraph"]["requests"], payload["action_requests"], strict=True)
    ]
    return Command(resume={pending[0].id: {"decisions": decisions}})


def _decision(kind: str, description: str) -> dict[str, str]:
    """Whoever is told that a call may have had its effect does not allow it once more."""
    if kind == "ask_user":
        return {"type": "respond", "message": "this one"}
    return {"type": "reject", "message": "no"} if "may have had its effect" in description else {"type": "approve"}


@dataclass
class Setting:
    """What a worker is started with."""

    folder: str
    uri: str
    sync: bool
    seed: int
    host: str = ""
    """Another host's name in the owner of its leases; empty: this one's."""
    expiry: float = 0.0
    """Seconds after which a silent runner is taken over, and the beat to match; 0: as shipped."""
    stops: bool = False
    """At its moment the worker is stopped, not killed."""


def serve(setting: Setting, pipe: Any) -> None:
    """One worker process: jobs (dicts) come through the pipe until None comes; each is answered with how it ended."""
    asyncio.run(_serve(setting, pipe))


async def _serve(setting: Setting, pipe: Any) -> None:
    folder, fate = Path(setting.folder), Fate(signal=signal.SIGSTOP if setting.stops else signal.SIGKILL)
    patch(setting)
    hook(fate)
    async with AsyncExitStack() as stack:
        saver: Any
        if setting.sync:
            saver = stack.enter_context(PostgresSaver.from_conn_string(setting.uri))
        else:
            saver = await stack.enter_async_context(AsyncPostgresSaver.from_conn_string(setting.uri))
        graph = build_turn_graph(script(folder, fate, setting.seed), tools(folder, fate), checkpointer=saver)
        worker = Worker(folder, graph, fate, sync=setting.sync)
        pipe.send(("ready", ""))
        while (given := await asyncio.to_thread(pipe.recv)) is not None:
            pipe.send(await worker.do(Job(**given)))


def patch(setting: Setting) -> None:
    """Other times and another host's name, where the setting says so."""
    if setting.expiry:
        lease.HEARTBEAT_SECONDS = setting.expiry / 5
        lease.EXPIRY_SECONDS = sql_lease.EXPIRY_SECONDS = setting.expiry
    if setting.host:
        told = lease.new_owner

        def elsewhere() -> str:
            return json.dumps({**json.loads(told()), "host": setting.host})

        import turngraph.graph.lease as graph_lease

        graph_lease.new_owner = elsewhere


def settle_all(folder: Path, uri: str, threads: list[str]) -> None:
    """Brings every thread to rest: pauses are answered, what broke off goes on, queued input is taken; then one more
    message, which must be answered."""
    with PostgresSaver.from_conn_string(uri) as saver:
        fate = Fate()
        graph = build_turn_graph(script(folder, fate, 0), tools(folder, fate), checkpointer=saver)
        for thread in threads:
            config: dict[str, Any] = {"configurable": {"thread_id": thread}}
            for _ in range(30):
                if (input := _owed(graph, config)) is None:
                    break
                try:
                    graph.invoke(input, config)
                except InputError:
                    break  # a message that was sent twice, and is answered
            output = graph.invoke({"messages": [HumanMessage(words(thread, "last", "plain"), id=f"last-{thread}")]}, config)
            note(folder, "last", thread, output["answer"], output["receipt"]["status"])


def _owed(graph: Any, config: dict[str, Any]) -> Any:
    """What a thread waits for; None where it rests."""
    snapshot = graph.get_state(config)
    if pending := [each for task in snapshot.tasks for each in task.interrupts]:
        return answer(pending)
    return {"messages": []} if asyncio.run(journal_of(graph).queued(config["configurable"]["thread_id"])) else None


def journal_of(graph: Any) -> SqlJournal:
    found = journal_sql.journal_for(graph.checkpointer)
    assert isinstance(found, SqlJournal)
    return found


Attempt = tuple[Job, str, str, float, float]


def tape_of(uri: str, threads: list[str]) -> dict[str, list[str | None]]:
    """The ids of the messages on each thread's tape."""
    with PostgresSaver.from_conn_string(uri) as saver:
        graph = build_turn_graph(checkpointer=saver)
        states = {thread: graph.get_state({"configurable": {"thread_id": thread}}) for thread in threads}
    return {thread: [message.id for message in state.values["messages"]] for thread, state in states.items()}


def judge(
    folder: Path, uri: str, threads: list[str], attempts: list[Attempt], *, expired: bool = False
) -> tuple[Counter[str], list[str]]:
    """The counts of a campaign, and every promise that was broken. `expired`: leases had to expire, as they may."""
    counts, broken = Counter[str](), [f"invalid request: {fault}" for (fault,) in noted(folder, "faults")]
    broken += [f"{job}: {how} {said}" for job, how, said, *_ in attempts if how.startswith("failed")]
    broken += [] if expired else _groundless(attempts)
    with PostgresSaver.from_conn_string(uri) as saver:
        graph = build_turn_graph(checkpointer=saver)
        for thread in threads:
            values = graph.get_state({"configurable": {"thread_id": thread}}).values
            one = _Thread(thread, values["messages"], values["receipts"], folder)
            broken += [f"{thread}: {what}" for what in [*one.faults(), *one.lost_or_doubled(attempts)]]
            counts += one.counts()
        broken += _leftovers(saver, attempts)
    keys = Counter(key for _, key in noted(folder, "effects"))
    broken += [f"effect {key} happened {times} times" for key, times in keys.items() if times > 1]
    broken += [f"{name} happened under {key}" for name, key in noted(folder, "effects") if key.split(":")[0] != name.split()[0]]
    counts += Counter({"effects": sum(keys.values()), "results announced": len(noted(folder, "finished"))})
    counts["effects doubled"] = sum(keys.values()) - len(keys)
    return counts, broken


@dataclass
class _Thread:
    """One thread at its end."""

    name: str
    tape: list[BaseMessage]
    receipts: list[dict[str, Any]]
    folder: Path

    def mine(self, file: str) -> list[list[Any]]:
        return [words[1:] for words in noted(self.folder, file) if words[0] == self.name]

    def results(self) -> dict[str, ToolMessage]:
        return {message.tool_call_id: message for message in self.tape if isinstance(message, ToolMessage)}

    def status(self, call_id: str) -> Any:
        result = self.results().get(call_id)
        return None if result is None else result.additional_kwargs["turngraph"]["status"]

    def counts(self) -> Counter[str]:
        found = Counter(f"result {self.status(call_id)}" for call_id in self.results())
        found += Counter(f"turn {receipt['status']} ({receipt['stop_reason']})" for receipt in self.receipts)
        return found

    def faults(self) -> list[str]:
        """What the tape alone shows."""
        broken: list[str] = []
        calls = {call["id"]: call for m in self.tape if isinstance(m, AIMessage) for call in m.tool_calls}
        made = [call["id"] for m in self.tape if isinstance(m, AIMessage) for call in m.tool_calls]
        answered = [m.tool_call_id for m in self.tape if isinstance(m, ToolMessage)]
        if sorted(made) != sorted(answered) or len(made) != len(set(made)):
            broken.append(f"calls {made} have the results {answered}")
        for call_id, result in self.results().items():
            name = calls.get(call_id, {}).get("args", {}).get("name")
            if self.status(call_id) == "ok" and name and name not in result.text:
                broken.append(f"the call of {name} has the result {result.text!r}")
        foreign = [m.text for m in self.tape if any(word in _threads_in(m.text) - {self.name} for word in m.text.split())]
        broken += [f"another thread's words: {text!r}" for text in foreign]
        ids = [m.id for m in self.tape]
        broken += [f"message {each} stands {times} times" for each, times in Counter(ids).items() if times > 1]
        [last] = self.mine("last")
        if last != [f"Done {self.name} last", "completed"]:
            broken.append(f"the last message was answered with {last}")
        return broken

    def lost_or_doubled(self, attempts: list[Attempt]) -> list[str]:
        """What the tape and the receipts show beside what was said and done."""
        broken: list[str] = []
        for turn_id, call_id, name, durability in self.mine("finished"):
            if name in ("write", "parallel", "send") and durability != "exit" and self.status(call_id) != "ok":
                broken.append(f"the result of {name} {turn_id} {call_id} was lost: {self.status(call_id)}")
        times = Counter(receipt["turn_id"] for receipt in self.receipts)
        broken += [f"turn {turn} has {times[turn]} receipts" for (turn,) in self.mine("turns") if times[turn] != 1]
        said = [message.id for message in self.tape if isinstance(message, HumanMessage)]
        sent: dict[str, list[Attempt]] = {}
        for attempt in attempts:
            if attempt[0].thread == self.name and attempt[0].message:
                sent.setdefault(attempt[0].message, []).append(attempt)
        for message, tries in sent.items():
            refused = all(how in ("conflict", "refused") for _, how, *_ in tries)
            slept = any(how == "asleep" for _, how, *_ in tries)  # what others sent meanwhile may have come first
            if said.count(message) not in ((0, 1) if slept else (0,) if refused else (1,)):
                broken.append(f"message {message} stands {said.count(message)} times: {[(j.action, *told) for j, *told in tries]}")
        return broken + self._out_of_order(sent, said)

    def _out_of_order(self, sent: dict[str, list[Attempt]], said: list[str | None]) -> list[str]:
        """Queued messages that stand in another order than that in which they were surely queued."""
        spans = {
            message: (min(each[3] for each in tries), max(each[4] for each in tries))
            for message, tries in sent.items()
            if tries[0][0].action == "queue" and message in said
        }
        return [
            f"{later} was queued after {earlier} and stands before it"
            for earlier, (_, end) in spans.items()
            for later, (begin, _) in spans.items()
            if end < begin and said.index(later) < said.index(earlier)
        ]


def _groundless(attempts: list[Attempt]) -> list[str]:
    """Conflicts where nobody else was at work on the thread: a dead worker's lease stood in the way."""
    runs = [(job.thread, begin, end, job) for job, _, _, begin, end in attempts if job.action != "queue"]
    return [
        f"{job} met a conflict with nobody: {said}"
        for job, how, said, begin, end in attempts
        if how == "conflict" and not any(t == job.thread and b < end and begin < e and j is not job for t, b, e, j in runs)
    ]


def _threads_in(text: str) -> set[str]:
    """The names of threads among the words of a text."""
    return {word for word in text.split() if len(word) > 1 and word[0] == "t" and word[1:].isdigit()}


def _leftovers(saver: Any, attempts: list[Attempt]) -> list[str]:
    """What is left in the database that nobody needs, and checkpoints of jobs that were refused."""
    broken: list[str] = []
    with saver._cursor() as cursor:
        for table in ("leases", "inputs"):
            rows = cursor.execute(f"SELECT * FROM turngraph_{table}").fetchall()
            broken += [f"left over in {table}: {row}" for row in rows]
        query = "SELECT DISTINCT (metadata->>'job')::int AS job FROM checkpoints WHERE metadata ? 'job'"
        wrote = {row["job"] for row in cursor.execute(query).fetchall()}
    assert wrote, "the jobs are not in the metadata"
    broken += [f"{job} was refused and wrote a checkpoint: {said}" for job, how, said, *_ in attempts if how in ("conflict", "refused") and job.number in wrote]
    return broken
