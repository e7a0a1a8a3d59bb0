"""LangGraph's v3 streaming protocol: a turn alone and as a node of a parent, its pauses, and what it leaves stored."""

import asyncio
import json
import warnings
from dataclasses import dataclass, field
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.stream import CustomTransformer
from langgraph.types import Command

from tests.support.openai_server import Step, call, error, hanging, say
from tests.support.turns import chat, check_calls, check_turn, finish_text, roles, run, thread, types
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import tool_policy

GO: Any = {"messages": [("user", "go")]}
APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})
MARKS = ("<think", "</think", "<tool_call", "</tool_call")
WRITTEN = 'I look.\n<tool_call>{"name": "look", "arguments": {"place": "yard"}}</tool_call>'
ASYNC_AND_SYNC = pytest.mark.parametrize("way", ["async", "sync"])
PLACES = pytest.mark.parametrize("nested", [False, True], ids=["alone", "in a parent"])


def look(place: str) -> str:
    """Look at a place."""
    return f"seen {place}"


ASKING = tool_policy(look, permission="ask")
WORK = [
    call(("look", {"place": "yard"}), text="I look.", think="Where is it?", chunks=2, argument_chunk=3, ids=["l-yard"]),
    say("The yard is empty.", reasoning="Nothing there.", chunks=3),
]


def inside(turn: Any, **nodes: Any) -> Any:
    """A parent that runs the given nodes and then the turn; it passes on the events of its inside."""
    builder = StateGraph(MessagesState)
    names = [*nodes, "turn"]
    for name, node in {**nodes, "turn": turn}.items():
        builder.add_node(name, node)
    for one, other in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(one, other)
    return builder.compile(checkpointer=InMemorySaver(), transformers=[CustomTransformer])


def graph_of(server: Any, *, nested: bool, tools: Any = (look,), **options: Any) -> Any:
    if nested:
        return inside(build_turn_graph(chat(server), list(tools), **options))
    return build_turn_graph(chat(server), list(tools), checkpointer=InMemorySaver(), **options)


@dataclass
class Message:
    """One streamed message, put together from its blocks; `whole`: it came in one piece."""

    text: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    whole: bool = False
    finished: bool = False


@dataclass
class Seen:
    """What a v3 stream showed: its events by channel, each with its namespace, in order."""

    events: list[dict[str, Any]]
    output: Any
    interrupts: list[Any]

    def of(self, channel: str) -> list[Any]:
        return [event["params"]["data"] for event in self.events if event["method"] == channel]

    def depths(self, channel: str) -> set[int]:
        return {len(event["params"]["namespace"]) for event in self.events if event["method"] == channel}

    @property
    def custom(self) -> list[dict[str, Any]]:
        return self.of("custom")

    def messages(self) -> dict[str, Message]:
        """Every streamed message by its id. Fails where one is shown twice, or a piece belongs to none."""
        made: dict[str, Message] = {}
        current = Message()
        for data, _ in self.of("messages"):
            if isinstance(data, BaseMessage):
                assert data.id not in made, "a message was shown twice"
                made[str(data.id)] = Message(data.text, whole=True, finished=True)
                continue
            match data["event"]:
                case "message-start":
                    assert data["id"] not in made, "a message was shown twice"
                    current = made[data["id"]] = Message()
                case "content-block-delta":
                    current.text += data["delta"].get("text", "")
                    current.reasoning += data["delta"].get("reasoning", "")
                case "content-block-finish" if data["content"]["type"] == "tool_call":
                    current.calls.append({key: data["content"][key] for key in ("id", "name", "args")})
                case "message-finish":
                    current.finished = True
        return made


def v3(graph: Any, input: Any, way: str = "async", **options: Any) -> Seen:
    """One run, read to its end."""

    async def read() -> Seen:
        run_ = await graph.astream_events(input, thread(), version="v3", **options)
        events = [event async for event in run_]
        return Seen(events, await run_.output(), await run_.interrupts())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if way == "async":
            return asyncio.run(read())
        run_ = graph.stream_events(input, thread(), version="v3", **options)
        return Seen(list(run_), run_.output, run_.interrupts)


def tape(graph: Any) -> list[BaseMessage]:
    messages: list[BaseMessage] = graph.get_state(thread()).values["messages"]
    return messages


def check_clean(seen: Seen) -> None:
    """No markup of thoughts or calls in anything that is meant to be read."""
    for message in seen.messages().values():
        assert not any(mark in message.text + message.reasoning for mark in MARKS)
    for event in seen.custom:
        assert not any(mark in event.get("text", "") for mark in MARKS)
    for values in seen.of("values"):
        assert not any(mark in message.text for message in values["messages"] for mark in MARKS)


