"""What every stream of a turn shows: clean text, each message once, no hidden call; and the batching of deltas."""

import asyncio
import json
import time
import warnings
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from typing_extensions import TypedDict

from tests.support.openai_server import Step, broken, call, error, say
from tests.support.turns import check_turn, finish_text, run, thread, types
from tests.support.wire import both_ways, check_requests, client
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.nodes.emit import DeltaEvents

INPUT: Any = {"messages": [("user", "go")]}
MARKUP = '<tool_call>{"name": "look", "arguments": {"place": "yard"}}</tool_call>'
RAW = ("<think", "</think", "<tool_call", "</tool_call", "DSML", "secret")
PRIVATE = {"progress", "anchors", "batch", "receipts", "grants", "originals", "remaining_steps"}


class City(TypedDict):
    name: str


def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is empty"


TURNS: dict[str, list[Step]] = {
    "plain": [say("Hello there.", chunks=2)],
    "thinking inline": [say("Hello there.", think="secret plan", chunks=1)],
    "thinking in a field": [say("Hello there.", reasoning="secret plan", chunks=3)],
    "tools": [
        call(("look", {"place": "yard"}), text="Looking.", think="secret", chunks=1, argument_chunk=2),
        call(("look", {"place": "barn"}), ("look", {"place": "roof"}), ids=["b", "r"]),
        say("All empty.", think="secret", chunks=1),
    ],
    "markup": [say(f"I look.\n{MARKUP}", chunks=1), say("Empty.", chunks=1)],
    "markup alone": [say(MARKUP, chunks=1), say("Empty.", chunks=1)],
    "empty and nudged": [say("", think="secret"), say("Here.")],
    "continued": [say("One, tw", finish="length", chunks=2), say("o, three.", chunks=2)],
    "broken": [broken(say("The first ha", chunks=4)), say("The whole.")],
    "broken in what could be a tag": [broken(say("If a <thi", chunks=1)), say("The whole.")],
    "broken in a call": [
        broken(call(("look", {"place": "yard"}), text="I look.", argument_chunk=3), after=3),
        say("The whole."),
    ],
    "broken before a word": [broken(say("", reasoning="secret", chunks=2)), say("Here.")],
    "fallback answer": [call(("look", {"place": "yard"})), *[error(400, "odd")] * 6],
}
SCRIPTS = pytest.mark.parametrize("steps", TURNS.values(), ids=TURNS)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turngraph.llm.call.FIRST_DELAY", 0.01)


def build(server: Any, streamed: bool = True, **more: Any) -> Any:
    return build_turn_graph(client(server, streamed), [look], checkpointer=InMemorySaver(), **more)


def stream(graph: Any, mode: Any, way: str, **kwargs: Any) -> list[Any]:
    if way == "sync":
        return list(graph.stream(INPUT, thread(), stream_mode=mode, **kwargs))

    async def gather() -> list[Any]:
        return [part async for part in graph.astream(INPUT, thread(), stream_mode=mode, **kwargs)]

    return asyncio.run(gather())


def tape(graph: Any) -> list[BaseMessage]:
    messages: list[BaseMessage] = graph.get_state(thread()).values["messages"]
    return messages


def said_by_id(parts: list[Any]) -> tuple[dict[str, str], list[BaseMessage]]:
    """Text of the chunks of each message, and the messages that came whole."""
    chunks: dict[str, list[str]] = {}
    whole = []
    for message, _ in parts:
        assert message.id, "a message without an id cannot be told from others"
        if isinstance(message, AIMessageChunk):
            chunks.setdefault(message.id, []).append(message.text)
        else:
            whole.append(message)
    return {key: "".join(texts) for key, texts in chunks.items()}, whole


@pytest.mark.parametrize("way", ["sync", "async"])
@both_ways
@SCRIPTS
def test_messages_are_clean_and_come_once(openai_server: Any, steps: list[Step], streamed: bool, way: str) -> None:
    server = openai_server(steps, strict=True)
    graph = build(server, streamed)
    parts = stream(graph, "messages", way)
    chunks, whole = said_by_id(parts)
    ids = [message.id for message in whole]
    assert len(set(ids)) == len(ids), "a message was shown twice"
    assert not set(ids) & set(chunks), "a message was streamed and then shown whole"
    for message, _ in parts:
        assert not any(mark in message.text for mark in RAW), message.text
    stored = {m.id: m.text for m in tape(graph) if not isinstance(m, HumanMessage)}
    shown = {**chunks, **{str(m.id): m.text for m in whole}}
    assert {key: text for key, text in shown.items() if key in stored} == stored
    assert not any(text for key, text in shown.items() if key not in stored), "text that is on no tape"


