"""Hundreds of turns at once in one process: no error, no mixed output, and the memory comes back."""

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from tests.support.turns import check_turn, finish_text, thread
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import tool_policy

TURNS = 200


def script(messages: list[BaseMessage]) -> Any:
    place = next(m.text for m in reversed(messages) if isinstance(m, HumanMessage))
    results = [m.text for m in messages if isinstance(m, ToolMessage)]
    if results:
        return f"{place}: {' / '.join(results)}"
    return ScriptedReply(text=f"Looking at {place}.", calls=[("look", {"place": place}), ("touch", {"place": place})])


async def look(place: str) -> str:
    """Look."""
    await asyncio.sleep(0.01)
    return f"seen {place}"


def touch(place: str) -> str:
    """Touch."""
    return f"felt {place}"


def turn(saver: Any) -> Any:
    tools = [tool_policy(look, effect="read"), tool_policy(touch, effect="write")]
    return build_turn_graph(ScriptedModel(script), tools, checkpointer=saver)


async def one(graph: Any, name: str) -> None:
    events, output = [], None
    stream = graph.astream(
        {"messages": [("user", name)]},
        thread(name),
        stream_mode=["custom", "values"],
        context=TurnSettings(system_prompt=f"You are {name}."),
    )
    async for mode, data in stream:
        if mode == "custom":
            events.append(data)
        else:
            output = data
    assert output["answer"] == finish_text(events) == f"{name}: seen {name} / felt {name}"
    assert {event["turn_id"] for event in events} == {output["receipt"]["turn_id"]}
    assert {event["args"]["place"] for event in events if event["type"] == "tool_started"} == {name}
    assert all(name in m.text for m in output["messages"])
    check_turn(output, events)


@pytest.mark.parametrize("kind", ["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
async def test_two_hundred_turns_at_once_do_not_mix(kind: str, tmp_path: Any) -> None:
    names = [f"place-{number}-" + "x" * (number % 7) for number in range(TURNS)]
    if kind == "memory":
        graph = turn(InMemorySaver())
        await asyncio.gather(*(one(graph, name) for name in names))
        return
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "turns.sqlite")) as saver:
        graph = turn(saver)
        await asyncio.gather(*(one(graph, name) for name in names))


@pytest.mark.slow
async def test_the_memory_of_finished_turns_comes_back() -> None:
    async def batch(start: int) -> None:
        graph = turn(InMemorySaver())
        await asyncio.gather(*(one(graph, f"p{start + number}") for number in range(50)))

    await batch(0)
    gc.collect()
    tracemalloc.start()
    sizes = []
    for start in range(100, 500, 100):
        await batch(start)
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert sizes[-1] - sizes[0] < 1_000_000, sizes
