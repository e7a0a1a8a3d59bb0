"""The four budgets, settlement, and the caller's recursion limit: each ends in an answer, never in an exception."""

import time
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import Request, Step, call, error, hanging, say
from tests.support.turns import WAYS, Way, chat, check_turn, roles, run, thread
from turngraph.graph import InputError, TurnSettings, build_turn_graph


def look(place: str) -> str:
    """Look at a place."""
    return f"nothing in {place}"


def slow(seconds: float) -> str:
    """Work for some seconds."""
    time.sleep(seconds)
    return "worked"


def insatiable(request: Request) -> Step:
    """Always asks for a tool, except where it is told that tools cannot be used."""
    if request.body.get("tool_choice") == "none":
        return say("This is what I have.", chunks=5)
    count = sum(role == "assistant" for role in request.roles)
    return call(("look", {"place": f"room {count}"}), text=f"Looking into room {count}.")


def failing_last(request: Request) -> Step:
    return error(400, "no more") if "Finish now" in request.said("user") else insatiable(request)


BUDGETS: list[tuple[dict[str, Any], str]] = [
    ({"max_rounds": 3}, "max_rounds"),
    ({"max_tool_calls": 2}, "max_tool_calls"),
    ({"max_tokens": 40}, "max_tokens"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("settings", "reason"), BUDGETS)
def test_a_spent_budget_ends_in_an_answer_that_the_model_wrote(
    openai_server: Any, settings: dict[str, Any], reason: str, way: Way
) -> None:
    server = openai_server(insatiable, strict=True)
    graph = build_turn_graph(chat(server), [look], checkpointer=InMemorySaver())
    output, events = run(graph, "look everywhere", thread(), way=way, context=TurnSettings(**settings))
    assert output["answer"] == "This is what I have."
    assert output["receipt"]["status"] == "incomplete"
    assert output["receipt"]["stop_reason"] == reason
    assert output["receipt"]["error"] is None
    check_turn(output, events)
    last = server.requests[-1]
    assert last.tool_names == ["look"]
    assert last.body["tool_choice"] == "none"
    assert "budget" in last.said("user")
    if events:
        assert roles(events)[-1] == "finish"


@pytest.mark.parametrize(("settings", "reason"), BUDGETS)
def test_a_budget_whose_last_call_fails_too_lists_what_was_gathered(
    openai_server: Any, settings: dict[str, Any], reason: str
) -> None:
    server = openai_server(failing_last, strict=True)
    graph = build_turn_graph(chat(server), [look])
    output, events = run(graph, "look everywhere", context=TurnSettings(**settings))
    assert "nothing in room 0" in output["answer"]
    assert output["receipt"]["status"] == "incomplete"
    assert output["receipt"]["stop_reason"] == reason
    assert output["receipt"]["error"]["type"]
    check_turn(output, events)


def test_max_rounds_counts_exactly(openai_server: Any) -> None:
    server = openai_server(insatiable)
    output, _ = run(build_turn_graph(chat(server), [look]), "go", context=TurnSettings(max_rounds=3))
    assert output["receipt"]["rounds"] == 3
    assert len(server.requests) == 4


def test_a_running_model_call_is_cut_at_max_seconds(openai_server: Any) -> None:
    half = hanging(say("I was just about to", chunks=4))
    server = openai_server([half, say("In short: nothing.")])
    started = time.monotonic()
    output, events = run(build_turn_graph(chat(server)), "go", context=TurnSettings(max_seconds=0.6))
    assert time.monotonic() - started < 8
    assert output["receipt"]["stop_reason"] == "max_seconds"
    assert output["receipt"]["status"] == "incomplete"
    assert output["answer"] == "In short: nothing."
    check_turn(output, events)
    kept = [m for m in output["messages"] if m.text == "I was just about to"]
    assert kept[0].additional_kwargs["turngraph"]["cut"] == "max_seconds"


def test_a_running_tool_is_cut_at_max_seconds(openai_server: Any) -> None:
    server = openai_server([call(("slow", {"seconds": 30})), say("It took too long.")], strict=True)
    started = time.monotonic()
    output, events = run(build_turn_graph(chat(server), [slow]), "go", context=TurnSettings(max_seconds=0.6))
    assert time.monotonic() - started < 8
    assert output["receipt"]["stop_reason"] == "max_seconds"
    assert output["answer"] == "It took too long."
    check_turn(output, events)


def test_calls_past_the_call_budget_get_a_refusal_each(openai_server: Any) -> None:
    many = call(*(("look", {"place": str(n)}) for n in range(5)))
    server = openai_server([many, say("enough")], strict=True)
    output, events = run(build_turn_graph(chat(server), [look]), "go", context=TurnSettings(max_tool_calls=3))
    results = [m for m in output["messages"] if m.type == "tool"]
    assert [m.status for m in results] == ["success"] * 3 + ["error"] * 2
    assert "budget" in results[3].text
    assert output["receipt"]["stop_reason"] == "max_tool_calls"
    check_turn(output, events)


def test_settlement_rounds_keep_tools_and_say_so(openai_server: Any) -> None:
    server = openai_server(insatiable, strict=True)
    settings = TurnSettings(max_rounds=2, settlement_rounds=2)
    output, events = run(build_turn_graph(chat(server), [look]), "go", context=settings)
    assert output["receipt"]["rounds"] == 4
    assert output["receipt"]["stop_reason"] == "max_rounds"
    assert "settle" in server.requests[2].said("user")
    assert server.requests[2].body.get("tool_choice") != "none"
    check_turn(output, events)


def test_settlement_can_end_in_a_finish(openai_server: Any) -> None:
    server = openai_server([call(("look", {"place": "a"})), call(("look", {"place": "b"})), say("Settled.")])
    settings = TurnSettings(max_rounds=1, settlement_rounds=3)
    output, _ = run(build_turn_graph(chat(server), [look]), "go", context=settings)
    assert (output["answer"], output["receipt"]["status"]) == ("Settled.", "completed")


@pytest.mark.parametrize("limit", range(5, 27))
def test_every_recursion_limit_ends_in_an_answer(openai_server: Any, limit: int) -> None:
    server = openai_server(insatiable, strict=True)
    graph = build_turn_graph(chat(server), [look], checkpointer=InMemorySaver())
    output, events = run(graph, "go", {**thread(), "recursion_limit": limit})
    assert output["answer"]
    assert output["receipt"]["status"] == "incomplete"
    check_turn(output, events)
    output, events = run(graph, "again", {**thread(), "recursion_limit": limit})
    check_turn(output, events)


@pytest.mark.parametrize("limit", [1, 4])
def test_a_limit_that_cannot_reach_the_end_is_refused_clearly(openai_server: Any, limit: int) -> None:
    server = openai_server([])
    with pytest.raises(InputError, match="recursion_limit"):
        run(build_turn_graph(chat(server)), "go", {"recursion_limit": limit})
    assert not server.requests


def test_a_spent_time_budget_sits_out_no_retry_after(openai_server: Any) -> None:
    def busy(_request: Request) -> Step:
        return error(429, "slow down", headers={"Retry-After": "30"})

    server = openai_server([call(("look", {"place": "a"})), *[busy] * 3])
    started = time.monotonic()
    output, events = run(build_turn_graph(chat(server), [look]), "go", context=TurnSettings(max_seconds=1))
    assert time.monotonic() - started < 15
    assert output["receipt"]["stop_reason"] == "max_seconds"
    assert "nothing in a" in output["answer"]
    check_turn(output, events)


def test_the_time_budget_too_ends_in_what_was_gathered_when_the_last_call_fails(openai_server: Any) -> None:
    server = openai_server([call(("look", {"place": "a"})), hanging(), error(400, "no"), error(400, "no")])
    output, events = run(build_turn_graph(chat(server), [look]), "go", context=TurnSettings(max_seconds=1))
    assert output["receipt"]["stop_reason"] == "max_seconds"
    assert output["receipt"]["error"]["type"]
    assert "nothing in a" in output["answer"]
    check_turn(output, events)
