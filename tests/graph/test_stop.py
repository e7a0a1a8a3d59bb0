"""Ctrl-C and drain: a stopped run keeps what was streamed, starts nothing more, and leaves the thread usable."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl

from tests.support.openai_server import call, hanging, say
from tests.support.turns import chat, check_calls, check_turn, run, thread
from turngraph.graph import Capability, as_tool, build_turn_graph
from turngraph.graph.loop import run_sync
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import tool_policy

CHILD = '''
import signal, sys, time

signal.signal(signal.SIGINT, signal.default_int_handler)  # a child of a background job would ignore it

from langgraph.checkpoint.sqlite import SqliteSaver
from langchain_openai import ChatOpenAI
from tests.support.turns import thread
from turngraph.graph import as_tool, build_turn_graph
from turngraph.tools import tool_policy

database, url, way, marker = sys.argv[1:]

def mark(line):
    with open(marker, "a") as file:
        file.write(line + "\\n")

def block(name: str) -> str:
    """Block for long."""
    mark(f"begin {name}")
    time.sleep(20)
    mark(f"end {name}")
    return name

model = ChatOpenAI(model="scripted", base_url=url, api_key="test", max_retries=0)
block = tool_policy(block, effect="write")
with SqliteSaver.from_conn_string(database) as saver:
    tools = [block]
    if way == "inner":
        tools = [as_tool(build_turn_graph(model, tools, name="inner"), description="Ask.")]
    graph = build_turn_graph(model, tools, checkpointer=saver)
    try:
        if way == "invoke" or way == "inner":
            mark("start")
            graph.invoke({"messages": [("user", "go")]}, thread())
        else:
            for event in graph.stream({"messages": [("user", "go")]}, thread(), stream_mode="custom"):
                mark(event["type"])
    except KeyboardInterrupt:
        mark("interrupted")
        sys.exit(7)
'''


def interrupted(tmp_path: Path, server: Any, way: str, ready: Any) -> list[str]:
    """Runs the child until `ready(lines of its marker file)`, presses Ctrl-C, and gives the lines in the end."""
    marker = tmp_path / "marker.txt"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "turns.sqlite"), server.url, way, str(marker)],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: list[str] = []
    deadline = time.monotonic() + 30
    while not ready(lines):
        assert child.poll() is None, child.stderr and child.stderr.read()
        assert time.monotonic() < deadline, lines
        time.sleep(0.05)
        lines = marker.read_text().splitlines() if marker.exists() else []
    time.sleep(0.3)
    pressed = time.monotonic()
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=30)
    assert child.returncode == 7, said
    assert time.monotonic() - pressed < 8, "Ctrl-C took too long"
    return marker.read_text().splitlines()


def after(tmp_path: Path, server: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The state that was left, and the output of the next turn."""
    with SqliteSaver.from_conn_string(str(tmp_path / "turns.sqlite")) as saver:
        graph = build_turn_graph(chat(server), checkpointer=saver)
        left = graph.get_state(thread())
        assert left.next == ()
        server.add(say("Next."))
        output, events = run(graph, "go on", thread())
    assert output["answer"] == "Next."
    check_turn(output, events)
    return left.values, output


@pytest.mark.parametrize("way", ["invoke", "stream"])
def test_ctrl_c_while_text_streams_keeps_it(tmp_path: Path, openai_server: Any, way: str) -> None:
    server = openai_server([hanging(say("Half an answer", chunks=4))], strict=True)
    lines = interrupted(tmp_path, server, way, lambda lines: len(server.requests) > 0 and len(lines) > 0)
    assert lines[-1] == "interrupted"
    left, _ = after(tmp_path, server)
    assert left["answer"] == "Half an answer"
    assert left["receipt"]["status"] == "cancelled"
    assert left["messages"][-1].additional_kwargs["turngraph"]["cut"] == "cancelled"


@pytest.mark.parametrize("way", ["invoke", "inner"])
def test_ctrl_c_while_a_tool_blocks_starts_nothing_more(tmp_path: Path, openai_server: Any, way: str) -> None:
    batch = call(("block", {"name": "first"}), ("block", {"name": "second"}))
    steps = [batch] if way == "invoke" else [call(("inner", {"question": "go"})), batch]
    server = openai_server(steps, strict=True)
    lines = interrupted(tmp_path, server, way, lambda lines: "begin first" in lines)
    assert lines == ["start", "begin first", "interrupted"]
    left, output = after(tmp_path, server)
    assert left["receipt"]["status"] == "cancelled"
    check_calls(output["messages"])


