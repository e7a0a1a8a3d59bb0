"""Whole turns against a scripted OpenAI-compatible server: rounds, tools, events, the tape and the receipt."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from tests.support.openai_server import call, say
from tests.support.turns import WAYS, Way, chat, check_turn, finish_text, roles, run, thread, types
from turngraph.graph import InputError, TurnSettings, build_turn_graph
from turngraph.state.words import STATE_VERSION


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: all quiet"


@pytest.mark.parametrize("way", WAYS)
def test_a_first_round_without_calls_is_the_fast_path(openai_server: Any, way: Way) -> None:
    server = openai_server([say("Hello there.", chunks=3)], strict=True)
    output, events = run(build_turn_graph(chat(server)), "Hi", way=way)
    assert output["answer"] == "Hello there."
    assert output["receipt"]["status"] == "completed"
    assert output["receipt"]["stop_reason"] == "finish"
    assert output["receipt"]["rounds"] == 1
    assert output["receipt"]["model"] == "scripted"
    check_turn(output, events)
    if events:
        assert types(events)[:2] == ["turn_started", "round_started"]
    assert set(output) == {"messages", "answer", "receipt"}
    server.done()


@pytest.mark.parametrize("way", WAYS)
def test_two_rounds_of_tools_then_an_answer(openai_server: Any, way: Way) -> None:
    server = openai_server(
        [
            call(("add", {"a": 1, "b": 2}), ("look", {"place": "yard"}), text="Let me see. ", chunks=4),
            call(("add", {"a": 3, "b": 4}), text="Now the rest."),
            say("The sums are 3 and 7.", chunks=2),
        ],
        strict=True,
    )
    graph = build_turn_graph(chat(server), [add, look], checkpointer=InMemorySaver())
    output, events = run(graph, "Add and look", thread(), way=way)
    assert output["answer"] == "The sums are 3 and 7."
    check_turn(output, events)
    kinds = [type(message) for message in output["messages"]]
    assert kinds == [HumanMessage, AIMessage, ToolMessage, ToolMessage, AIMessage, ToolMessage, AIMessage]
    calls = [c["id"] for m in output["messages"] if isinstance(m, AIMessage) for c in m.tool_calls]
    assert [m.tool_call_id for m in output["messages"] if isinstance(m, ToolMessage)] == calls
    assert [m.text for m in output["messages"] if isinstance(m, ToolMessage)] == ["3", "yard: all quiet", "7"]
    receipt = output["receipt"]
    assert (receipt["rounds"], receipt["tool_calls"], receipt["tool_errors"]) == (3, 3, 0)
    assert not receipt["usage"]["estimated"]
    assert receipt["usage"]["total_tokens"] == receipt["usage"]["input_tokens"] + receipt["usage"]["output_tokens"]
    if events:
        assert roles(events) == ["narration", "narration", "finish"]
        assert finish_text(events) == output["answer"]
        started = [e["name"] for e in events if e["type"] == "tool_started"]
        finished = [(e["name"], e["status"]) for e in events if e["type"] == "tool_finished"]
        assert sorted(started) == ["add", "add", "look"]
        assert sorted(finished) == [("add", "ok"), ("add", "ok"), ("look", "ok")]
    server.done()


def test_each_request_of_a_turn_extends_the_one_before_byte_for_byte(openai_server: Any) -> None:
    server = openai_server(
        [call(("add", {"a": 1, "b": 2})), call(("look", {"place": "é 中"})), say("done")], strict=True
    )
    run(build_turn_graph(chat(server), [add, look]), "go")
    first, second, third = server.requests
    import json

    def body(request: Any) -> str:
        return json.dumps(request.messages, ensure_ascii=False)[:-1]

    assert body(second).startswith(body(first))
    assert body(third).startswith(body(second))
    assert third.raw.startswith(second.raw[: second.raw.index(b'"messages"')])
    assert first.body["tools"] == second.body["tools"] == third.body["tools"]


def test_the_next_turn_sees_the_last_one_and_starts_fresh(openai_server: Any) -> None:
    server = openai_server([call(("add", {"a": 1, "b": 2})), say("Three."), say("Still three.")], strict=True)
    graph = build_turn_graph(chat(server), [add], checkpointer=InMemorySaver())
    run(graph, "1 + 2?", thread())
    output, events = run(graph, "Sure?", thread())
    assert output["answer"] == "Still three."
    assert output["receipt"]["rounds"] == 1
    assert output["receipt"]["tool_calls"] == 0
    assert "Three." in server.requests[-1].said("assistant")
    receipts = graph.get_state(thread()).values["receipts"]
    assert [receipt["status"] for receipt in receipts] == ["completed", "completed"]
    assert len({receipt["turn_id"] for receipt in receipts}) == 2
    check_turn(output, events)


@pytest.mark.parametrize(
    ("input", "says"),
    [("text", "messages"), ({"message": "x"}, "messages"), ({"messages": []}, "nothing to answer"), (7, "messages")],
)
def test_bad_input_is_refused_with_what_would_be_right(openai_server: Any, input: Any, says: str) -> None:
    server = openai_server([])
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())
    with pytest.raises(InputError, match=says):
        graph.invoke(input, thread())


def test_unknown_settings_are_refused_with_the_known_ones(openai_server: Any) -> None:
    graph = build_turn_graph(chat(openai_server([])))
    with pytest.raises(InputError, match="max_rounds"):
        graph.invoke({"messages": [("user", "x")]}, context={"max_round": 3})
    with pytest.raises(ValueError, match="Known fields"):
        TurnSettings(max_round=3)  # type: ignore[call-arg]


def test_settings_as_a_dict_work_like_the_class(openai_server: Any) -> None:
    server = openai_server([call(("add", {"a": 1, "b": 2})), say("forced")], strict=True)
    output, _ = run(build_turn_graph(chat(server), [add]), "go", context={"max_rounds": 1})
    assert output["receipt"]["stop_reason"] == "max_rounds"


def test_two_tools_of_one_name_and_our_own_names_are_refused() -> None:
    with pytest.raises(InputError, match="add"):
        build_turn_graph(tools=[add, lambda_named("add")])
    with pytest.raises(InputError, match="read_tool_result"):
        build_turn_graph(tools=[lambda_named("read_tool_result")])


def lambda_named(name: str) -> Any:
    def tool(x: int) -> int:
        """A tool."""
        return x

    tool.__name__ = name
    return tool


def test_a_graph_may_run_inside_a_running_loop(openai_server: Any) -> None:
    import asyncio

    server = openai_server([say("a"), say("b")])
    graph = build_turn_graph(chat(server))

    async def both() -> list[str]:
        first = graph.invoke({"messages": [("user", "sync inside a loop")]})
        second = await graph.ainvoke({"messages": [("user", "async")]})
        return [first["answer"], second["answer"]]

    assert asyncio.run(both()) == ["a", "b"]


def test_every_turn_says_in_which_version_of_the_state_it_was_written(openai_server: Any) -> None:
    server = openai_server([say("a")])
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())
    run(graph, "x", thread())
    anchors = graph.get_state(thread()).values["anchors"]
    assert [anchor["version"] for anchor in anchors if anchor["kind"] == "turn"] == [STATE_VERSION]


def test_a_sync_call_on_the_savers_own_loop_is_refused_and_does_not_hang(openai_server: Any, tmp_path: Path) -> None:
    graph_of = build_turn_graph

    async def scenario() -> None:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "t.sqlite")) as saver:
            graph = graph_of(chat(openai_server([say("hi")])), checkpointer=saver)
            with pytest.raises(InputError, match="ainvoke"):
                graph.invoke({"messages": [("user", "x")]}, thread())
            assert (await graph.ainvoke({"messages": [("user", "x")]}, thread()))["answer"] == "hi"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"permissions": {"ad": "deny"}}, "permissions names what this graph does not have: ad"),
        ({"enabled_tools": ["add", "looks"]}, "looks"),
        ({"active_skills": ["poet"]}, "poet"),
    ],
)
def test_a_misspelt_name_in_the_settings_is_said(openai_server: Any, settings: dict[str, Any], says: str) -> None:
    _, events = run(build_turn_graph(chat(openai_server([say("hi")])), [add, look]), "x", context=settings)
    (notice,) = [e for e in events if e["type"] == "notice"]
    assert notice["code"] == "unknown_name"
    assert says in notice["text"]


def test_names_that_exist_are_not_remarked_on(openai_server: Any) -> None:
    settings = {"permissions": {"add": "ask", "read_tool_result": "allow"}, "enabled_tools": ["look"]}
    _, events = run(build_turn_graph(chat(openai_server([say("hi")])), [add, look]), "x", context=settings)
    assert not [e for e in events if e["type"] == "notice"]
