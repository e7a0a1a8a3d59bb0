"""B41 (hermes-agent PR#6847, vllm PR#53270): a stream ends without a finish reason; nothing half is taken as whole."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import Step, call, say
from tests.support.turns import check_turn, run, thread
from tests.support.wire import check_requests, client
from turngraph.graph import build_turn_graph


def ends(step: Step, *, done: bool) -> Step:
    """The step without a finish reason and without usage, with or without the marker of its end."""
    return step.with_(finish=None, usage=None, end_frame=False, done_marker=done)


def graph_of(server: Any, written: list[str]) -> Any:
    def write(path: str, text: str = "") -> str:
        """Write a file."""
        written.append(path)
        return f"wrote {path}"

    return build_turn_graph(client(server), [write], checkpointer=InMemorySaver())


@pytest.mark.parametrize("done", [True, False])
def test_b41_a_half_call_is_never_run_and_the_model_is_told(openai_server: Any, done: bool) -> None:
    written: list[str] = []
    half = ends(call(("write", '{"path": "a'), argument_chunk=4), done=done)
    whole = call(("write", {"path": "abc"}), ids=["c2"])
    server = openai_server([half, whole, say("Written.")], strict=True)
    output, events = run(graph_of(server, written), "go", thread())
    assert written == ["abc"]
    results = [m for m in output["messages"] if m.type == "tool"]
    assert [m.status for m in results] == ["error", "success"]
    assert "cut off" in results[0].text
    check_turn(output, events)
    check_requests(server)


@pytest.mark.parametrize("done", [True, False])
def test_b41_half_calls_again_and_again_end_in_a_clear_way(openai_server: Any, done: bool) -> None:
    written: list[str] = []
    halves = [ends(call(("write", '{"path": "a'), ids=[f"c{n}"]), done=done) for n in range(3)]
    server = openai_server([*halves, say("I could not write it.")], strict=True)
    output, events = run(graph_of(server, written), "go", thread())
    assert written == []
    assert output["answer"] == "I could not write it."
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "truncated")
    check_turn(output, events)
    check_requests(server)


@pytest.mark.parametrize("done", [True, False])
def test_b41_half_a_sentence_is_continued_once(openai_server: Any, done: bool) -> None:
    server = openai_server([ends(say("The first ha", chunks=3), done=done), say("lf and the rest.")], strict=True)
    output, events = run(graph_of(server, []), "go", thread())
    assert (output["answer"], output["receipt"]["status"]) == ("The first half and the rest.", "completed")
    kept = next(m for m in output["messages"] if m.text == "The first ha")
    assert kept.additional_kwargs["turngraph"]["role"] == "part"
    assert kept.additional_kwargs["turngraph"]["finish"] == "missing"
    check_turn(output, events)
    check_requests(server)


def test_b41_the_second_half_sentence_ends_the_turn(openai_server: Any) -> None:
    server = openai_server([ends(say("One, "), done=True), ends(say("two, thr"), done=True), say("Next.")], strict=True)
    graph = graph_of(server, [])
    output, events = run(graph, "go", thread())
    assert output["answer"] == "One, two, thr"
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "truncated")
    assert len(server.requests) == 2
    check_turn(output, events)
    output, events = run(graph, "again", thread())
    assert output["answer"] == "Next."
    check_requests(server)
