"""Structured answers: the value beside the text, from every kind of schema, however the turn ends."""

import json
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from tests.support.openai_server import Request, Step, call, error, say
from tests.support.turns import WAYS, Way, check_turn, pause_of, run, thread, types
from tests.support.wire import both_ways, check_requests, client
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm import ScriptedModel
from turngraph.tools import TurnEffects, tool_policy


class CityModel(BaseModel):
    """A city."""

    name: str
    people: int = Field(ge=1)
    river: str | None = None


class CityDict(TypedDict):
    name: str
    people: int


CITY_SCHEMA = {
    "title": "City",
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 1}},
    "required": ["name", "people"],
    "additionalProperties": False,
}
WRAPPED = {"type": "json_schema", "json_schema": {"name": "City", "schema": CITY_SCHEMA}}
FORMATS: dict[str, Any] = {
    "pydantic": CityModel,
    "typed dict": CityDict,
    "json schema": CITY_SCHEMA,
    "wrapped": WRAPPED,
}
FORMS = pytest.mark.parametrize("fmt", FORMATS.values(), ids=FORMATS)

BERN = {"name": "Bern", "people": 134_000}
GOOD = json.dumps(BERN)
BAD = json.dumps({"name": "Bern", "people": "many"})
NO_FORMAT = error(400, "This response_format type is unavailable now")


def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: 134,000 people"


LOOK = call(("look", {"place": "Bern"}))


def expected(fmt: Any) -> dict[str, Any]:
    return {**BERN, "river": None} if fmt is CityModel else BERN


def formats(server: Any) -> list[bool]:
    return ["response_format" in each.body for each in server.requests]


def in_receipt(output: dict[str, Any]) -> str | None:
    reason: str | None = output["receipt"].get("structured_error")
    return reason


@pytest.mark.parametrize("way", WAYS)
@FORMS
def test_native_mode_the_finish_itself_is_the_value(openai_server: Any, fmt: Any, way: Way) -> None:
    server = openai_server([say(GOOD, chunks=4)], strict=True)
    output, events = run(build_turn_graph(client(server), response_format=fmt), "which city?", way=way)
    assert output["structured"] == expected(fmt)
    assert output["answer"] == GOOD
    assert in_receipt(output) is None
    assert output["receipt"]["status"] == "completed"
    native = server.requests[0].body["response_format"]
    assert native["type"] == "json_schema"
    assert "people" in native["json_schema"]["schema"]["properties"]
    assert len(server.requests) == 1
    check_turn(output, events)


@both_ways
@FORMS
def test_after_tools_the_text_stays_and_a_hidden_call_fills(openai_server: Any, fmt: Any, streamed: bool) -> None:
    server = openai_server([LOOK, say("Bern has 134,000 people.", chunks=5), say(GOOD)], strict=True)
    output, events = run(build_turn_graph(client(server, streamed), [look], response_format=fmt), "how many?")
    assert output["answer"] == "Bern has 134,000 people."
    assert output["structured"] == expected(fmt)
    assert formats(server) == [False, False, True], "calls and schema at once"
    assert server.requests[2].body["tool_choice"] == "none"
    assert output["receipt"]["rounds"] == 2
    assert not any(GOOD in str(event.get("text", "")) for event in events)
    assert not any("people" in m.text and "{" in m.text for m in output["messages"] if m.type == "ai")
    assert types(events).count("round_started") == 2
    check_turn(output, events)
    check_requests(server)


def test_the_hidden_call_is_paid_for(openai_server: Any) -> None:
    def cost(given: int, made: int) -> dict[str, int]:
        return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}

    steps = [say("Bern.", usage=cost(50, 2)), say(BAD, usage=cost(70, 9)), say(GOOD, usage=cost(90, 9))]
    server = openai_server(steps, strict=True)
    output, events = run(build_turn_graph(client(server), response_format=CityModel), "go")
    assert output["receipt"]["usage"]["input_tokens"] == 50 + 70 + 90
    assert output["receipt"]["usage"]["output_tokens"] == 2 + 9 + 9
    assert events[-1]["receipt"] == output["receipt"]


