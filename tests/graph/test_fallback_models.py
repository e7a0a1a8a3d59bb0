"""Fallback models: tried in order when the retries of a call are spent and nothing of it was visible."""

import time
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from typing_extensions import TypedDict

from tests.support.openai_server import ScriptedServer, Step, broken, call, error, say
from tests.support.turns import WAYS, Way, chat, check_turn, finish_text, pause_of, run, thread, types
from tests.support.wire import check_requests
from turngraph.graph import ProviderError, TurnSettings, build_turn_graph
from turngraph.llm import ScriptedModel
from turngraph.llm.profile import PROFILES
from turngraph.tools import tool_policy

SOON = {"Retry-After": "0"}
BUSY = error(503, "busy", headers=SOON)


class City(TypedDict):
    name: str


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    PROFILES.forget()
    monkeypatch.setattr("turngraph.llm.call.FIRST_DELAY", 0.01)


def named(server: ScriptedServer, name: str) -> Any:
    return chat(server).model_copy(update={"model_name": name})


def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is empty"


@pytest.mark.parametrize("way", WAYS)
def test_the_next_model_answers_when_retries_are_spent(openai_server: Any, way: Way) -> None:
    first, second = openai_server([BUSY] * 3, strict=True), openai_server([say("Second here.")], strict=True)
    graph = build_turn_graph(named(first, "one"), fallback_models=[named(second, "two")])
    output, events = run(graph, "hi", way=way)
    assert output["answer"] == "Second here."
    receipt = output["receipt"]
    assert (receipt["status"], receipt["rounds"], receipt["error"]) == ("completed", 1, None)
    assert (receipt["model"], receipt["models"]) == ("two", ["one", "two"])
    assert len(first.requests) == 3
    check_turn(output, events)
    check_requests(second)


FAILURES: dict[str, Step] = {
    "auth": error(401, "bad key"),
    "invalid request": error(400, "odd"),
    "no such model": error(404, "The model does not exist"),
    "rate limit": error(429, "slow down", headers=SOON),
    "broken before a word": broken(say("")),
    "broken in the reasoning": broken(say("", reasoning="hm hm", chunks=2)),
    "an error frame": Step(({"content": ""},), finish=None, done_marker=False, end_frame=False, usage=None),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_every_failure_before_visible_text_goes_on_to_the_next(openai_server: Any, failure: Step) -> None:
    first, second = openai_server(lambda _: failure, strict=True), openai_server([say("Second.")], strict=True)
    graph = build_turn_graph(named(first, "one"), fallback_models=[named(second, "two")])
    output, events = run(graph, "hi")
    assert (output["answer"], output["receipt"]["model"]) == ("Second.", "two")
    check_turn(output, events)


def test_they_are_tried_in_order(openai_server: Any) -> None:
    servers = [openai_server([error(401, "no")]) for _ in range(3)] + [openai_server([say("Fourth.")])]
    models = [named(each, f"m{n}") for n, each in enumerate(servers)]
    output, events = run(build_turn_graph(models[0], fallback_models=models[1:]), "hi")
    assert output["answer"] == "Fourth."
    assert output["receipt"]["models"] == ["m0", "m1", "m2", "m3"]
    assert [len(each.requests) for each in servers] == [1, 1, 1, 1]
    check_turn(output, events)


def test_visible_text_is_never_said_again_by_another_model(openai_server: Any) -> None:
    first = openai_server([broken(say("The first ha", chunks=4)), say("Whole.")], strict=True)
    second = openai_server([say("Second.")], strict=True)
    graph = build_turn_graph(named(first, "one"), fallback_models=[named(second, "two")])
    output, events = run(graph, "hi")
    assert output["answer"] == "Whole."
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "provider_error")
    assert not second.requests
    assert "models" not in output["receipt"]
    check_turn(output, events)


def test_the_forced_finish_has_them_too(openai_server: Any) -> None:
    first = openai_server([call(("look", {"place": "yard"})), *[error(400, "odd")] * 6], strict=True)
    second = openai_server([error(400, "odd"), say("Empty, says the second.")], strict=True)
    graph = build_turn_graph(named(first, "one"), [look], fallback_models=[named(second, "two")])
    output, events = run(graph, "go")
    assert output["answer"] == "Empty, says the second."
    assert output["receipt"]["stop_reason"] == "provider_error"
    assert second.requests[-1].body["tool_choice"] == "none"
    check_turn(output, events)
    check_requests(second)


