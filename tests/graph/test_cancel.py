"""Cancelled runs: what was streamed is kept and marked, no effect starts, the turn is closed, the thread usable."""

import asyncio
import time
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import call, hanging, say
from tests.support.turns import chat, check_calls, check_turn, run, thread
from turngraph.graph import build_turn_graph
from turngraph.nodes import texts
from turngraph.nodes.scope import current_scope
from turngraph.tools import tool_policy
from turngraph.tools.journal_sql import journal_for

GO: Any = {"messages": [("user", "go")]}


async def cancel_when(graph: Any, seen: Any, **kwargs: Any) -> list[dict[str, Any]]:
    """Runs the graph in a task and cancels it once `seen(events)`; gives the events up to then."""
    events: list[dict[str, Any]] = []

    async def work() -> None:
        async for event in graph.astream(GO, thread(), stream_mode="custom", **kwargs):
            events.append(event)

    task = asyncio.create_task(work())
    while not seen(events):
        assert not task.done(), task
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return events


def text_seen(events: list[dict[str, Any]]) -> bool:
    return any(event["type"] == "content" for event in events)


def test_a_cancel_while_text_streams_keeps_it(openai_server: Any) -> None:
    server = openai_server([hanging(say("Half an answ", chunks=4)), say("Next.")], strict=True)
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())
    asyncio.run(cancel_when(graph, lambda events: sum(e["type"] == "content" for e in events) == 3))
    state = graph.get_state(thread())
    assert state.next == ()
    assert state.values["answer"] == "Half an answ"
    assert state.values["receipt"]["status"] == "cancelled"
    last = state.values["messages"][-1]
    assert last.additional_kwargs["turngraph"]["cut"] == "cancelled"
    output, events = run(graph, "go on", thread())
    assert output["answer"] == "Next."
    check_turn(output, events)


def test_a_cancel_inside_thinking_leaves_no_thought_in_the_answer(openai_server: Any) -> None:
    server = openai_server([hanging(say("", think="secret thought", chunks=4)), say("Next.")])
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())
    asyncio.run(cancel_when(graph, lambda events: any(e["type"] == "thinking" for e in events)))
    values = graph.get_state(thread()).values
    assert values["receipt"]["status"] == "cancelled"
    assert values["answer"]
    assert "secret" not in values["answer"]
    assert not any("secret" in m.text for m in values["messages"])


def test_a_cancel_between_call_chunks_drops_the_incomplete_call(openai_server: Any) -> None:
    half = hanging(call(("look", {"place": "a long way away"}), text="Looking.", argument_chunk=4), after=4)
    server = openai_server([half, say("Next.")], strict=True)

    def look(place: str) -> str:
        """Look."""
        raise AssertionError("must not run")

    graph = build_turn_graph(chat(server), [look], checkpointer=InMemorySaver())
    asyncio.run(cancel_when(graph, text_seen))
    check_calls(graph.get_state(thread()).values["messages"])
    output, events = run(graph, "go on", thread())
    check_turn(output, events)


@pytest.mark.parametrize("blocking", [False, True])
def test_a_cancel_during_tools_stops_them_and_starts_no_other(openai_server: Any, blocking: bool) -> None:
    ran: list[str] = []

    async def wait(name: str) -> str:
        """Wait for long."""
        ran.append(name)
        await asyncio.sleep(60)
        return name

    def block(name: str) -> str:
        """Block for long."""
        ran.append(name)
        time.sleep(3)
        ran.append(f"late {name}")
        return name

    tool = tool_policy(block if blocking else wait, effect="write")
    batch = call((tool.name, {"name": "first"}), (tool.name, {"name": "second"}))
    server = openai_server([batch, say("Next.")], strict=True)
    graph = build_turn_graph(chat(server), [tool], checkpointer=InMemorySaver())
    started = time.monotonic()
    asyncio.run(cancel_when(graph, lambda events: any(e["type"] == "tool_started" for e in events)))
    assert time.monotonic() - started < 3
    assert ran == ["first"]
    values = graph.get_state(thread()).values
    assert values["receipt"]["status"] == "cancelled"
    check_calls(values["messages"])
    output, events = run(graph, "go on", thread())
    assert output["answer"] == "Next."
    assert "second" not in ran
    check_turn(output, events)


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_tool_whose_claim_is_made_as_the_cancel_comes_does_not_start(
    openai_server: Any, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    ran: list[str] = []

    def write(name: str) -> str:
        """Write."""
        ran.append(name)
        return f"wrote {name}"

    server = openai_server([call(("write", {"name": "a"}), ("write", {"name": "b"})), say("Next.")], strict=True)
    saver = InMemorySaver()
    graph = build_turn_graph(chat(server), [tool_policy(write, effect="write")], checkpointer=saver)
    journal, made = journal_for(saver), 0
    claim = journal.claim

    async def cancelled_meanwhile(*args: Any) -> Any:
        nonlocal made
        claims, made = await claim(*args), made + 1
        if made == 2:
            current_scope().cancel()
        return claims

    monkeypatch.setattr(journal, "claim", cancelled_meanwhile)
    if form == "sync":
        graph.invoke(GO, thread())
    else:
        asyncio.run(graph.ainvoke(GO, thread()))
    values = graph.get_state(thread()).values
    assert ran == ["a"]
    assert values["receipt"]["status"] == "cancelled"
    assert [m.text for m in values["messages"] if m.type == "tool"] == ["wrote a", texts.CANCELLED]
    assert len(asyncio.run(journal.lookup("t1", values["receipt"]["turn_id"]))) == 1, "the claim was given back"
    output, events = run(graph, "go on", thread())
    assert output["answer"] == "Next."
    check_turn(output, events)


def test_finished_results_of_a_cancelled_batch_are_kept(openai_server: Any) -> None:
    async def quick(name: str) -> str:
        """Be quick."""
        return f"quick {name}"

    async def slow(name: str) -> str:
        """Be slow."""
        await asyncio.sleep(60)
        return name

    server = openai_server([call(("quick", {"name": "a"}), ("slow", {"name": "b"})), say("Next.")], strict=True)
    graph = build_turn_graph(chat(server), [quick, slow], checkpointer=InMemorySaver())
    asyncio.run(cancel_when(graph, lambda events: any(e["type"] == "tool_finished" for e in events)))
    results = [m for m in graph.get_state(thread()).values["messages"] if m.type == "tool"]
    assert results[0].text == "quick a"
    assert results[1].status == "error"


def test_a_client_that_stops_reading_closes_the_turn(openai_server: Any) -> None:
    server = openai_server([hanging(say("Half", chunks=2)), hanging(say("Half", chunks=2))])
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())

    async def read_a_little() -> None:
        stream = graph.astream(GO, thread("async"), stream_mode="custom")
        async for event in stream:
            if event["type"] == "content":
                break
        await stream.aclose()

    asyncio.run(read_a_little())
    for event in graph.stream(GO, thread("sync"), stream_mode="custom"):
        if event["type"] == "content":
            break
    time.sleep(0.1)
    for name in ("async", "sync"):
        assert graph.get_state(thread(name)).values["receipt"]["status"] == "cancelled"


def test_a_cancel_under_a_timeout_of_the_caller(openai_server: Any) -> None:
    server = openai_server([hanging(say("Half", chunks=2)), say("Next.")])
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(graph.ainvoke(GO, thread()), 1)

    asyncio.run(scenario())
    assert graph.get_state(thread()).values["receipt"]["status"] == "cancelled"
    output, events = run(graph, "go on", thread())
    check_turn(output, events)