@both_ways
@FORMS
def test_refused_native_mode_is_remembered_and_asked_for_in_words(openai_server: Any, fmt: Any, streamed: bool) -> None:
    def answer(request: Request) -> Step:
        if "response_format" in request.body:
            return NO_FORMAT
        if len(request.tool_names) == 1 and request.tool_names != ["look"]:
            return call((request.tool_names[0], BERN))
        return say("```json\n" + GOOD + "\n```") if "JSON" in request.said("user") else say("Bern.")

    server = openai_server(answer, strict=True)
    graph = build_turn_graph(client(server, streamed), response_format=fmt, checkpointer=InMemorySaver())
    output, events = run(graph, "which?", thread())
    assert (output["answer"], output["structured"]) == ("Bern.", expected(fmt))
    assert sum(formats(server)) == 1
    check_turn(output, events)
    asked = len(server.requests)
    output, events = run(graph, "and now?", thread())
    assert (output["answer"], output["structured"]) == ("Bern.", expected(fmt))
    assert sum(formats(server)[asked:]) == 0, "the refusal was forgotten"
    last = server.requests[-1]
    assert len(last.tool_names) == 1, "the value is the arguments of the one tool that there is"
    assert last.body["tool_choice"]["function"]["name"] == last.tool_names[0]
    check_turn(output, events)
    check_requests(server)


@pytest.mark.parametrize("words", ["failed to parse grammar", "Invalid schema for response_format", "odd"])
def test_a_schema_that_is_refused_in_any_words_does_not_fail_the_turn(openai_server: Any, words: str) -> None:
    def answer(request: Request) -> Step:
        return error(400, words) if "response_format" in request.body else say(GOOD)

    server = openai_server(answer, strict=True)
    output, events = run(build_turn_graph(client(server), response_format=CityModel), "go")
    assert output["structured"] == expected(CityModel)
    assert output["receipt"]["status"] == "completed"
    check_turn(output, events)


@both_ways
@FORMS
def test_a_mismatch_is_named_at_most_twice(openai_server: Any, fmt: Any, streamed: bool) -> None:
    server = openai_server([say("Bern."), say(BAD), say("not even JSON"), say(GOOD)], strict=True)
    output, events = run(build_turn_graph(client(server, streamed), response_format=fmt), "go")
    assert output["structured"] == expected(fmt)
    assert in_receipt(output) is None
    assert "people" in server.requests[2].said("user")
    assert "no JSON" in server.requests[3].said("user")
    check_turn(output, events)
    check_requests(server)


@both_ways
@FORMS
def test_the_third_mismatch_leaves_none_and_the_reason(openai_server: Any, fmt: Any, streamed: bool) -> None:
    server = openai_server([say("Bern."), *[say(BAD)] * 3, say(GOOD)], strict=True)
    output, events = run(build_turn_graph(client(server, streamed), response_format=fmt), "go")
    assert output["structured"] is None
    assert "people" in (in_receipt(output) or "")
    assert (output["answer"], output["receipt"]["status"]) == ("Bern.", "completed")
    assert len(server.requests) == 4
    check_turn(output, events)
    check_requests(server)


def test_a_hidden_call_that_fails_leaves_none_and_the_reason(openai_server: Any) -> None:
    server = openai_server([say("Bern."), *[error(401, "bad key sk-secret123456")] * 3], strict=True)
    output, events = run(build_turn_graph(client(server), response_format=CityModel), "go")
    assert (output["answer"], output["structured"]) == ("Bern.", None)
    assert "AuthenticationError" in (in_receipt(output) or "")
    assert "sk-secret123456" not in json.dumps(output["receipt"])
    assert output["receipt"]["status"] == "completed"
    check_turn(output, events)


@both_ways
def test_through_a_pause(openai_server: Any, streamed: bool) -> None:
    server = openai_server([say(GOOD), LOOK, say("Bern has 134,000."), say(GOOD)], strict=True)
    asking = tool_policy(look, permission="ask")
    graph = build_turn_graph(
        client(server, streamed), [asking], response_format=CityModel, checkpointer=InMemorySaver()
    )
    output, _ = run(graph, "first", thread())
    assert output["structured"] == expected(CityModel)
    paused, _ = run(graph, "second", thread())
    assert pause_of(paused)["action_requests"]
    assert graph.get_state(thread()).values.get("structured") is None, "the last turn's value"
    output, events = run(graph, Command(resume={"decisions": [{"type": "approve"}]}), thread())
    assert output["answer"] == "Bern has 134,000."
    assert output["structured"] == expected(CityModel)
    check_turn(output, events)
    check_requests(server)


