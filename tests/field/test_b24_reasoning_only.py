"""B24 (DeepTutor#1400): rounds that are all reasoning and no output."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import Step, say
from tests.support.turns import chat, check_turn, run, thread
from turngraph.graph import build_turn_graph

THOUGHT = "Let me think about this. " * 1_200


def search(query: str) -> str:
    """Search."""
    return query


@pytest.mark.parametrize(
    "only",
    [say("", reasoning=THOUGHT, finish="length"), say("", think=THOUGHT, finish="length"), say("", think=THOUGHT)],
    ids=["field-length", "inline-length", "inline-stop"],
)
def test_b24_reasoning_only_rounds_are_named_and_bounded(openai_server: Any, only: Step) -> None:
    server = openai_server([only, only, only], strict=True)
    graph = build_turn_graph(chat(server), [search], checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread())
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "empty_response")
    assert len(server.requests) == 3
    assert server.requests[2].body.get("tool_choice") == "none"
    assert "no visible text" in output["answer"]
    assert "think" not in output["answer"]
    check_turn(output, events)


def test_b24_recovers_when_the_nudged_round_has_text(openai_server: Any) -> None:
    server = openai_server([say("", reasoning=THOUGHT, finish="length"), say("Short answer.")], strict=True)
    graph = build_turn_graph(chat(server), [search], checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread())
    assert (output["answer"], output["receipt"]["status"]) == ("Short answer.", "completed")
    check_turn(output, events)
