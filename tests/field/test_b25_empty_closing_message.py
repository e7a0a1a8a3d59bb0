"""B25 (norns#2): the whole answer beside a tool call, then an empty closing message."""

from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import call, say
from tests.support.turns import chat, check_turn, run, thread
from turngraph.graph import build_turn_graph


def remember(text: str) -> str:
    """Remember a text."""
    return "ok"


def test_b25_the_last_text_of_this_turn_is_the_answer(openai_server: Any) -> None:
    found = call(("remember", {"text": "x"}), text="Here is what I found: it works.")
    server = openai_server([found, say(""), say("")], strict=True)
    output, events = run(build_turn_graph(chat(server), [remember]), "find out")
    assert output["answer"] == "Here is what I found: it works."
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "empty_response")
    check_turn(output, events)


def test_b25_never_the_text_of_an_earlier_turn(openai_server: Any) -> None:
    server = openai_server([say("The old answer."), say(""), say(""), say("")], strict=True)
    graph = build_turn_graph(chat(server), [remember], checkpointer=InMemorySaver())
    run(graph, "first", thread())
    output, events = run(graph, "second", thread())
    assert "old answer" not in output["answer"]
    assert output["receipt"]["stop_reason"] == "empty_response"
    check_turn(output, events)
