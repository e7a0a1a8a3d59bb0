"""B51 (langchain#30429, langchainjs PR#10164, LLMKube#1852, claw-os#14): usage is counted once, or marked as estimated."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.support.openai_server import Frame, Step, broken, call, error, say
from tests.support.turns import check_turn, run, thread
from tests.support.wire import both_ways, check_requests, client
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.tools import tool_policy


def report(given: Any, made: Any, **more: Any) -> dict[str, Any]:
    total = given + made if isinstance(given, int) and isinstance(made, int) else None
    return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": total, **more}


def running(text: str, given: int) -> tuple[Frame, ...]:
    """A frame for each character, each with the running totals, as vLLM sends them."""
    return tuple(
        Frame({"choices": [{"index": 0, "delta": {"content": char}}], "usage": report(given, at)})
        for at, char in enumerate(text)
    )


def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is empty"


def usage_of(output: dict[str, Any]) -> tuple[int, int, int, bool]:
    usage = output["receipt"]["usage"]
    return usage["input_tokens"], usage["output_tokens"], usage["total_tokens"], usage["estimated"]


def test_b51_running_totals_are_not_summed(openai_server: Any) -> None:
    server = openai_server([Step(running("abc", 35), usage=report(35, 3))])
    output, events = run(build_turn_graph(client(server)), "go")
    assert output["answer"] == "abc"
    assert usage_of(output) == (35, 3, 38, False)
    finished = next(e for e in events if e["type"] == "round_finished")
    assert finished["usage"]["input_tokens"] == 35
    check_turn(output, events)


@both_ways
def test_b51_no_usage_is_an_estimate_and_says_so(openai_server: Any, streamed: bool) -> None:
    server = openai_server([say("Some words of an answer.", usage=None)])
    output, events = run(build_turn_graph(client(server, streamed)), "go")
    taken, made, total, estimated = usage_of(output)
    assert estimated
    assert taken > 0
    assert 0 < made < 60
    assert total == taken + made
    check_turn(output, events)


def test_b51_usage_twice_at_the_end_counts_once(openai_server: Any) -> None:
    twice = say("Hello.", usage=[report(40, 5), report(40, 5)])
    in_both = say("Hello.", usage=[report(40, 5), report(40, 5)], usage_in_finish=True)
    for step in (twice, in_both):
        server = openai_server([step])
        output, _ = run(build_turn_graph(client(server)), "go")
        assert usage_of(output) == (40, 5, 45, False)


def test_b51_stream_options_refused_once_and_remembered(openai_server: Any) -> None:
    server = openai_server([say("One."), say("Two.")], strict=True, no_stream_options=True)
    graph = build_turn_graph(client(server), checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread())
    assert output["answer"] == "One."
    assert usage_of(output)[3], "an estimate that does not say so"
    check_turn(output, events)
    run(graph, "again", thread())
    assert ["stream_options" in each.body for each in server.requests] == [True, False, False]
    check_requests(server)


@both_ways
@pytest.mark.parametrize(
    "odd",
    [
        report("many", None),
        report(-3, -1),
        {"prompt_tokens": 12.7, "completion_tokens": 3.2, "total_tokens": 15.9},
        {"prompt_tokens": True, "completion_tokens": [1]},
        {"prompt_tokens": 10**30, "completion_tokens": 2},
        {"total_tokens": 40},
        [],
        "none",
    ],
    ids=str,
)
def test_b51_odd_usage_never_breaks_an_answer(openai_server: Any, odd: Any, streamed: bool) -> None:
    server = openai_server([say("Fine.", usage=[odd])])
    output, events = run(build_turn_graph(client(server, streamed)), "go")
    assert output["answer"] == "Fine."
    taken, made, total, _ = usage_of(output)
    assert taken > 0
    assert made > 0
    assert total == taken + made
    check_turn(output, events)


def test_b51_a_retried_call_counts_what_it_cost_and_no_more(openai_server: Any) -> None:
    server = openai_server(
        [error(503, "busy", headers={"Retry-After": "0"}), say("Fine.", usage=report(50, 4))], strict=True
    )
    output, _ = run(build_turn_graph(client(server)), "go")
    assert usage_of(output) == (50, 4, 54, False)


def test_b51_a_resume_does_not_count_a_round_again(openai_server: Any) -> None:
    steps = [call(("look", {"place": "a"}), usage=report(100, 10)), say("Empty.", usage=report(150, 5))]
    server = openai_server(steps, strict=True)
    graph = build_turn_graph(client(server), [tool_policy(look, permission="ask")], checkpointer=InMemorySaver())
    run(graph, "go", thread())
    output, _ = run(graph, Command(resume={"decisions": [{"type": "approve"}]}), thread())
    assert usage_of(output) == (250, 15, 265, False)
    check_requests(server)


def test_b51_running_totals_do_not_trip_the_budget(openai_server: Any) -> None:
    first = call(("look", {"place": "a"}))
    first = first.with_(items=(*running("x" * 50, 100), *first.items), usage=report(100, 60))
    server = openai_server([first, say("Empty.", usage=report(120, 5))])
    graph = build_turn_graph(client(server), [look])
    output, _ = run(graph, "go", context=TurnSettings(max_tokens=1_000))
    assert output["receipt"]["status"] == "completed"
    assert usage_of(output) == (220, 65, 285, False)


def test_b51_a_broken_stream_counts_what_it_reported(openai_server: Any) -> None:
    half = broken(Step(running("abcdefgh", 35)))
    server = openai_server([half, say("Whole.", usage=report(60, 2))])
    output, _ = run(build_turn_graph(client(server)), "go")
    assert output["answer"] == "Whole."
    taken, made, _, _ = usage_of(output)
    assert taken == 95
    assert made == 7 + 2
