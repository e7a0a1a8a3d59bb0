"""B32 (smolagents PR#1958): every parallel call comes with index 0, with and without ids; none melts into another."""

import json
from typing import Any

import pytest

from tests.support.openai_server import call, say
from tests.support.turns import check_turn, run
from tests.support.wire import calls_in, check_requests, client
from turngraph.graph import build_turn_graph


def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is empty"


def open_door(door: str) -> str:
    """Open a door."""
    return f"{door} is open"


def whole(name: str, args: Any, **more: Any) -> dict[str, Any]:
    return {"index": 0, "name": name, "arguments": json.dumps(args), **more}


SHAPES = {
    "ids": [whole("look", {"place": "A"}, id="a"), whole("look", {"place": "B"}, id="b")],
    "no ids": [whole("look", {"place": "A"}), whole("look", {"place": "B"})],
    "null ids": [whole("look", {"place": "A"}, id=None), whole("look", {"place": "B"}, id=None)],
    "empty ids": [whole("look", {"place": "A"}, id=""), whole("look", {"place": "B"}, id="")],
    "one id twice": [whole("look", {"place": "A"}, id="a"), whole("look", {"place": "B"}, id="a")],
    "no index": [
        {"id": "a", "name": "look", "arguments": '{"place": "A"}'},
        {"id": "b", "name": "look", "arguments": '{"place": "B"}'},
    ],
    "fragments by id": [
        {"index": 0, "id": "a", "name": "look", "arguments": '{"pla'},
        {"index": 0, "arguments": 'ce": "A"}'},
        {"index": 0, "id": "b", "name": "look", "arguments": '{"pla'},
        {"index": 0, "arguments": 'ce": "B"}'},
    ],
    "fragments without ids": [
        {"index": 0, "name": "look", "arguments": '{"pla'},
        {"index": 0, "arguments": 'ce": "A"}'},
        {"index": 0, "name": "look", "arguments": '{"pla'},
        {"index": 0, "arguments": 'ce": "B"}'},
    ],
}


@pytest.mark.parametrize("deltas", SHAPES.values(), ids=SHAPES)
def test_b32_two_calls_of_one_index_are_two_calls(openai_server: Any, deltas: list[dict[str, Any]]) -> None:
    server = openai_server([call(*deltas), say("Both are empty.")], strict=True)
    output, events = run(build_turn_graph(client(server), [look]), "look at A and B")
    assert output["answer"] == "Both are empty."
    assert [m.text for m in output["messages"] if m.type == "tool"] == ["A is empty", "B is empty"]
    assert [json.loads(args) for _, args in calls_in(server.requests[1])] == [{"place": "A"}, {"place": "B"}]
    check_turn(output, events)
    check_requests(server)


@pytest.mark.parametrize("ids", [("a", "b"), (None, None)])
def test_b32_two_tools_of_one_index_keep_their_order(openai_server: Any, ids: tuple[Any, Any]) -> None:
    both = call(whole("look", {"place": "A"}, id=ids[0]), whole("open_door", {"door": "B"}, id=ids[1]))
    server = openai_server([both, say("Done.")], strict=True)
    output, events = run(build_turn_graph(client(server), [look, open_door]), "go")
    assert [m.text for m in output["messages"] if m.type == "tool"] == ["A is empty", "B is open"]
    check_turn(output, events)
    check_requests(server)
