"""Every stream mode of a served turn, alone and inside a parent: complete, in order, and nothing hidden in them."""

import asyncio
from typing import Any

import pytest

from tests.server.conftest import Served, says
from tests.support.turns import finish_text

pytestmark = pytest.mark.server

MODES = ["updates", "custom", "messages-tuple", "values", "debug"]
LOOK = 'call look {"place": "yard"}'
ANSWER = "Done: seen yard"


async def collect(served: Served, graph: str, input: Any, modes: list[str], **options: Any) -> list[Any]:
    client = served.client
    thread = await client.threads.create()
    parts = []
    async for part in client.runs.stream(thread["thread_id"], graph, input=input, stream_mode=modes, **options):
        assert part.event != "error", part.data
        parts.append(part)
    return parts


def of(parts: list[Any], mode: str) -> list[Any]:
    """The data of one mode, whatever namespace it came from."""
    return [part.data for part in parts if part.event.split("|")[0] == mode]


def spoken(parts: list[Any]) -> list[str]:
    """The text of each streamed assistant message of the `messages` mode, in order of its first piece."""
    texts: dict[str, str] = {}
    for chunk, _ in of(parts, "messages"):
        if chunk["type"].startswith(("AIMessage", "ai")):
            content = chunk["content"]
            piece = content if isinstance(content, str) else "".join(b.get("text", "") for b in content)
            texts[chunk["id"]] = texts.get(chunk["id"], "") + piece
    return [text for text in texts.values() if text]


@pytest.mark.parametrize(("graph", "subgraphs"), [("turn", False), ("turn", True), ("parent", True)])
async def test_all_modes_at_once_agree(served: Served, graph: str, subgraphs: bool) -> None:
    parts = await collect(served, graph, says(LOOK), MODES, stream_subgraphs=subgraphs)
    events = of(parts, "custom")
    assert events[0]["type"] == "turn_started"
    assert events[-1]["type"] == "turn_finished"
    assert finish_text(events) == ANSWER
    assert spoken(parts) == ["Let me see.", ANSWER]
    last = of(parts, "values")[-1]
    assert [m["type"] for m in last["messages"]] == ["human", "ai", "tool", "ai"]
    nodes = [node for update in of(parts, "updates") for node in update]
    inner = [node for node in nodes if node != "agent"]
    assert inner == ["prepare_turn", "call_llm", "dispatch_tools", "fold_checkpoint", "call_llm", "finalize"]
    assert of(parts, "debug")
    custom = {part.event for part in parts if part.event.startswith("custom")}
    if graph == "parent":
        assert all(name.startswith("custom|agent:") for name in custom)
        assert set(last) == {"messages"}
    else:
        assert custom == {"custom"}
        assert set(last) - {"structured"} == {"messages", "answer", "receipt"}
        assert events[-1]["receipt"] == last["receipt"]


async def test_a_parent_without_subgraphs_shows_whole_messages_and_no_events(served: Served) -> None:
    parts = await collect(served, "parent", says(LOOK), MODES)
    assert of(parts, "custom") == []
    assert [list(update) for update in of(parts, "updates")] == [["agent"]]
    assert spoken(parts)[-1] == ANSWER
    assert [m["type"] for m in of(parts, "values")[-1]["messages"]] == ["human", "ai", "tool", "ai"]


async def test_private_state_and_thoughts_are_in_no_visible_text(served: Served) -> None:
    parts = await collect(served, "turn", says("say Hello there."), MODES)
    assert spoken(parts) == ["Hello there."]
    assert "".join(e["text"] for e in of(parts, "custom") if e["type"] == "thinking") == "Let me think."
    for update in of(parts, "updates"):
        for written in update.values():
            assert set(written or {}) <= {"messages", "answer", "receipt", "structured"}


@pytest.mark.parametrize(("graph", "depth"), [("turn", 0), ("parent", 1)])
async def test_the_v3_protocol_brings_events_text_and_values(served: Served, graph: str, depth: int) -> None:
    async with served.client.threads.stream(assistant_id=graph) as thread:
        channels = ["custom", "messages", "values", "lifecycle"]
        subscription = thread.subscribe(channels)
        await thread.run.start(input=says(LOOK))
        events: list[Any] = []

        async def read() -> None:
            async for event in subscription:
                events.append(event)
                done = event["method"] == "lifecycle" and not event["params"]["namespace"]
                if done and event["params"]["data"].get("event") in ("completed", "failed", "interrupted"):
                    return

        await asyncio.wait_for(read(), 30)
    custom = [e["params"] for e in events if e["method"] == "custom"]
    payloads = [each["data"].get("payload", each["data"]) for each in custom]
    assert payloads[0]["type"] == "turn_started"
    assert finish_text(payloads) == ANSWER
    assert {len(each["namespace"]) for each in custom} == {depth}
    assert any(e["method"] == "messages" for e in events)
    values = [e["params"]["data"] for e in events if e["method"] == "values" and not e["params"]["namespace"]]
    assert values[-1]["messages"][-1]["content"] == ANSWER
