"""A provider that stalls: with batched deltas, all that came is shown an interval later, while the stream is open."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from tests.support.openai_server import Step, Wait, call, hanging, say
from tests.support.turns import check_turn, run, thread, types
from tests.support.wire import client
from turngraph.graph import TurnSettings, as_tool, build_turn_graph
from turngraph.llm.call import ModelRequest

BATCHED = TurnSettings(stream_interval_ms=50)
TEXT = "Hello there, this is all that came"
STALL = hanging(say(TEXT, chunks=3))


def in_a_parent(turn: Any) -> Any:
    builder = StateGraph(MessagesState, context_schema=TurnSettings)
    builder.add_node("turn", turn)
    builder.add_edge(START, "turn")
    builder.add_edge("turn", END)
    return builder.compile(checkpointer=InMemorySaver())


def called_in_a_node(turn: Any) -> Any:
    def node(state: MessagesState) -> Any:
        return {"messages": turn.invoke({"messages": state["messages"]}, context=BATCHED)["messages"]}

    async def anode(state: MessagesState) -> Any:
        made = await turn.ainvoke({"messages": state["messages"]}, context=BATCHED)
        return {"messages": made["messages"]}

    builder = StateGraph(MessagesState)
    builder.add_node("node", RunnableLambda(node, anode))
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile()


GRAPHS = {"alone": lambda turn: turn, "a node": in_a_parent, "in a node": called_in_a_node}


def shown_before_the_end(event: dict[str, Any], texts: list[str]) -> bool:
    """Collects the text; true once all of it was shown."""
    assert event["type"] not in ("round_finished", "turn_finished"), "held to the end of the stream"
    if event["type"] == "content":
        texts.append(event["text"])
    return "".join(texts) == TEXT


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stall is given up after some seconds; a test that waits for that has failed."""
    monkeypatch.setattr("turngraph.nodes.model_call.ModelRequest", partial(ModelRequest, idle_timeout=15.0))


@pytest.mark.parametrize("form", GRAPHS)
def test_a_sync_run_shows_it(openai_server: Any, form: str) -> None:
    server = openai_server([STALL])
    turn = build_turn_graph(client(server), checkpointer=InMemorySaver() if form == "alone" else None)
    graph, texts = GRAPHS[form](turn), list[str]()
    parts = graph.stream(
        {"messages": [("user", "go")]}, thread(), stream_mode="custom", subgraphs=True, context=BATCHED
    )
    with contextlib.closing(parts):
        assert any(shown_before_the_end(event, texts) for _, event in parts)
        server.stopped.set()
    assert texts[0] == TEXT[:3], "the first delta was held back"


@pytest.mark.parametrize("form", GRAPHS)
async def test_an_async_run_shows_it(openai_server: Any, form: str) -> None:
    turn = build_turn_graph(client(openai_server([STALL])), checkpointer=InMemorySaver() if form == "alone" else None)
    graph, texts = GRAPHS[form](turn), list[str]()
    parts: AsyncIterator[Any] = graph.astream(
        {"messages": [("user", "go")]}, thread(), stream_mode="custom", subgraphs=True, context=BATCHED
    )
    async with contextlib.aclosing(parts):  # type: ignore[type-var]
        async for _, event in parts:
            if shown_before_the_end(event, texts):
                break
    assert "".join(texts) == TEXT


def test_a_turn_that_is_a_tool_shows_it(openai_server: Any) -> None:
    server = openai_server([STALL])
    inner = build_turn_graph(client(server), name="inner")
    tool = as_tool(inner, name="helper", description="Helps.", settings=BATCHED)
    outer = build_turn_graph(
        client(openai_server([call(("helper", {"question": "go"})), say("Done.")])),
        [tool],
        checkpointer=InMemorySaver(),
    )
    texts: list[str] = []
    parts = outer.stream({"messages": [("user", "go")]}, thread(), stream_mode="custom", subgraphs=True)
    with contextlib.closing(parts):
        for namespace, event in parts:
            if namespace and shown_before_the_end(event, texts):
                server.stopped.set()
                break
    assert "".join(texts) == TEXT


PAUSES: dict[str, Step] = {
    "text": say("").with_(items=({"content": "One"}, {"content": " two"}, Wait(0.3), {"content": " three"})),
    "reasoning": say("").with_(
        items=(
            {"reasoning_content": "hm"},
            {"reasoning_content": " hm"},
            Wait(0.3),
            {"content": "One two"},
            {"content": " three"},
        )
    ),
    "a tag that may begin": say("").with_(
        items=({"content": "One"}, {"content": " two <thi"}, Wait(0.3), {"content": "nk>hm</think> three"})
    ),
}


@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize("step", PAUSES.values(), ids=PAUSES)
def test_a_stall_that_passes_changes_nothing(openai_server: Any, step: Step, way: Any) -> None:
    graph = build_turn_graph(client(openai_server([step])), checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread(), way=way, context=BATCHED)
    assert output["answer"].split() == ["One", "two", "three"]
    assert types(events)[-2:] == ["round_finished", "turn_finished"]
    check_turn(output, events)


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_time_that_runs_out_in_a_stall_gives_out_all_and_nothing_after(openai_server: Any, way: Any) -> None:
    server = openai_server([STALL, say("Out of time.")])
    graph = build_turn_graph(client(server), checkpointer=InMemorySaver())
    settings = TurnSettings(stream_interval_ms=10_000, max_seconds=0.5)
    output, events = run(graph, "go", thread(), way=way, context=settings)
    said = [(event["round"], event["text"]) for event in events if event["type"] == "content"]
    assert "".join(text for number, text in said if number == 1) == TEXT
    assert output["receipt"]["stop_reason"] == "max_seconds"
    check_turn(output, events)


async def test_a_cancelled_stall_keeps_what_was_shown(openai_server: Any) -> None:
    graph = build_turn_graph(client(openai_server([STALL])), checkpointer=InMemorySaver())
    texts: list[str] = []
    shown = asyncio.Event()

    async def watch() -> None:
        async for event in graph.astream(
            {"messages": [("user", "go")]}, thread(), stream_mode="custom", context=BATCHED
        ):
            if event["type"] == "content":
                texts.append(event["text"])
            if "".join(texts) == TEXT:
                shown.set()

    task = asyncio.create_task(watch())
    async with asyncio.timeout(20):
        await shown.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await graph.aget_state(thread())).values["answer"] == TEXT
    assert "".join(texts) == TEXT
