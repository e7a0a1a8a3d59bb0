"""B37 (deepagents#4662, software-agent-sdk PR#2888): arguments that are no JSON do not end the run."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import call, say
from tests.support.turns import check_turn, run, thread
from tests.support.wire import both_ways, check_requests, client
from turngraph.graph import build_turn_graph

BROKEN = ['{"q": tru', "{'q': 1}", '{"q": 1,}', "q=1", '{"q": 1} and more', '{"q": NaN', "{{}", '{"q": "a\nb"}x']


def search(q: str) -> str:
    """Search."""
    return f"found {q}"


@both_ways
@pytest.mark.parametrize("arguments", BROKEN)
def test_b37_a_broken_call_is_answered_and_the_loop_goes_on(openai_server: Any, arguments: str, streamed: bool) -> None:
    server = openai_server(
        [call(("search", arguments)), call(("search", {"q": "x"}), ids=["c2"]), say("Found."), say("Next.")],
        strict=True,
    )
    graph = build_turn_graph(client(server, streamed), [search], checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread())
    results = [m for m in output["messages"] if m.type == "tool"]
    assert [m.status for m in results] == ["error", "success"]
    assert "JSON" in results[0].text
    assert not any(getattr(m, "invalid_tool_calls", None) for m in output["messages"])
    assert (output["answer"], output["receipt"]["status"]) == ("Found.", "completed")
    check_turn(output, events)
    output, events = run(graph, "more", thread())
    assert output["answer"] == "Next."
    check_requests(server)


@both_ways
def test_b37_good_siblings_run_in_their_place(openai_server: Any, streamed: bool) -> None:
    three = call(("search", {"q": "a"}), ("search", '{"q": tru'), ("search", {"q": "c"}))
    server = openai_server([three, say("Done.")], strict=True)
    output, events = run(build_turn_graph(client(server, streamed), [search]), "go")
    results = [m for m in output["messages"] if m.type == "tool"]
    assert [m.status for m in results] == ["success", "error", "success"]
    assert [results[0].text, results[2].text] == ["found a", "found c"]
    check_turn(output, events)
    check_requests(server)
