"""B53 (langgraph#5672): text that the user has read does not vanish when they press Stop. On a server:
tests/server/test_stopping.py; Ctrl-C: tests/graph/test_stop.py."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from tests.support.openai_server import Step, call, hanging, say
from tests.support.turns import chat, check_turn, thread
from turngraph.graph import build_turn_graph


def look(place: str) -> str:
    """Look."""
    raise AssertionError("an incomplete call must not run")


CASES: dict[str, tuple[Step, str]] = {
    "half an answer": (hanging(say("Half an answer", chunks=4)), "Half an answer"),
    "inside reasoning": (hanging(say("", think="A secret plan", chunks=4), after=2), ""),
    "after closed reasoning": (hanging(say("Half", think="A secret plan", chunks=4)), "Half"),
    "in a reasoning field": (hanging(say("Half", reasoning="A secret plan", chunks=4)), "Half"),
    "between call chunks": (
        hanging(call(("look", {"place": "a long way off"}), text="Let me look.", argument_chunk=4), after=3),
        "Let me look.",
    ),
    "where a tag may begin, which nobody was shown": (hanging(say("1 <think", chunks=4)), "1 "),
}


@pytest.mark.parametrize("durability", ["async", "sync", "exit"])
@pytest.mark.parametrize("name", CASES)
async def test_b53_what_was_read_is_there_in_the_next_process(
    name: str, durability: Any, openai_server: Any, tmp_path: Path
) -> None:
    step, expected = CASES[name]
    server = openai_server([step, say("Next.")], strict=True)
    database = str(tmp_path / "turns.sqlite")
    read: list[str] = []
    async with AsyncSqliteSaver.from_conn_string(database) as saver:
        graph = build_turn_graph(chat(server), [look], checkpointer=saver)

        async def work() -> None:
            stream = graph.astream(
                {"messages": [("user", "go")]}, thread(), stream_mode="custom", durability=durability
            )
            async for event in stream:
                if event["type"] == "content":
                    read.append(event["text"])

        task = asyncio.create_task(work())
        while not server.requests or not server.requests[0].sent:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.25)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with AsyncSqliteSaver.from_conn_string(database) as saver:
        graph = build_turn_graph(chat(server), [look], checkpointer=saver)
        left = await graph.aget_state(thread())
        assert left.next == ()
        assert left.values["receipt"]["status"] == "cancelled"
        kept = left.values["messages"][-1]
        if expected:
            assert left.values["answer"] == kept.text == expected
            assert kept.text.startswith("".join(read))
            assert kept.additional_kwargs["turngraph"]["cut"] == "cancelled"
        assert "secret" not in left.values["answer"]
        assert not kept.tool_calls
        assert all("<think>" not in m.text for m in left.values["messages"])
        output = await graph.ainvoke({"messages": [("user", "go on")]}, thread())
        assert output["answer"] == "Next."
        check_turn(output)
    server.done()