@both_ways
def test_a_value_that_was_cut_is_continued(openai_server: Any, streamed: bool) -> None:
    server = openai_server([say(GOOD[:9], finish="length"), say(GOOD[9:])], strict=True)
    output, events = run(build_turn_graph(client(server, streamed), response_format=CityModel), "go")
    assert output["answer"] == GOOD
    assert output["structured"] == expected(CityModel)
    assert len(server.requests) == 2
    check_turn(output, events)


@both_ways
def test_a_text_that_stays_cut_is_filled_all_the_same(openai_server: Any, streamed: bool) -> None:
    server = openai_server([say("Bern has", finish="length"), say(GOOD)], strict=True)
    graph = build_turn_graph(client(server, streamed), response_format=CityModel)
    output, events = run(graph, "go", context=TurnSettings(max_continuations=0))
    assert (output["answer"], output["receipt"]["stop_reason"]) == ("Bern has", "truncated")
    assert output["structured"] == expected(CityModel)
    check_turn(output, events)
    check_requests(server)


@both_ways
def test_a_value_cut_in_the_hidden_call_is_a_mismatch(openai_server: Any, streamed: bool) -> None:
    server = openai_server([say("Bern."), say(GOOD[:9], finish="length"), say(GOOD)], strict=True)
    output, events = run(build_turn_graph(client(server, streamed), response_format=CityModel), "go")
    assert output["structured"] == expected(CityModel)
    check_turn(output, events)
    check_requests(server)


@both_ways
@pytest.mark.parametrize("prose", [True, False])
def test_at_a_forced_finish(openai_server: Any, prose: bool, streamed: bool) -> None:
    last = [say("Bern, I think."), say(GOOD)] if prose else [say(GOOD)]
    server = openai_server([LOOK, *last], strict=True)
    graph = build_turn_graph(client(server, streamed), [look], response_format=CityModel)
    output, events = run(graph, "go", context=TurnSettings(max_rounds=1))
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "max_rounds")
    assert output["structured"] == expected(CityModel)
    assert output["answer"] == ("Bern, I think." if prose else GOOD)
    assert formats(server)[1], "a call in which no tool can be used takes the schema"
    check_turn(output, events)
    check_requests(server)


def test_a_fallback_answer_has_no_value_and_says_why(openai_server: Any) -> None:
    server = openai_server([LOOK, *[error(401, "no")] * 3], strict=True)
    output, events = run(build_turn_graph(client(server), [look], response_format=CityModel), "go")
    assert output["receipt"]["stop_reason"] == "provider_error"
    assert output["structured"] is None
    assert in_receipt(output)
    check_turn(output, events)


@pytest.mark.parametrize(("text", "value"), [(GOOD, BERN), ("No city at all.", None)])
def test_terminated_by_a_tool(openai_server: Any, text: str, value: Any) -> None:
    def finish(x: int) -> Any:
        """Ends the turn."""
        return "done", TurnEffects(terminate=text)

    from langchain_core.tools import tool

    ending = tool(response_format="content_and_artifact")(finish)
    server = openai_server([call(("finish", {"x": 1}))], strict=True)
    output, events = run(build_turn_graph(client(server), [ending], response_format=CityDict), "go")
    assert (output["answer"], output["receipt"]["stop_reason"]) == (text, "terminated")
    assert output["structured"] == value
    assert bool(in_receipt(output)) == (value is None)
    check_turn(output, events)


def test_without_a_format_there_is_none(openai_server: Any) -> None:
    server = openai_server([say(GOOD)])
    output, _ = run(build_turn_graph(client(server)), "go")
    assert output.get("structured") is None
    assert in_receipt(output) is None
    assert formats(server) == [False]


def test_thinking_is_no_part_of_the_value(openai_server: Any) -> None:
    server = openai_server([say(GOOD, think='{"name": "draft"}')], strict=True)
    output, events = run(build_turn_graph(client(server), response_format=CityDict), "go")
    assert (output["answer"], output["structured"]) == (GOOD, BERN)
    check_turn(output, events)


def test_any_other_chat_model(openai_server: Any) -> None:
    model = ScriptedModel(["Bern.", GOOD])
    output, events = run(build_turn_graph(model, response_format=CityDict), "go")
    assert (output["answer"], output["structured"]) == ("Bern.", BERN)
    check_turn(output, events)


@pytest.mark.parametrize("fmt", [7, "City", int, {"type": "array", "items": {}}])
def test_what_is_no_schema_is_refused_at_build(fmt: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        build_turn_graph(response_format=fmt)
