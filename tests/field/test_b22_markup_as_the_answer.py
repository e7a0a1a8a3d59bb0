"""B22 (sglang#30925, vllm#55080, DeepTutor#672): told not to call tools, the model writes call markup, or calls one
all the same."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import Step, call, say
from tests.support.turns import check_turn, run, thread
from tests.support.wire import both_ways, check_requests, client
from turngraph.graph import TurnSettings, build_turn_graph

FIRST = '<tool_call>{"name":"search","arguments":{"query":"first"}}</tool_call>'
MARKUPS = {
    "json": '<tool_call>{"name": "search", "arguments": {"query": "again"}}</tool_call>',
    "json-with-space-around": '  <tool_call>{"name":"search","arguments":{"query":"more"}}</tool_call>\n',
    "dsml": (
        '<｜｜DSML｜｜tool_calls><｜｜DSML｜｜invoke name="search"><｜｜DSML｜｜parameter name="query" string="true">again'
        "</｜｜DSML｜｜parameter></｜｜DSML｜｜invoke></｜｜DSML｜｜tool_calls>"
    ),
    "dsml-without-parameters": (
        '<｜DSML｜function_calls><｜DSML｜invoke name="search"></｜DSML｜invoke></｜DSML｜function_calls>'
    ),
    "invoke": (
        '<function_calls><invoke name="search"><parameter name="query">again</parameter></invoke></function_calls>'
    ),
    "no-such-tool": '<tool_call>{"name": "fetch", "arguments": {"url": "x"}}</tool_call>',
    "no-such-tool-without-arguments": '<tool_call>{"name":"no_such_tool","arguments":{}}</tool_call>',
}

ONE_ROUND = TurnSettings(max_rounds=1)


def graph_with(server: Any, streamed: bool, ran: list[str]) -> Any:
    def search(query: str) -> str:
        """Search."""
        ran.append(query)
        return f"found {query}"

    return build_turn_graph(client(server, streamed), [search], checkpointer=InMemorySaver())


def clean(output: dict[str, Any], events: list[dict[str, Any]]) -> None:
    shown = [e["text"] for e in events if e["type"] == "content"] + [m.text for m in output["messages"]]
    assert not any(mark in text for text in [output["answer"], *shown] for mark in ("<", "DSML", "function_calls"))


@both_ways
@pytest.mark.parametrize("markup", MARKUPS.values(), ids=MARKUPS)
@pytest.mark.parametrize("text_tools", ["auto", "never", "always"])
def test_b22_markup_alone_is_no_answer(openai_server: Any, text_tools: Any, markup: str, streamed: bool) -> None:
    ran: list[str] = []
    first = say(FIRST) if text_tools == "always" else call(("search", {"query": "first"}))
    server = openai_server([first, say(markup, chunks=3), say("Next turn.")], strict=True)
    graph = graph_with(server, streamed, ran)
    output, events = run(graph, "go", thread(), context=TurnSettings(max_rounds=1, text_tools=text_tools))
    assert ran == ["first"]
    if text_tools != "always":
        assert server.requests[1].body["tool_choice"] == "none"
    assert "found first" in output["answer"]
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "max_rounds")
    clean(output, events)
    check_turn(output, events)
    output, events = run(graph, "more", thread())
    assert output["answer"] == "Next turn."
    check_requests(server)


@both_ways
@pytest.mark.parametrize(
    ("last", "answer"),
    [
        (call(("search", {"query": "second"})), "found first"),
        (call(("search", {"query": "second"}), text="What I have is one."), "What I have is one."),
    ],
    ids=["alone", "with-text"],
)
def test_b22_a_real_call_in_the_last_message_never_runs(
    openai_server: Any, last: Step, answer: str, streamed: bool
) -> None:
    ran: list[str] = []
    server = openai_server([call(("search", {"query": "first"})), last], strict=True)
    output, events = run(graph_with(server, streamed, ran), "go", thread(), context=ONE_ROUND)
    assert ran == ["first"]
    assert answer in output["answer"]
    if last.items[0].get("content"):
        assert output["answer"] == answer
    assert output["receipt"]["tool_calls"] == 1
    calls = [each for message in output["messages"] if isinstance(message, AIMessage) for each in message.tool_calls]
    assert len(calls) == 1
    check_turn(output, events)
    check_requests(server)


@both_ways
@pytest.mark.parametrize("markup", MARKUPS.values(), ids=MARKUPS)
def test_b22_text_beside_the_markup_is_the_answer(openai_server: Any, markup: str, streamed: bool) -> None:
    ran: list[str] = []
    last = say(f"From what I found: first.\n{markup}", chunks=1)
    server = openai_server([call(("search", {"query": "first"})), last], strict=True)
    output, events = run(graph_with(server, streamed, ran), "go", thread(), context=ONE_ROUND)
    assert ran == ["first"]
    assert output["answer"].strip() == "From what I found: first."
    clean(output, events)
    check_turn(output, events)


@both_ways
def test_b22_a_server_that_deletes_the_markup_leaves_nothing(openai_server: Any, streamed: bool) -> None:
    ran: list[str] = []
    server = openai_server([call(("search", {"query": "first"})), say("", finish="tool_calls")], strict=True)
    output, events = run(graph_with(server, streamed, ran), "go", thread(), context=ONE_ROUND)
    assert "found first" in output["answer"]
    assert output["receipt"]["stop_reason"] == "max_rounds"
    check_turn(output, events)
