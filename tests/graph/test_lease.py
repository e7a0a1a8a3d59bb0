"""One runner per thread: the second gets TurnConflict and changes nothing; a dead one is taken over at once."""

import asyncio
import gc
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from tests.support.turns import check_turn, pause_of, thread
from turngraph.graph import ResumeError, TurnConflict, build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import lease as lease_module
from turngraph.tools import tool_policy
from turngraph.tools.journal_sql import journal_for
from turngraph.tools.lease import new_owner

GO: Any = {"messages": [("user", "go")]}
YES: Any = Command(resume={"decisions": [{"type": "approve"}]})


class Gate:
    """A tool that waits for permission to end, and counts how often it ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.inside = threading.Event()
        self.open = threading.Event()

    def tool(self, **policy: Any) -> Any:
        async def work(name: str) -> str:
            """Work."""
            self.ran.append(name)
            self.inside.set()
            while not self.open.is_set():
                await asyncio.sleep(0.005)
            return f"worked {name}"

        return tool_policy(work, **policy)


def working(rounds: int = 1) -> ScriptedModel:
    return ScriptedModel([ScriptedReply(calls=[("work", {"name": f"n{n}"})]) for n in range(rounds)] + ["Done."] * 9)


def test_a_second_runner_gets_a_conflict_and_nothing_changes() -> None:
    gate = Gate()
    graph = build_turn_graph(working(), [gate.tool(effect="write")], checkpointer=InMemorySaver())
    outputs: list[Any] = []
    first = threading.Thread(target=lambda: outputs.append(graph.invoke(GO, thread())))
    first.start()
    assert gate.inside.wait(10)
    before = graph.get_state(thread()).config
    for input in ({"messages": [("user", "me too")]}, None, YES):
        started = time.monotonic()
        with pytest.raises(TurnConflict, match="Nothing was changed"):
            graph.invoke(input, thread())
        with pytest.raises(TurnConflict):
            asyncio.run(graph.ainvoke(input, thread()))
        assert time.monotonic() - started < 1
    assert graph.get_state(thread()).config == before
    other = graph.invoke(GO, thread("another thread"))
    assert other["answer"] == "Done."
    gate.open.set()
    first.join(10)
    check_turn(outputs[0])
    assert gate.ran == ["n0"]
    assert [m.text for m in graph.get_state(thread()).values["messages"] if m.type == "human"] == ["go"]
    assert graph.invoke({"messages": [("user", "again")]}, thread())["answer"] == "Done."


async def test_two_resumes_at_once_run_the_effect_once() -> None:
    for _ in range(20):
        gate = Gate()
        gate.open.set()
        graph = build_turn_graph(working(), [gate.tool(effect="write", permission="ask")], checkpointer=InMemorySaver())
        pause_of(await graph.ainvoke(GO, thread()))
        ended = await asyncio.gather(*(graph.ainvoke(YES, thread()) for _ in range(3)), return_exceptions=True)
        won = [each for each in ended if isinstance(each, dict)]
        assert len(won) == 1
        assert all(isinstance(each, TurnConflict | ResumeError) for each in ended if not isinstance(each, dict))
        assert gate.ran == ["n0"]
        check_turn(won[0])


async def test_a_resume_and_a_new_message_at_once_leave_one_winner() -> None:
    for first in (YES, GO):
        gate = Gate()
        gate.open.set()
        graph = build_turn_graph(working(), [gate.tool(effect="write", permission="ask")], checkpointer=InMemorySaver())
        await graph.ainvoke(GO, thread())
        second = GO if first is YES else YES
        ended = await asyncio.gather(
            graph.ainvoke(first, thread()), graph.ainvoke(second, thread()), return_exceptions=True
        )
        won = [each for each in ended if isinstance(each, dict)]
        assert len(won) == 1
        assert len(gate.ran) == (1 if won[0] is ended[0] and first is YES else 0)
        check_turn(won[0])


async def test_two_graphs_on_one_sqlite_file_share_the_lease(tmp_path: Path) -> None:
    path = str(tmp_path / "t.sqlite")
    gate = Gate()
    async with AsyncSqliteSaver.from_conn_string(path) as one, AsyncSqliteSaver.from_conn_string(path) as two:
        first = build_turn_graph(working(), [gate.tool()], checkpointer=one)
        second = build_turn_graph(working(), [gate.tool()], checkpointer=two)
        task = asyncio.create_task(first.ainvoke(GO, thread()))
        await asyncio.to_thread(gate.inside.wait, 10)
        with pytest.raises(TurnConflict):
            await second.ainvoke(GO, thread())
        gate.open.set()
        check_turn(await task)
        assert (await second.ainvoke(GO, thread()))["answer"] == "Done."


def test_two_processes_resume_one_thread(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.crash_child", str(tmp_path / "t.sqlite"), str(tmp_path / "effects")]
    subprocess.run([*command, "pause"], capture_output=True, timeout=60, check=False)
    racers = [
        subprocess.Popen([*command, "approve"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    told = [racer.communicate(timeout=60) for racer in racers]
    codes = sorted(racer.returncode for racer in racers)
    assert codes == [0, 1], told
    lost = next(err for racer, (_, err) in zip(racers, told, strict=True) if racer.returncode)
    assert "TurnConflict" in lost or "ResumeError" in lost
    lines = (tmp_path / "effects").read_text().splitlines()
    assert sum(line.startswith("ask d") for line in lines) == 1


def test_a_lease_of_a_dead_process_is_taken_over_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "t.sqlite")
    code = "from turngraph.tools.lease import new_owner; print(new_owner())"
    dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    with SqliteSaver.from_conn_string(path) as saver:
        graph = build_turn_graph(working(), [Gate().tool()], checkpointer=saver)
        journal = journal_for(saver)
        assert asyncio.run(journal.acquire("t1", dead.strip()))
        started = time.monotonic()
        assert graph.get_state(thread()).values == {}
        model = build_turn_graph(ScriptedModel(["Hi."]), checkpointer=saver)
        assert model.invoke(GO, thread())["answer"] == "Hi."
        assert time.monotonic() - started < 2


@pytest.mark.parametrize("owner", ["elsewhere", "alive"])
def test_a_lease_of_a_runner_that_lives_or_may_live_is_respected(tmp_path: Path, owner: str) -> None:
    name = new_owner() if owner == "alive" else json.dumps({**json.loads(new_owner()), "host": "elsewhere", "pid": 1})
    with SqliteSaver.from_conn_string(str(tmp_path / "t.sqlite")) as saver:
        graph = build_turn_graph(ScriptedModel(["Hi."]), checkpointer=saver)
        assert asyncio.run(journal_for(saver).acquire("t1", name))
        with pytest.raises(TurnConflict):
            graph.invoke(GO, thread())
        asyncio.run(journal_for(saver).release_lease("t1", name))
        assert graph.invoke(GO, thread())["answer"] == "Hi."


def _free(graph: Any) -> bool:
    async def look() -> bool:
        journal = journal_for(graph.checkpointer)
        if taken := await journal.acquire("t1", "x"):
            await journal.release_lease("t1", "x")
        return taken

    return asyncio.run(look())


def _paused(graph: Any) -> None:
    graph.invoke(GO, thread())


def _failed(graph: Any) -> None:
    broken = build_turn_graph(ScriptedModel(lambda _: ValueError("broken")), checkpointer=graph.checkpointer)
    with pytest.raises(Exception, match="broken"):
        broken.invoke(GO, thread(), context={"max_retries": 0})


def _left(graph: Any) -> None:
    for _ in graph.stream(GO, thread(), stream_mode="custom"):
        break


def _dropped(graph: Any) -> None:
    stream = graph.stream(GO, thread(), stream_mode="custom")
    next(stream)
    del stream
    gc.collect()


def _loop_thrown_away(graph: Any) -> None:
    loop = asyncio.new_event_loop()
    stream = graph.astream(GO, thread(), stream_mode="custom")
    loop.run_until_complete(anext(stream))
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(stream.aclose())
    loop.close()


def _cancelled(graph: Any) -> None:
    async def work() -> None:
        task = asyncio.create_task(graph.ainvoke(GO, thread()))
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(work())


@pytest.mark.parametrize("way", [_paused, _failed, _left, _dropped, _loop_thrown_away, _cancelled])
def test_the_lease_is_given_up_however_a_run_ends(way: Callable[[Any], None]) -> None:
    graph = build_turn_graph(working(), [Gate().tool(permission="ask")], checkpointer=InMemorySaver())
    way(graph)
    deadline = time.monotonic() + 5
    while not _free(graph):
        assert time.monotonic() < deadline, "the lease is still held"
        time.sleep(0.02)


async def test_a_runner_whose_loop_is_blocked_keeps_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr("turngraph.tools.journal.EXPIRY_SECONDS", 0.2)
    tried: list[bool] = []

    async def block(seconds: float) -> str:
        """Block the event loop."""
        time.sleep(seconds)
        tried.append(await journal_for(saver).acquire("t1", "thief"))
        return "blocked"

    saver = InMemorySaver()
    model = ScriptedModel([ScriptedReply(calls=[("block", {"seconds": 0.5})]), "Done."])
    output = await build_turn_graph(model, [block], checkpointer=saver).ainvoke(GO, thread())
    assert tried == [False]
    assert output["answer"] == "Done."


async def test_a_runner_that_lost_its_lease_writes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "HEARTBEAT_SECONDS", 0.02)
    gate, saver = Gate(), InMemorySaver()
    graph = build_turn_graph(working(), [gate.tool(effect="write")], checkpointer=saver)
    task = asyncio.create_task(graph.ainvoke(GO, thread()))
    await asyncio.to_thread(gate.inside.wait, 10)
    before = (await graph.aget_state(thread())).values["messages"]
    kept = journal_for(saver)._of("t1")  # type: ignore[attr-defined]
    kept.lease = ("thief", time.monotonic())
    with pytest.raises(TurnConflict, match="took this thread over"):
        await task
    assert (await graph.aget_state(thread())).values["messages"] == before
    assert kept.lease[0] == "thief"


class ParentState(TypedDict):
    answers: Annotated[list[str], lambda left, right: [*left, *right]]


async def test_parallel_turns_of_one_parent_do_not_conflict() -> None:
    turn = build_turn_graph(ScriptedModel(lambda _: "Hi."))

    async def both(_: ParentState) -> Any:
        ended = await asyncio.gather(turn.ainvoke(GO), turn.ainvoke(GO))
        return {"answers": [each["answer"] for each in ended]}

    async def one(_: ParentState) -> Any:
        return {"answers": [(await turn.ainvoke(GO))["answer"]]}

    builder = StateGraph(ParentState)
    for name, node in (("both", both), ("left", one), ("right", one)):
        builder.add_node(name, node)
        builder.add_edge(START, name)
        builder.add_edge(name, END)
    parent = builder.compile(checkpointer=InMemorySaver())
    for _ in range(3):
        assert (await parent.ainvoke({"answers": []}, thread()))["answers"][-4:] == ["Hi."] * 4


async def test_two_runs_of_one_foreign_parent_run_the_tools_of_its_turn_once() -> None:
    gate = Gate()
    turn = build_turn_graph(ScriptedModel(_again), [gate.tool(effect="write")])

    async def ask(_: ParentState) -> Any:
        return {"answers": [(await turn.ainvoke(GO))["answer"]]}

    builder = StateGraph(ParentState)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    saver = InMemorySaver()
    parent = builder.compile(checkpointer=saver, interrupt_before=["ask"])
    await parent.ainvoke({"answers": []}, thread())
    first = asyncio.create_task(parent.ainvoke(None, thread()))
    await asyncio.to_thread(gate.inside.wait, 10)
    with pytest.raises(TurnConflict):
        await parent.ainvoke(None, thread())
    gate.open.set()
    assert (await first)["answers"] == ["Done."]
    assert gate.ran == ["n"]


def _again(messages: list[Any]) -> Any:
    return "Done." if messages[-1].type == "tool" else ScriptedReply(calls=[("work", {"name": "n"})])


@pytest.mark.parametrize("form", ["sync", "async"])
async def test_a_consumer_that_stops_reading_does_not_keep_the_lease(form: str) -> None:
    ran: list[str] = []

    def send(to: str) -> str:
        """Send."""
        ran.append(to)
        return f"sent to {to}"

    model = ScriptedModel([ScriptedReply(calls=[("send", {"to": "ann"})]), "Sent."])
    graph = build_turn_graph(model, [tool_policy(send, permission="ask")], checkpointer=InMemorySaver())

    async def answered() -> Any:
        while True:
            try:
                return await graph.ainvoke(YES, thread())
            except (TurnConflict, ResumeError):  # the run has not paused yet
                await asyncio.sleep(0.02)

    if form == "sync":
        held = graph.stream(GO, thread(), stream_mode="custom")
        assert any(event["type"] == "interaction_requested" for event in held)
    else:
        aheld = graph.astream(GO, thread(), stream_mode="custom")
        async for event in aheld:
            if event["type"] == "interaction_requested":
                break
    async with asyncio.timeout(20):
        output = await answered()
    assert output["answer"] == "Sent."
    assert ran == ["ann"]