def test_when_all_fail_the_first_round_raises_and_the_thread_goes_on(openai_server: Any) -> None:
    first = openai_server([error(401, "no"), say("Here again.")], strict=True)
    second = openai_server([error(401, "no")], strict=True)
    graph = build_turn_graph(named(first, "one"), fallback_models=[named(second, "two")], checkpointer=InMemorySaver())
    with pytest.raises(ProviderError) as raised:
        run(graph, "hi", thread())
    assert raised.value.fault.kind == "auth"
    output, events = run(graph, "again", thread())
    assert output["answer"] == "Here again."
    check_turn(output, events)
    first_receipt = graph.get_state(thread()).values["receipts"][0]
    assert (first_receipt["status"], first_receipt["stop_reason"]) == ("error", "provider_error")


def test_every_round_starts_with_the_first_model(openai_server: Any) -> None:
    first = openai_server([error(401, "no"), say("The first is back.")], strict=True)
    second = openai_server([call(("look", {"place": "yard"}))], strict=True)
    graph = build_turn_graph(named(first, "one"), [look], fallback_models=[named(second, "two")])
    output, events = run(graph, "go")
    assert output["answer"] == "The first is back."
    assert (output["receipt"]["model"], output["receipt"]["models"]) == ("one", ["two", "one"])
    check_turn(output, events)
    check_requests(first)


def test_through_a_pause(openai_server: Any) -> None:
    first = openai_server([call(("look", {"place": "yard"})), *[BUSY] * 3], strict=True)
    second = openai_server([say("Empty.")], strict=True)
    asking = tool_policy(look, permission="ask")
    graph = build_turn_graph(
        named(first, "one"), [asking], fallback_models=[named(second, "two")], checkpointer=InMemorySaver()
    )
    paused, _ = run(graph, "go", thread())
    assert pause_of(paused)["action_requests"]
    output, events = run(graph, Command(resume={"decisions": [{"type": "approve"}]}), thread())
    assert (output["answer"], output["receipt"]["model"]) == ("Empty.", "two")
    assert output["receipt"]["models"] == ["one", "two"]
    check_turn(output, events)
    check_requests(second)


def test_a_model_of_another_provider(openai_server: Any) -> None:
    first = openai_server([error(401, "no")], strict=True)
    other = ScriptedModel(["From elsewhere."])
    output, events = run(build_turn_graph(named(first, "one"), fallback_models=[other]), "hi")
    assert output["answer"] == "From elsewhere."
    check_turn(output, events)


def test_an_overflow_is_not_a_reason_for_another_model(openai_server: Any) -> None:
    overflow = error(400, "prompt is too long: 213462 tokens > 200000 maximum")
    first, second = openai_server([overflow] * 2), openai_server([say("Second.")])
    graph = build_turn_graph(named(first, "one"), fallback_models=[named(second, "two")])
    output, events = run(graph, "hi")
    assert output["receipt"]["stop_reason"] == "context_window"
    assert not second.requests
    check_turn(output, events)


def test_a_time_budget_holds_over_all_of_them(openai_server: Any) -> None:
    """Each of them alone is within the budget."""
    slow = [openai_server([error(401, "no", delay=0.4), say("At last.")]) for _ in range(4)]
    models = [named(each, f"m{n}") for n, each in enumerate(slow)]
    started = time.monotonic()
    output, events = run(
        build_turn_graph(models[0], fallback_models=models[1:]), "hi", context=TurnSettings(max_seconds=0.6)
    )
    assert time.monotonic() - started < 5
    assert output["receipt"]["stop_reason"] == "max_seconds"
    assert output["answer"] == "At last."
    assert [len(each.requests) for each in slow] == [2, 1, 0, 0]
    check_turn(output, events)


def test_thinking_of_the_first_try_is_no_part_of_the_answer(openai_server: Any) -> None:
    first = openai_server(lambda _: broken(say("", reasoning="wrong thought", chunks=4)))
    second = openai_server([say("Right.", reasoning="right thought")])
    graph = build_turn_graph(named(first, "one"), fallback_models=[named(second, "two")])
    output, events = run(graph, "hi")
    assert finish_text(events) == "Right."
    assert output["messages"][-1].additional_kwargs["reasoning_content"] == "right thought"
    assert types(events).count("round_started") == 1


def test_the_schema_is_filled_by_a_fallback(openai_server: Any) -> None:
    first = openai_server([say("Bern."), *[error(401, "no")] * 5], strict=True)
    second = openai_server([say('{"name": "Bern"}')], strict=True)
    graph = build_turn_graph(named(first, "one"), response_format=City, fallback_models=[named(second, "two")])
    output, events = run(graph, "where?")
    assert (output["answer"], output["structured"]) == ("Bern.", {"name": "Bern"})
    check_turn(output, events)
