"""B40 (opencode PR#14973, workflow#1387): calls run whatever the finish reason says, unless they are not whole."""

from typing import Any

import pytest

from tests.support.openai_server import call, say
from tests.support.turns import check_turn, roles, run
from tests.support.wire import both_ways, check_requests, client
from turngraph.graph import build_turn_graph

REASONS = ["stop", "other", None, "", "end_turn", "unknown", "STOP", "function_call", "content_filter", "length"]


def graph_of(server: Any, streamed: bool, ran: list[str]) -> Any:
    def look(place: str) -> str:
        """Look at a place."""
        ran.append(place)
        return f"{place} is empty"

    return build_turn_graph(client(server, streamed), [look])


@both_ways
@pytest.mark.parametrize("reason", REASONS, ids=repr)
def test_b40_whole_calls_are_run(openai_server: Any, reason: str | None, streamed: bool) -> None:
    ran: list[str] = []
    places = ["a", "b", "c"]
    three = call(*(("look", {"place": each}) for each in places), text="Let me look.", finish=reason)
    server = openai_server([three, say("All empty.")], strict=True)
    output, events = run(graph_of(server, streamed, ran), "go")
    assert sorted(ran) == places
    assert output["answer"] == "All empty."
    assert output["receipt"]["status"] == "completed"
    assert roles(events) == ["narration", "finish"]
    check_turn(output, events)
    check_requests(server)


@both_ways
@pytest.mark.parametrize("reason", ["length", None, "stop"], ids=repr)
def test_b40_a_call_that_is_not_whole_never_runs(openai_server: Any, reason: str | None, streamed: bool) -> None:
    ran: list[str] = []
    cut = call(("look", {"place": "a"}), ("look", '{"place": "b'), finish=reason)
    server = openai_server([cut, say("Only a.")], strict=True)
    output, events = run(graph_of(server, streamed, ran), "go")
    assert ran == ["a"]
    results = [m for m in output["messages"] if m.type == "tool"]
    assert [m.status for m in results] == ["success", "error"]
    check_turn(output, events)
    check_requests(server)