@SCRIPTS
def test_v3_is_as_clean(openai_server: Any, steps: list[Step]) -> None:
    server = openai_server(steps, strict=True)
    graph = build(server)

    async def gather() -> list[dict[str, Any]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [event async for event in await graph.astream_events(INPUT, thread(), version="v3")]

    events = asyncio.run(gather())
    texts: dict[str, str] = {}
    current = ""
    for event in events:
        if event["method"] != "messages":
            continue
        data = event["params"]["data"][0]
        if isinstance(data, BaseMessage):
            assert data.id not in texts, "a message was streamed and then shown whole"
            texts[str(data.id)] = data.text
        elif data["event"] == "message-start":
            current = data["id"]
            assert current not in texts, "a message was shown twice"
            texts[current] = ""
        elif data["event"] == "content-block-delta" and data["delta"]["type"] == "text-delta":
            texts[current] += data["delta"]["text"]
    assert not any(mark in text for text in texts.values() for mark in RAW)
    stored = {m.id: m.text for m in tape(graph) if not isinstance(m, HumanMessage)}
    assert {key: text for key, text in texts.items() if key in stored} == {
        key: text for key, text in stored.items() if key in texts
    }
    answers = [m for m in tape(graph) if isinstance(m, AIMessage)]
    assert {m.id for m in answers} <= set(texts)
    assert all(isinstance(m.content, str) for m in answers), "v3 changed what is stored"
    assert not any(text for key, text in texts.items() if key not in stored)
    custom = [event["params"]["data"] for event in events if event["method"] == "custom"]
    assert types(custom)[-1] == "turn_finished"
    assert finish_text(custom) == graph.get_state(thread()).values["answer"]


@pytest.mark.parametrize("way", ["sync", "async"])
@SCRIPTS
def test_updates_and_values_are_clean_and_public(openai_server: Any, steps: list[Step], way: str) -> None:
    server = openai_server(steps, strict=True)
    graph = build(server)
    parts = stream(graph, ["updates", "values", "custom"], way)
    events = [data for mode, data in parts if mode == "custom"]
    values = [data for mode, data in parts if mode == "values"]
    for mode, data in parts:
        for shown in [data] if mode == "values" else list(data.values()) if mode == "updates" else []:
            assert not PRIVATE & set(shown or {}), f"private keys in {mode}"
            for message in (shown or {}).get("messages", []):
                assert not any(mark in message.text for mark in RAW)
    for event in events:
        assert {"type", "turn_id", "round"} <= set(event)
        json.dumps(event)
        assert not (event["type"] == "content" and any(mark in event["text"] for mark in RAW))
    check_turn(values[-1], events)
    assert types(events)[0] == "turn_started"
    started = [e["round"] for e in events if e["type"] == "round_started"]
    finished = [e["round"] for e in events if e["type"] == "round_finished"]
    assert started == finished == sorted(set(started))
    check_requests(server)


@pytest.mark.parametrize("way", ["sync", "async"])
@both_ways
def test_hidden_calls_are_in_no_stream(openai_server: Any, streamed: bool, way: str) -> None:
    value = json.dumps({"name": "HIDDEN"})
    server = openai_server([call(("look", {"place": "yard"})), say("Visible."), say("no JSON HIDDEN"), say(value)])
    graph = build(server, streamed, response_format=City)
    parts = stream(graph, ["messages", "custom", "updates"], way)
    assert len(server.requests) == 4
    for mode, data in parts:
        shown = data[0].text if mode == "messages" else ""
        if mode == "updates":
            shown = "".join(m.text for update in data.values() for m in (update or {}).get("messages", []))
        if mode == "custom":
            shown = json.dumps({key: value for key, value in data.items() if key != "receipt"})
        assert "HIDDEN" not in shown, mode
    assert graph.get_state(thread()).values["structured"] == {"name": "HIDDEN"}


def test_hidden_calls_are_in_no_v3_stream(openai_server: Any) -> None:
    server = openai_server([call(("look", {"place": "yard"})), say("Visible."), say('{"name": "HIDDEN"}')])
    graph = build(server, response_format=City)

    async def gather() -> list[str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            events = [e async for e in await graph.astream_events(INPUT, thread(), version="v3")]
        return [str(e["params"]["data"]) for e in events if e["method"] in ("messages", "custom")]

    assert not any("HIDDEN" in each for each in asyncio.run(gather()))
    assert len(server.requests) == 3


def test_text_arrives_while_the_provider_still_writes(openai_server: Any) -> None:
    server = openai_server([say("a b c d e f g h i j", chunks=2, chunk_delay=0.05)])
    graph = build(server)
    seen: list[tuple[float, str]] = []
    started = time.monotonic()
    for mode, data in graph.stream(INPUT, thread(), stream_mode=["messages", "custom"]):
        if mode == "custom" and data["type"] == "content":
            seen.append((time.monotonic() - started, data["text"]))
    took = time.monotonic() - started
    assert len(seen) == 10
    assert took - seen[0][0] > 0.3, "the first delta came at the end"


@pytest.mark.parametrize("interval", [0, 120, 10_000])
def test_deltas_are_batched_by_the_interval(openai_server: Any, interval: int) -> None:
    text = "".join(chr(97 + n % 26) for n in range(40))
    server = openai_server([say(text, reasoning="thinking first", chunks=1, chunk_delay=0.01)])
    at: list[tuple[float, dict[str, Any]]] = []
    for event in build(server).stream(
        INPUT, thread(), stream_mode="custom", context=TurnSettings(stream_interval_ms=interval)
    ):
        at.append((time.monotonic(), event))
    events = [event for _, event in at]
    content = [event["text"] for event in events if event["type"] == "content"]
    thinking = [event["text"] for event in events if event["type"] == "thinking"]
    assert "".join(content) == text
    assert "".join(thinking) == "thinking first"
    assert thinking[0] == "t", "the first delta was held back"
    if interval == 0:
        assert len(content) == 40
    elif interval == 120:
        assert 1 < len(content) < 20
    else:
        assert len(content) == 1
    order = types(events)
    assert order.index("round_finished") > max(n for n, kind in enumerate(order) if kind == "content")
    assert order[-1] == "turn_finished"
    first = next(when for when, event in at if event["type"] == "thinking")
    assert at[-1][0] - first > 0.3


def test_a_break_gives_out_what_was_held(openai_server: Any) -> None:
    server = openai_server([broken(say("The first half", chunks=1)), say("The whole.")])
    graph = build(server)
    output, events = run(graph, "go", thread(), context=TurnSettings(stream_interval_ms=10_000))
    assert "".join(e["text"] for e in events if e["type"] == "content") == "The first halfThe whole."
    check_turn(output, events)


DELTAS = st.lists(
    st.tuples(st.sampled_from(["content", "thinking"]), st.text(max_size=4), st.floats(0, 0.3)), max_size=40
)


@settings(max_examples=200, deadline=None)
@given(deltas=DELTAS, interval=st.integers(0, 500))
def test_batching_keeps_every_character_in_order_and_its_pace(deltas: Any, interval: int) -> None:
    now = 0.0
    events: list[tuple[float, str, str]] = []

    def emit(kind: Any, /, **fields: Any) -> None:
        events.append((now, kind, fields["text"]))

    batch = DeltaEvents(emit, interval, lambda: now)
    for kind, text, wait in deltas:
        now += wait
        batch(kind, text)
        assert events or not text, "the first delta was held back"
    batch.flush()

    def joined(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
        out: list[tuple[str, str]] = []
        for kind, text in pairs:
            if out and out[-1][0] == kind:
                out[-1] = (kind, out[-1][1] + text)
            elif text:
                out.append((kind, text))
        return out

    assert joined([(kind, text) for _, kind, text in events]) == joined([(k, t) for k, t, _ in deltas])
    assert all(text for _, _, text in events)
    switches = sum(a[1] != b[1] for a, b in pairwise(events))
    assert len(events) <= 2 + 2 * switches + (now / (interval / 1000) if interval else len(deltas))


def test_tool_results_are_shown_once_in_messages(openai_server: Any) -> None:
    server = openai_server([call(("look", {"place": "a"}), ("look", {"place": "b"}), ids=["a", "b"]), say("Done.")])
    parts = stream(build(server), "messages", "async")
    results = [message for message, _ in parts if isinstance(message, ToolMessage)]
    assert [message.text for message in results] == ["a is empty", "b is empty"]
