"""B22 (sglang#30925): told not to call tools, the model writes call markup, or calls all the same."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import call, say
from tests.support.turns import chat, check_turn, run, thread
from turngraph.graph import TurnSettings, build_turn_graph

MARKUP = '<tool_call>{"name":"search","arguments":{"query":"more"}}</tool_call>'
DSML = '<｜DSML｜function_calls><｜DSML｜invoke name="search"></｜DSML｜invoke></｜DSML｜function_calls>'
OTHER = '<tool_call>{"name":"no_such_tool","arguments":{}}</tool_call>'


@pytest.mark.parametrize("text_tools", ["auto", "never", "always"])
@pytest.mark.parametrize("last", [MARKUP, DSML, OTHER, f"  {MARKUP}\n"])
def test_b22_markup_alone_is_no_answer(openai_server: Any, last: str, text_tools: str) -> None:
    ran: list[str] = []

    def search(query: str) -> str:
        """Search."""
        ran.append(query)
        return f"found {query}"

    first = say(MARKUP) if text_tools == "always" else call(("search", {"query": "more"}))
    server = openai_server([first, say(last, chunks=4)])
    graph = build_turn_graph(chat(server), [search], checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread(), context=TurnSettings(max_rounds=1, text_tools=text_tools))
    assert ran == ["more"]
    shown = output["answer"] + "".join(event["text"] for event in events if event["type"] == "content")
    assert "<" not in shown
    assert "found more" in output["answer"]
    assert output["receipt"]["status"] == "incomplete"
    check_turn(output, events)


def test_b22_a_real_call_does_not_run_and_its_text_is_the_answer(openai_server: Any) -> None:
    ran: list[str] = []

    def search(query: str) -> str:
        """Search."""
        ran.append(query)
        return "found"

    steps = [call(("search", {"query": "one"})), call(("search", {"query": "two"}), text="What I have is one.")]
    graph = build_turn_graph(chat(openai_server(steps)), [search], checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread(), context=TurnSettings(max_rounds=1))
    assert (ran, output["answer"]) == (["one"], "What I have is one.")
    calls = [each for message in output["messages"] if isinstance(message, AIMessage) for each in message.tool_calls]
    assert len(calls) == 1
    check_turn(output, events)
