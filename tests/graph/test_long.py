"""A turn of hundreds of rounds with long results, in a window that holds two of them."""

from itertools import pairwise
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.support.openai_server import Request, ScriptedServer, Step, call, count, say
from tests.support.strict import assert_valid_history
from tests.support.turns import chat, check_turn, pause_of, thread
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.tools import ask_user, tool_policy

WINDOW = 8_192
QUESTION = "Read every page and say which of them names the harbour of Zeebrugge."
ANSWER = "Only the pages after 1900, and skip the maps."
WORDS = "the ship left port at dawn with coal grain and timber for the islands under a pale sky "


def read_page(page: int) -> str:
    """Read a page."""
    return (f"page {page}: " + f"{WORDS}on day {page} " * 40)[:3_000]


def script(rounds: int) -> Any:
    """Page after page; after the third the model asks its user something."""

    def answer(request: Request) -> Step:
        if request.number == 4:
            return call(("ask_user", {"questions": [{"question": "All pages, or some?"}]}), ids=["call-ask"])
        if request.number > rounds:
            return say("Page 17 names it.")
        return call(("read_page", {"page": request.number}), ids=[f"call-{request.number}"])

    return answer


def long_turn(server: ScriptedServer, rounds: int) -> tuple[Any, dict[str, Any]]:
    settings = TurnSettings(
        context_window=WINDOW, max_output_tokens=1_000, max_rounds=rounds + 10, max_tool_calls=rounds + 10
    )
    tools = [tool_policy(read_page, effect="read"), ask_user]
    graph = build_turn_graph(chat(server), tools, checkpointer=InMemorySaver())
    output = graph.invoke({"messages": [("user", QUESTION)]}, thread(), context=settings)
    assert pause_of(output)["action_requests"][0]["name"] == "ask_user"
    resume = {"decisions": [{"type": "respond", "message": ANSWER}]}
    return graph, graph.invoke(Command(resume=resume), thread(), context=settings)


@pytest.mark.parametrize("rounds", [100, 500])
def test_long_results_in_a_small_window(openai_server: Any, rounds: int) -> None:
    server = openai_server(script(rounds), strict=True, max_context=WINDOW)
    graph, output = long_turn(server, rounds)
    assert output["answer"] == "Page 17 names it."
    assert output["receipt"]["status"] == "completed"
    assert output["receipt"]["rounds"] == rounds + 1
    check_turn(output)
    assert len(server.accepted) == len(server.requests) == rounds + 1, "a request was refused"

    bodies = [request.body for request in server.requests]
    for number, body in enumerate(bodies, 1):
        messages = body["messages"]
        assert count(body) <= WINDOW
        assert_valid_history(messages)
        said = [str(message["content"]) for message in messages]
        assert sum(QUESTION in text for text in said) == 1
        assert number <= 4 or sum(ANSWER in text for text in said) == 1

    cuts = sum(after["messages"][: len(before["messages"])] != before["messages"] for before, after in pairwise(bodies))
    anchors = [each for each in graph.get_state(thread()).values["anchors"] if each["kind"] not in ("turn", "note")]
    assert cuts <= len(anchors), "a request changed what an earlier one said, and no anchor says so"
    assert len(anchors) <= rounds / 5
    assert output["receipt"]["folds"] == len([each for each in anchors if each["kind"] == "fold"])
    assert output["receipt"]["context"]["excluded_counts"]["folded"]["count"] > rounds


def test_the_tape_keeps_what_no_request_shows(openai_server: Any) -> None:
    server = openai_server(script(40), strict=True)
    graph, output = long_turn(server, 40)
    results = [message for message in output["messages"] if message.type == "tool"]
    assert [message.text for message in results if message.name == "read_page"] == [
        read_page(number) for number in range(1, 41) if number != 4
    ]
    assert read_page(1)[100:] not in str(server.requests[-1].body)
    assert graph.get_state(thread()).values["messages"] == output["messages"]
