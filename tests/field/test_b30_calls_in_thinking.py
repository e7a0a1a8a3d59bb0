"""B30 (PrimeIntellect-ai/renderers#80): calls drafted in the reasoning are no calls."""

from itertools import pairwise
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import call, say
from tests.support.turns import chat, check_turn, run, thread
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm.text_tools import Piece, TextCallParser
from turngraph.llm.think import InlineThinkFilter

CALL = '<tool_call>{"name":"a","arguments":{"n":1}}</tool_call>'
OTHER = '<tool_call>{"name":"a","arguments":{"n":2}}</tool_call>'
TWICE = f"<think>maybe {OTHER}</think>{CALL}"
ONLY_INSIDE = f"<think>maybe {CALL}</think>No need."


def through_both(chunks: list[str]) -> tuple[list[Piece], str]:
    """The calls and content, and the reasoning, of a response read by the two filters in a row."""
    think, parser = InlineThinkFilter(), TextCallParser(["a"], protocol=True)
    found: list[Piece] = []
    thinking = ""
    for pieces in [*map(think.feed, chunks), think.flush()]:
        for kind, text in pieces:
            if kind == "thinking":
                thinking += text
            else:
                found += parser.feed(text)
    return found + parser.flush(), thinking


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_b30_a_call_that_is_drafted_and_then_made_is_one_call(size: int) -> None:
    found, thinking = through_both([TWICE[at : at + size] for at in range(0, len(TWICE), size)])
    assert [(kind, piece.arguments) for kind, piece in found if kind == "call"] == [("call", {"n": 1})]
    assert [kind for kind, _ in found] == ["call"]
    assert thinking == f"maybe {OTHER}"


def test_b30_a_call_that_is_only_drafted_is_none_at_any_split() -> None:
    for start, end in pairwise((0, *range(1, len(ONLY_INSIDE)), len(ONLY_INSIDE))):
        found, thinking = through_both([ONLY_INSIDE[:start], ONLY_INSIDE[start:end], ONLY_INSIDE[end:]])
        assert {kind for kind, _ in found} == {"content"}
        assert "".join(str(piece) for _, piece in found) == "No need."
        assert thinking == f"maybe {CALL}"


@pytest.mark.parametrize("text_tools", ["always", "auto"])
@pytest.mark.parametrize("chunks", [1, 5, 60])
def test_b30_the_tool_runs_once_in_a_turn(openai_server: Any, text_tools: str, chunks: int) -> None:
    ran: list[int] = []

    def a(n: int) -> str:
        """An effect."""
        ran.append(n)
        return "done"

    server = openai_server([say(TWICE, chunks=chunks), say("Finished.")])
    graph = build_turn_graph(chat(server), [a], checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread(), context=TurnSettings(text_tools=text_tools))
    assert ran == [1]
    assert output["answer"] == "Finished."
    assert output["receipt"]["tool_calls"] == 1
    shown = "".join(event["text"] for event in events if event["type"] == "content")
    assert "tool_call" not in shown
    check_turn(output, events)


def test_b30_a_structured_call_wins_over_markup(openai_server: Any) -> None:
    ran: list[int] = []

    def a(n: int) -> str:
        """An effect."""
        ran.append(n)
        return "done"

    server = openai_server([call(("a", {"n": 3}), text=TWICE), say("Finished.")])
    graph = build_turn_graph(chat(server), [a], checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread())
    assert ran == [3]
    check_turn(output, events)


def test_b30_a_turn_whose_call_is_only_drafted_ends(openai_server: Any) -> None:
    def a(n: int) -> str:
        """An effect."""
        raise AssertionError("must not run")

    server = openai_server([say(ONLY_INSIDE, chunks=4)])
    graph = build_turn_graph(chat(server), [a], checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread())
    assert (output["answer"], output["receipt"]["tool_calls"]) == ("No need.", 0)
    assert not any(message.tool_calls for message in output["messages"] if isinstance(message, AIMessage))
    check_turn(output, events)