@ASYNC_AND_SYNC
@PLACES
def test_text_reasoning_calls_events_and_values(openai_server: Any, nested: bool, way: str) -> None:
    server = openai_server(WORK, strict=True)
    graph = graph_of(server, nested=nested)
    seen = v3(graph, GO, way)
    first, last = seen.messages().values()
    assert (first.text, first.reasoning) == ("I look.", "Where is it?")
    assert first.calls == [{"id": "l-yard", "name": "look", "args": {"place": "yard"}}]
    assert (last.text, last.reasoning, last.calls) == ("The yard is empty.", "Nothing there.", [])
    assert first.finished
    assert last.finished
    assert roles(seen.custom) == ["narration", "finish"]
    assert [types(seen.custom)[0], types(seen.custom)[-1]] == ["turn_started", "turn_finished"]
    assert "tool_finished" in types(seen.custom)
    assert finish_text(seen.custom) == last.text
    assert "".join(e["text"] for e in seen.custom if e["type"] == "thinking") == first.reasoning + last.reasoning
    assert seen.depths("custom") == seen.depths("messages") == {int(nested)}
    check_clean(seen)
    assert [m.type for m in seen.output["messages"]] == ["human", "ai", "tool", "ai"]
    assert [m.id for m in seen.output["messages"] if m.type == "ai"] == list(seen.messages())
    if not nested:
        check_turn(seen.output, seen.custom)
    assert not seen.interrupts
    server.done()


@PLACES
def test_the_deltas_of_messages_are_those_of_the_events(openai_server: Any, nested: bool) -> None:
    """The two channels tell of the same pieces, in the same order."""
    server = openai_server(WORK, strict=True)
    seen = v3(graph_of(server, nested=nested), GO)
    told = [(e["type"], e["text"]) for e in seen.custom if e["type"] in ("content", "thinking")]
    deltas = [data["delta"] for data, _ in seen.of("messages") if data["event"] == "content-block-delta"]
    kinds = {"text-delta": ("content", "text"), "reasoning-delta": ("thinking", "reasoning")}
    assert [(kinds[d["type"]][0], d[kinds[d["type"]][1]]) for d in deltas if d["type"] in kinds] == told


@PLACES
def test_calls_that_were_written_as_text_are_calls(openai_server: Any, nested: bool) -> None:
    server = openai_server([say(WRITTEN, think="A plan.", chunks=1), say("Empty.", think="So.", chunks=1)], strict=True)
    graph = graph_of(server, nested=nested)
    seen = v3(graph, GO, context=None if nested else TurnSettings(text_tools="always"))
    first, last = seen.messages().values()
    assert (first.text.strip(), first.reasoning) == ("I look.", "A plan.")
    assert last.text == "Empty."
    (made,) = [message for message in tape(graph) if isinstance(message, AIMessage) and message.tool_calls]
    assert [{key: c[key] for key in ("id", "name", "args")} for c in made.tool_calls] == first.calls
    check_clean(seen)
    check_calls(tape(graph))


