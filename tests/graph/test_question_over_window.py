"""A request that no cut can fit into the window: it is sent, the user is told, and a refusal says what can be done."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import Step, call, count, error, say
from tests.support.turns import check_turn, run, thread, types
from tests.support.wire import both_ways, check_requests, client
from turngraph.graph import TurnSettings, build_turn_graph

LONG = "word " * 6_000
SMALL = {"context_window": 4_096, "max_output_tokens": 500}
REFUSED = error(
    400, "This model's maximum context length is 4096 tokens. However, your messages resulted in 6100 tokens."
)
SILENT = say("", finish="model_context_window_exceeded")
REFUSALS = pytest.mark.parametrize("refusal", [REFUSED, SILENT], ids=["said", "silent"])


def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is empty"


def notices(events: list[dict[str, Any]]) -> list[str]:
    return [event["code"] for event in events if event["type"] == "notice"]


@both_ways
def test_the_whole_question_is_sent_and_the_user_is_told(openai_server: Any, streamed: bool) -> None:
    server = openai_server([say("All read."), say("Next.")], strict=True)
    graph = build_turn_graph(client(server, streamed), [look], checkpointer=InMemorySaver())
    output, events = run(graph, LONG, thread(), context=TurnSettings(**SMALL))
    assert (output["answer"], output["receipt"]["status"]) == ("All read.", "completed")
    assert server.requests[0].said("user").count("word") == 6_000
    (notice,) = [event for event in events if event["type"] == "notice"]
    assert notice["code"] == "question_over_window"
    context = output["receipt"]["context"]
    assert f"{context['used']:,}" in notice["text"]
    assert f"{context['window'] - context['reserved']:,}" in notice["text"]
    assert types(events).index("notice") < types(events).index("content")
    check_turn(output, events)
    output, events = run(graph, "short", thread(), context=TurnSettings(**SMALL))
    assert notices(events) == [], "the long message of an earlier turn can be shortened"
    assert count(server.requests[1].body) < 4_096
    check_turn(output, events)
    check_requests(server)


@both_ways
@REFUSALS
def test_a_refusal_says_what_can_be_done(openai_server: Any, refusal: Step, streamed: bool) -> None:
    server = openai_server([refusal, refusal, say("Next.")], strict=True)
    graph = build_turn_graph(client(server, streamed), [look], checkpointer=InMemorySaver())
    output, events = run(graph, LONG, thread(), context=TurnSettings(**SMALL))
    receipt = output["receipt"]
    assert (receipt["status"], receipt["stop_reason"]) == ("incomplete", "context_window")
    assert receipt["error"]["message"]
    assert receipt["context"]["used"] > receipt["context"]["window"] == 4_096
    assert "does not fit" in output["answer"]
    assert "Shorten it" in output["answer"]
    assert f"{receipt['context']['used']:,}" in output["answer"]
    assert notices(events) == ["question_over_window"]
    check_turn(output, events)
    output, events = run(graph, "short", thread(), context=TurnSettings(**SMALL))
    assert (output["answer"], output["receipt"]["status"]) == ("Next.", "completed")
    assert notices(events) == []
    check_turn(output, events)
    check_requests(server)


@REFUSALS
def test_instructions_that_leave_no_room(openai_server: Any, refusal: Step) -> None:
    server = openai_server([say("Yes."), refusal, refusal], strict=True)
    graph = build_turn_graph(client(server), [look], checkpointer=InMemorySaver())
    settings = TurnSettings(**SMALL, system_prompt="rule " * 6_000)
    output, events = run(graph, "hi", thread(), context=settings)
    assert output["answer"] == "Yes."
    assert notices(events) == ["instructions_over_window"]
    output, events = run(graph, "hi again", thread(), context=settings)
    assert notices(events) == ["instructions_over_window"], "each turn is told"
    assert "system prompt" in output["answer"]
    assert output["receipt"]["stop_reason"] == "context_window"
    check_turn(output, events)


def test_a_window_that_only_the_refusal_names(openai_server: Any) -> None:
    server = openai_server([REFUSED, REFUSED], strict=True)
    graph = build_turn_graph(client(server), [look], checkpointer=InMemorySaver())
    output, events = run(graph, LONG, thread())
    assert notices(events) == ["question_over_window"], "told once the real window is known"
    assert "Shorten it" in output["answer"]
    assert output["receipt"]["context"]["window"] < 4_096
    check_turn(output, events)


def test_a_turn_of_many_rounds_is_told_once(openai_server: Any) -> None:
    steps = [call(("look", {"place": f"room {n}"}), ids=[f"c{n}"]) for n in range(4)]
    server = openai_server([*steps, say("Seen.")], strict=True)
    graph = build_turn_graph(client(server), [look], checkpointer=InMemorySaver())
    output, events = run(graph, LONG, thread(), context=TurnSettings(**SMALL))
    assert (output["answer"], output["receipt"]["rounds"]) == ("Seen.", 5)
    assert notices(events) == ["question_over_window"]
    check_turn(output, events)


def test_a_conversation_that_was_refused_though_it_seems_to_fit(openai_server: Any) -> None:
    server = openai_server([REFUSED, REFUSED], strict=True)
    output, events = run(build_turn_graph(client(server), [look]), {"messages": [HumanMessage("hi", id="h")]}, thread())
    assert notices(events) == []
    assert "Start a new conversation" in output["answer"]
    check_turn(output, events)
