"""B35 (OpenManus PR#989): arguments that are a JSON string holding JSON, a list, a number."""

import json
from typing import Any

import pytest

from tests.support.openai_server import call, say
from tests.support.turns import check_turn, run
from tests.support.wire import both_ways, calls_in, check_requests, client
from turngraph.graph import build_turn_graph


def search(q: int) -> str:
    """Search."""
    return f"found {q!r}"


def save(document: str) -> str:
    """Save a document."""
    return f"saved {document!r}"


@both_ways
def test_b35_one_level_is_unwrapped(openai_server: Any, streamed: bool) -> None:
    wrapped = json.dumps(json.dumps({"q": 1}))
    server = openai_server([call(("search", wrapped), argument_chunk=3), say("Done.")], strict=True)
    output, events = run(build_turn_graph(client(server, streamed), [search]), "go")
    assert [m.text for m in output["messages"] if m.type == "tool"] == ["found 1"]
    assert json.loads(calls_in(server.requests[1])[0][1]) == {"q": 1}
    check_turn(output, events)
    check_requests(server)


@both_ways
@pytest.mark.parametrize(
    "arguments",
    ["[1]", "7", '"plain"', "true", json.dumps(json.dumps([1])), json.dumps(json.dumps(json.dumps({"q": 1})))],
)
def test_b35_what_is_no_object_is_an_error_that_the_model_reads(
    openai_server: Any, arguments: str, streamed: bool
) -> None:
    bad_and_good = call(("search", arguments), ("search", {"q": 2}))
    server = openai_server([bad_and_good, say("I see.")], strict=True)
    output, events = run(build_turn_graph(client(server, streamed), [search]), "go")
    results = [m for m in output["messages"] if m.type == "tool"]
    assert [m.status for m in results] == ["error", "success"]
    assert "object" in results[0].text
    assert results[1].text == "found 2"
    assert output["answer"] == "I see."
    check_turn(output, events)
    check_requests(server)


@both_ways
def test_b35_a_text_parameter_that_holds_json_is_left_alone(openai_server: Any, streamed: bool) -> None:
    document = '{"q": 1}'
    server = openai_server([call(("save", {"document": document})), say("Saved.")], strict=True)
    output, events = run(build_turn_graph(client(server, streamed), [save]), "go")
    assert [m.text for m in output["messages"] if m.type == "tool"] == [f"saved {document!r}"]
    check_turn(output, events)
    check_requests(server)