@PLACES
def test_hidden_calls_are_in_no_channel(openai_server: Any, nested: bool) -> None:
    schema = {"title": "City", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    hidden = json.dumps({"name": "HIDDEN"})
    server = openai_server([*WORK, say(hidden, reasoning="HIDDEN thoughts", chunks=2)], strict=True)
    seen = v3(graph_of(server, nested=nested, response_format=schema), GO)
    assert len(server.requests) == 3
    assert len(seen.messages()) == 2
    for channel in ("messages", "custom", "lifecycle"):
        assert "HIDDEN" not in str(seen.of(channel)), channel
    assert not any("HIDDEN" in str(values["messages"]) for values in seen.of("values"))


@ASYNC_AND_SYNC
@PLACES
def test_a_pause_and_its_resume(openai_server: Any, nested: bool, way: str) -> None:
    server = openai_server(WORK, strict=True)
    graph = graph_of(server, nested=nested, tools=[ASKING])
    paused = v3(graph, GO, way)
    (pause,) = paused.interrupts
    assert pause.value["action_requests"][0]["args"] == {"place": "yard"}
    assert types(paused.custom)[-1] == "interaction_requested"
    assert [message.text for message in paused.messages().values()] == ["I look."]
    resumed = v3(graph, APPROVE, way)
    assert not resumed.interrupts
    assert types(resumed.custom)[0] == "interaction_resolved"
    assert types(resumed.custom)[-1] == "turn_finished"
    assert {e["turn_id"] for e in [*paused.custom, *resumed.custom]} == {paused.custom[0]["turn_id"]}
    assert [m.text for m in resumed.messages().values() if not m.whole] == ["The yard is empty."]
    assert not set(paused.messages()) & set(resumed.messages()), "a message was shown in both runs"
    check_clean(resumed)
    check_calls(tape(graph))
    server.done()


@pytest.mark.parametrize("order", [("v3", "v1"), ("v1", "v3"), ("v3", "v2"), ("v2", "v3")])
@PLACES
def test_one_thread_in_two_protocols(openai_server: Any, nested: bool, order: tuple[str, str]) -> None:
    """A pause in one protocol is resumed in the other, and the next turn reads what both have stored."""
    server = openai_server([*WORK, say("Once more: empty.", chunks=4)], strict=True)
    graph = graph_of(server, nested=nested, tools=[ASKING])
    for version, input in zip([*order, order[0]], [GO, APPROVE, {"messages": [("user", "sure?")]}], strict=True):
        if version == "v3":
            v3(graph, input)
        else:
            assert list(graph.stream(input, thread(), stream_mode="values", version=version))
    assert [m.text for m in tape(graph)] == [
        "go",
        "I look.",
        "seen yard",
        "The yard is empty.",
        "sure?",
        "Once more: empty.",
    ]
    assert all(isinstance(m.content, str) for m in tape(graph)), "what is stored depends on how it was read"
    check_calls(tape(graph))
    assert [m["content"] for m in server.requests[-1].messages[1:]] == [
        "go",
        "<think>Where is it?</think>I look.",
        "seen yard",
        "The yard is empty.",
        "sure?",
    ]
    server.done()


def test_what_other_nodes_store_as_blocks_is_read(openai_server: Any) -> None:
    """Under v3 LangChain's own client leaves lists of blocks on the tape, text and calls in them."""
    steps: list[Step] = [
        call(("look", {"place": "roof"}), text="Theirs.", chunks=3, ids=["theirs"]),
        *WORK,
        say("Still empty."),
    ]
    server = openai_server(steps, strict=True)

    async def first(state: MessagesState) -> Any:
        if len(state["messages"]) > 1:
            return {}
        message = await chat(server).bind_tools([look]).ainvoke(state["messages"])
        question = HumanMessage([{"type": "text", "text": "And "}, {"type": "text", "text": "now?"}])
        return {"messages": [message, {"role": "tool", "content": "seen roof", "tool_call_id": "theirs"}, question]}

    graph = inside(build_turn_graph(chat(server), [look]), first=first)
    seen = v3(graph, GO)
    theirs = tape(graph)[1]
    assert isinstance(theirs.content, list), "the point of this test is gone"
    sent = server.requests[1].messages
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "tool", "user"]
    assert _said(sent[2]) == "Theirs."
    assert [c["id"] for c in sent[2]["tool_calls"]] == ["theirs"]
    assert _said(sent[4]) == "And now?"
    assert finish_text(seen.custom) == "The yard is empty."
    output, events = run(graph, "sure?", thread(), way="astream")
    assert output["messages"][-1].text == "Still empty."
    assert events == []
    assert server.requests[-1].messages[: len(sent)] == sent, "the same history was sent in other words"
    server.done()


def _said(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


@ASYNC_AND_SYNC
def test_another_kind_of_model_is_stored_the_same(way: str) -> None:
    """A model that LangChain, not we, reads for the v3 protocol."""

    def script(messages: list[BaseMessage]) -> Any:
        if messages[-1].type == "tool":
            return "<think>So.</think>It is empty."
        return ScriptedReply("<think>A plan.</think>I look.", calls=[("look", {"place": "yard"})])

    graph = build_turn_graph(ScriptedModel(script), [look], checkpointer=InMemorySaver())
    seen = v3(graph, GO, way)
    assert [m.text for m in seen.messages().values() if not m.whole] == ["I look.", "It is empty."]
    check_clean(seen)
    assert [m.content for m in tape(graph)] == ["go", "I look.", "seen yard", "It is empty."]
    output, events = run(graph, "again", thread())
    check_turn(output, events)
    assert [m.content for m in output["messages"][4:]] == ["again", "I look.", "seen yard", "It is empty."]


def test_a_forced_finish_and_a_fallback_answer(openai_server: Any) -> None:
    server = openai_server([WORK[0], *[error(400, "odd")] * 4], strict=True)
    seen = v3(graph_of(server, nested=True), GO)
    assert "seen yard" in finish_text(seen.custom)
    assert seen.output["messages"][-1].text == finish_text(seen.custom)
    assert [m.text for m in seen.messages().values()][-1] == finish_text(seen.custom)


@PLACES
async def test_aborting_a_v3_run_closes_the_turn(openai_server: Any, nested: bool) -> None:
    server = openai_server([hanging(say("Half of it", chunks=2)), say("The rest.")], strict=True)
    graph = graph_of(server, nested=nested)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_ = await graph.astream_events(GO, thread(), version="v3")
        text = ""
        async with asyncio.timeout(30):
            async for event in run_:
                data = event["params"]["data"]
                text += data["text"] if event["method"] == "custom" and data["type"] == "content" else ""
                if text == "Half of it":
                    break
            await run_.abort()
    output = await asyncio.wait_for(graph.ainvoke({"messages": [("user", "go on")]}, thread()), 30)
    assert output["messages"][-1].text == "The rest."
    cut = [m for m in output["messages"] if m.additional_kwargs.get("turngraph", {}).get("cut")]
    assert [m.text for m in cut] == ["Half of it"]
    server.done()
