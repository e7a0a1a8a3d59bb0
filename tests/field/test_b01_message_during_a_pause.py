"""B01: a plain message while calls wait for a person closes them, whatever path it came by."""

import asyncio
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.types import Command

from tests.support.scripts import YES, Effects, calls, scripted
from tests.support.turns import WAYS, Way, check_calls, check_turn, pause_of, run, thread
from turngraph.graph import ResumeError, send_input

ASKS = calls(("note", {"text": "a"}), ("send", {"to": "ann"}), ("send", {"to": "bob"}))
QUESTION = calls(("ask_user", {"questions": [{"question": "Which?"}]}))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("batch", [ASKS, QUESTION])
def test_b01_the_calls_are_closed_before_the_message_is_answered(way: Way, batch: Any) -> None:
    effects = Effects()
    graph, model = scripted([batch, "All right.", "Again."], effects.tools())
    pause_of(run(graph, "go", thread(), way=way)[0])
    output, _ = run(graph, "never mind", thread(), way=way)
    model.assert_strict()
    assert output["answer"] == "All right."
    assert "not answered" in model.results[-1].lower()
    assert effects == (["note a"] if batch is ASKS else [])
    if batch is ASKS:
        assert model.results[0] == "noted"
    assert model.asked == ["go", "never mind"]
    check_turn(output)
    with pytest.raises(ResumeError):
        run(graph, Command(resume={"decisions": [YES, YES]}), thread())
    check_turn(run(graph, "and now?", thread(), way=way)[0])
    model.assert_strict()
    receipts = graph.get_state(thread()).values["receipts"]
    assert [each["status"] for each in receipts] == ["abandoned", "completed", "completed"]


def test_b01_after_a_part_was_answered() -> None:
    effects = Effects()
    graph, model = scripted([ASKS, "All right."], effects.tools())
    first = pause_of(run(graph, "go", thread())[0])["turngraph"]["requests"][0]["call_id"]
    run(graph, Command(resume={"decisions": {first: YES}}), thread())
    output, _ = run(graph, "never mind", thread())
    assert effects == ["note a", "send ann"]
    assert model.results[:2] == ["noted", "sent to ann"]
    assert "not answered" in model.results[2].lower()
    model.assert_strict()
    check_turn(output)


@pytest.mark.parametrize("as_node", [None, "call_llm", "interrupt"])
def test_b01_written_into_the_state_from_outside(as_node: str | None) -> None:
    effects = Effects()
    graph, model = scripted([ASKS, "All right.", "Next."], effects.tools())
    run(graph, "go", thread())
    graph.update_state(thread(), {"messages": [HumanMessage("from the UI")]}, as_node=as_node)
    output, _ = run(graph, "never mind", thread())
    model.assert_strict()
    assert {"from the UI", "never mind"} <= set(model.asked)
    assert effects == ["note a"]
    check_calls(output["messages"])


def test_b01_queued_while_it_waits() -> None:
    effects = Effects()
    graph, model = scripted([ASKS, "All right."], effects.tools())
    run(graph, "go", thread())
    send_input(graph, "t1", "from the queue")
    output, _ = run(graph, {"messages": []}, thread())
    model.assert_strict()
    assert model.asked[-1] == "from the queue"
    check_turn(output)


def test_b01_a_message_beside_an_answer_is_one_or_the_other() -> None:
    effects = Effects()
    graph, model = scripted([ASKS, "All right.", "Next."], effects.tools())
    run(graph, "go", thread())
    both = Command(resume={"decisions": [YES, YES]}, update={"messages": [HumanMessage("and hurry")]})
    output = asyncio.run(graph.ainvoke(both, thread()))
    model.assert_strict()
    check_calls(output["messages"])
    assert effects == ["note a", "send ann", "send bob"]
