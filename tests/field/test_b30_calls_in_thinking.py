"""B30 (PrimeIntellect-ai/renderers#80): calls drafted in the reasoning are no calls; one made after it runs once."""

from itertools import pairwise
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import Step, call, say
from tests.support.turns import check_turn, run, thread
from tests.support.wire import both_ways, check_requests, client
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm.text_tools import Piece, TextCallParser
from turngraph.llm.think import InlineThinkFilter
from turngraph.tools import tool_policy

CALL = '<tool_call>{"name":"pay","arguments":{"n":1}}</tool_call>'
OTHER = '<tool_call>{"name": "pay", "arguments": {"n": 2}}</tool_call>'
TWICE = f"<think>maybe {OTHER}</think>{CALL}"
THE_SAME_TWICE = f"<think>maybe {CALL}</think>{CALL}"
ONLY_INSIDE = f"<think>maybe {CALL}</think>No need."


def through_both(chunks: list[str]) -> tuple[list[Piece], str]:
    """The calls and content, and the reasoning, of a response read by the two filters in a row."""
    think, parser = InlineThinkFilter(), TextCallParser(["pay"], protocol=True)
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


def paying(server: Any, streamed: bool, paid: list[int]) -> Any:
    def pay(n: int) -> str:
        """Pay so much."""
        paid.append(n)
        return "paid"

    return build_turn_graph(client(server, streamed), [tool_policy(pay, effect="write")], checkpointer=InMemorySaver())


@both_ways
@pytest.mark.parametrize("text", [TWICE, THE_SAME_TWICE], ids=["another", "the-same"])
@pytest.mark.parametrize("text_tools", ["auto", "always"])
@pytest.mark.parametrize("chunks", [1, 5, 7, 60, None])
def test_b30_a_draft_and_a_call_are_one_call(
    openai_server: Any, chunks: int | None, text_tools: Any, text: str, streamed: bool
) -> None:
    paid: list[int] = []
    server = openai_server([say(text, chunks=chunks), say("Done.")], strict=True)
    output, events = run(paying(server, streamed, paid), "pay", thread(), context=TurnSettings(text_tools=text_tools))
    assert paid == [1]
    assert output["answer"] == "Done."
    assert output["receipt"]["tool_calls"] == 1
    shown = "".join(event["text"] for event in events if event["type"] == "content")
    assert "tool_call" not in shown
    assert "maybe" not in shown
    check_turn(output, events)
    check_requests(server)


@both_ways
@pytest.mark.parametrize(
    "step",
    [
        say(ONLY_INSIDE, chunks=4),
        say(ONLY_INSIDE),
        say("No need.", reasoning=f"maybe {CALL}"),
        say(f"<thinking>```\n{CALL}\n```</thinking>No need."),
    ],
    ids=["inline-in-pieces", "inline", "field", "fenced"],
)
def test_b30_a_call_only_inside_is_never_run(openai_server: Any, step: Step, streamed: bool) -> None:
    paid: list[int] = []
    server = openai_server([step], strict=True)
    output, events = run(paying(server, streamed, paid), "pay", thread())
    assert paid == []
    assert (output["answer"], output["receipt"]["tool_calls"]) == ("No need.", 0)
    assert not any(message.tool_calls for message in output["messages"] if isinstance(message, AIMessage))
    check_turn(output, events)


@both_ways
@pytest.mark.parametrize("text", [TWICE, THE_SAME_TWICE], ids=["another", "the-same"])
def test_b30_a_native_call_is_authoritative(openai_server: Any, text: str, streamed: bool) -> None:
    paid: list[int] = []
    server = openai_server([call(("pay", {"n": 3}), text=text), say("Done.")], strict=True)
    output, events = run(paying(server, streamed, paid), "pay", thread())
    assert paid == [3]
    assert output["receipt"]["tool_calls"] == 1
    check_turn(output, events)
    check_requests(server)