def three_rounds() -> Any:
    """A turn with a seed, two rounds of tools of each kind, and an answer in several pieces."""

    def look(place: str) -> str:
        """Look."""
        return "seen"

    async def write(place: str) -> str:
        """Write."""
        await asyncio.sleep(0)
        return "written"

    async def seed(question: str) -> str:
        await asyncio.sleep(0)
        return "known"

    def script(messages: list[Any]) -> Any:
        if sum(m.type == "tool" for m in messages) >= 4:
            return "An answer that comes in pieces. " * 3
        return ScriptedReply("Let me see.", calls=[("look", {"place": "x"}), ("write", {"place": "y"})])

    tools = [tool_policy(look, effect="read"), tool_policy(write, effect="write")]
    saver = InMemorySaver()
    return build_turn_graph(ScriptedModel(script), tools, [Capability("c", seed=seed)], checkpointer=saver)


@pytest.mark.parametrize("way", ["close", "other thread", "garbage"])
def test_a_stream_that_is_broken_off_at_any_moment_ends_its_turn(way: str) -> None:
    """After each number of items: no turn is left open, and none ends as an error."""
    graph, ended = three_rounds(), Counter[str]()
    for number in range(1, 36):
        config = thread(f"t{number}")
        stream = graph.stream({"messages": [("user", "go")]}, config, stream_mode=["custom", "updates"])
        for _ in range(number):
            next(stream, None)
        if way == "close":
            stream.close()
        elif way == "other thread":
            closing = threading.Thread(target=stream.close)
            closing.start()
            closing.join()
        else:
            del stream  # the last reference
        left = graph.get_state(config)
        assert left.next == (), number
        check_turn(left.values)
        ended[left.values["receipt"]["status"]] += 1
    assert set(ended) <= {"cancelled", "completed"}
    assert ended["cancelled"] > 0


def test_a_stream_that_is_collected_on_the_background_loop_does_not_wait_there() -> None:
    graph = three_rounds()
    stream = graph.stream({"messages": [("user", "go")]}, thread(), stream_mode="custom")
    next(stream)

    async def collect() -> None:
        stream.close()

    started = time.monotonic()
    run_sync(collect())
    assert time.monotonic() - started < 5
    deadline = time.monotonic() + 20
    while (values := graph.get_state(thread()).values).get("receipt", {}).get("status") is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert values["receipt"]["status"] in ("cancelled", "completed")


def steps() -> ScriptedModel:
    return ScriptedModel([ScriptedReply(text="Let me look.", calls=[("look", {"place": "yard"})]), "It is there."])


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_drained_run_goes_on_where_it_stopped(form: str) -> None:
    control, ran = RunControl(), []

    def look(place: str) -> str:
        """Look."""
        ran.append(place)
        control.request_drain()
        return "seen"

    graph = build_turn_graph(steps(), [look], checkpointer=InMemorySaver())

    def go(input: Any, **options: Any) -> Any:
        if form == "sync":
            return graph.invoke(input, thread(), **options)
        return asyncio.run(graph.ainvoke(input, thread(), **options))

    with pytest.raises(GraphDrained):
        go({"messages": [("user", "go")]}, control=control)
    assert ran == ["yard"]
    assert graph.get_state(thread()).next != ()
    output = go(None)
    assert output["answer"] == "It is there."
    assert output["receipt"]["status"] == "completed"
    assert ran == ["yard"], "a finished call ran again"
    check_turn(output)


def test_a_drained_run_and_a_new_message(openai_server: Any) -> None:
    control = RunControl()

    def look(place: str) -> str:
        """Look."""
        control.request_drain()
        return "seen"

    model = steps()
    graph = build_turn_graph(model, [look], checkpointer=InMemorySaver())
    with pytest.raises(GraphDrained):
        graph.invoke({"messages": [("user", "go")]}, thread(), control=control)
    output, events = run(graph, "something else", thread())
    assert output["answer"] == "It is there."
    check_turn(output, events)
    receipts = graph.get_state(thread()).values["receipts"]
    assert len(receipts) == 2
    assert receipts[0]["status"] in ("error", "cancelled")


async def test_cancel_stops_an_inner_turn_and_its_tools(openai_server: Any) -> None:
    ran: list[str] = []

    async def slow(name: str) -> str:
        """Be slow."""
        ran.append(f"begin {name}")
        await asyncio.sleep(60)
        ran.append(f"end {name}")
        return name

    server = openai_server(
        [call(("inner", {"question": "go"})), call(("slow", {"name": "a"})), say("Next.")], strict=True
    )
    inner = build_turn_graph(chat(server), [slow], name="inner")
    graph = build_turn_graph(chat(server), [as_tool(inner, description="Ask.")], checkpointer=InMemorySaver())
    task = asyncio.create_task(graph.ainvoke({"messages": [("user", "go")]}, thread()))
    while not ran:
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ran == ["begin a"]
    output = await graph.ainvoke({"messages": [("user", "go on")]}, thread())
    assert output["answer"] == "Next."
    check_turn(output)
