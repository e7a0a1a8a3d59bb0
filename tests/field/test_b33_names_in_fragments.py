"""B33 (lobehub PR#14139, opencode#26412): a call's name comes late, as null, or in every fragment."""

from typing import Any

import pytest

from tests.support.openai_server import call, say
from tests.support.turns import check_turn, run
from tests.support.wire import both_ways, calls_in, check_requests, client
from turngraph.graph import build_turn_graph


def read_file(path: str) -> str:
    """Read a file."""
    return f"content of {path}"


NAMES: list[list[str | None]] = [
    [None, "read_file"],
    ["", "read_file"],
    ["read_file", None],
    ["read_file", "read_file"],
    ["read_file", "", None],
    [None, None, "read_file"],
    ["read_file", "read_file", "read_file"],
]


@pytest.mark.parametrize("with_id", [True, False])
@pytest.mark.parametrize("names", NAMES, ids=str)
def test_b33_the_last_name_that_is_one_wins(openai_server: Any, names: list[str | None], with_id: bool) -> None:
    arguments = '{"path": "a.txt"}'
    step = -(-len(arguments) // len(names))
    deltas: list[dict[str, Any]] = [
        {"index": 0, "name": name, "arguments": arguments[at * step : (at + 1) * step]} for at, name in enumerate(names)
    ]
    if with_id:
        deltas[0]["id"] = "c1"
    server = openai_server([call(*deltas), say("Read.")], strict=True)
    output, events = run(build_turn_graph(client(server), [read_file]), "read a.txt")
    assert [m.text for m in output["messages"] if m.type == "tool"] == ["content of a.txt"]
    assert calls_in(server.requests[1])[0][0] == "read_file"
    check_turn(output, events)
    check_requests(server)


@both_ways
@pytest.mark.parametrize("name", [None, "", "   "], ids=repr)
def test_b33_a_call_that_never_gets_a_name_is_answered(openai_server: Any, name: str | None, streamed: bool) -> None:
    nameless = call(
        {"index": 0, "id": "c1", "name": name, "arguments": "{}"},
        {"index": 1, "id": "c2", "name": "read_file", "arguments": '{"path": "b"}'},
    )
    server = openai_server([nameless, say("I see.")], strict=True)
    output, events = run(build_turn_graph(client(server, streamed), [read_file]), "go")
    results = [m for m in output["messages"] if m.type == "tool"]
    assert [m.status for m in results] == ["error", "success"]
    assert "read_file" in results[0].text
    assert output["answer"] == "I see."
    check_turn(output, events)
    check_requests(server)
