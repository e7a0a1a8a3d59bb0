"""B36 (hermes-agent#83937, vllm#19419, OpenDeepWiki PR#392): blank and null arguments mean `{}`."""

import json
from typing import Any

import pytest

from tests.support.openai_server import call, say
from tests.support.turns import check_turn, run
from tests.support.wire import both_ways, calls_in, check_requests, client
from turngraph.graph import build_turn_graph

MISSING = object()
BLANKS = ["", "  ", "\n", "null", " null ", None, MISSING, "{}"]


def now() -> str:
    """Tell the time."""
    return "12:00"


def look(place: str) -> str:
    """Look at a place."""
    return place


def blank(name: str, arguments: Any) -> dict[str, Any]:
    delta = {"index": 0, "id": "c1", "name": name}
    return delta if arguments is MISSING else {**delta, "arguments": arguments}


@both_ways
@pytest.mark.parametrize("arguments", BLANKS, ids=lambda value: "missing" if value is MISSING else repr(value))
def test_b36_a_tool_without_parameters_runs(openai_server: Any, arguments: Any, streamed: bool) -> None:
    server = openai_server([call(blank("now", arguments)), say("Noon.")], strict=True)
    output, events = run(build_turn_graph(client(server, streamed), [now, look]), "what time is it?")
    assert [(m.text, m.status) for m in output["messages"] if m.type == "tool"] == [("12:00", "success")]
    assert json.loads(calls_in(server.requests[1])[0][1]) == {}
    assert output["receipt"]["tool_errors"] == 0
    check_turn(output, events)
    check_requests(server)


@both_ways
@pytest.mark.parametrize("arguments", BLANKS, ids=lambda value: "missing" if value is MISSING else repr(value))
def test_b36_a_required_field_is_named(openai_server: Any, arguments: Any, streamed: bool) -> None:
    server = openai_server(
        [call(blank("look", arguments)), call(("look", {"place": "yard"}), ids=["c2"]), say("Yard.")], strict=True
    )
    output, events = run(build_turn_graph(client(server, streamed), [now, look]), "look")
    results = [m for m in output["messages"] if m.type == "tool"]
    assert [m.status for m in results] == ["error", "success"]
    assert "place" in results[0].text
    assert json.loads(calls_in(server.requests[1])[0][1]) == {}
    assert output["answer"] == "Yard."
    check_turn(output, events)
    check_requests(server)
