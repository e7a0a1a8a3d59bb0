"""B23 (DeepSeek-V3#1376, zed#36094): a provider that refuses `tool_choice`, at all or by value; the tools stay."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from typing_extensions import TypedDict

from tests.support.openai_server import Request, Step, call, error, say
from tests.support.turns import check_turn, run, thread
from tests.support.wire import both_ways, check_requests, client
from turngraph.graph import TurnSettings, build_turn_graph

DEEPSEEK = "Thinking mode does not support this tool_choice"
WORDINGS = [
    DEEPSEEK,
    "deepseek-reasoner does not support this tool_choice",
    "No endpoints found that support the provided 'tool_choice' value.",
    "Unsupported parameter: 'tool_choice' is not supported with this model.",
]


class City(TypedDict):
    name: str


def search(query: str) -> str:
    """Search."""
    return f"found {query}"


@both_ways
@pytest.mark.parametrize("wording", WORDINGS)
@pytest.mark.parametrize("status", [400, 404])
def test_b23_only_the_field_goes_and_it_is_remembered(
    openai_server: Any, wording: str, status: int, streamed: bool
) -> None:
    def answer(request: Request) -> Step:
        if "tool_choice" in request.body:
            return error(status, wording)
        if request.roles[-2:] == ["tool", "user"]:
            return say("All that I have.")
        return call(("search", {"query": "x"}), ids=[f"c{request.number}"])

    server = openai_server(answer, strict=True)
    graph = build_turn_graph(client(server, streamed), [search], checkpointer=InMemorySaver())
    for turn in range(2):
        output, events = run(graph, f"go {turn}", thread(), context=TurnSettings(max_rounds=1))
        assert output["answer"] == "All that I have."
        assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "max_rounds")
        assert output["receipt"]["error"] is None
        check_turn(output, events)
    assert ["tool_choice" in each.body for each in server.requests] == [False, True, False, False, False]
    assert server.requests[0].tool_names == server.requests[3].tool_names == ["search"]
    check_requests(server)


@both_ways
def test_b23_a_named_choice_refused_and_the_tool_kept(openai_server: Any, streamed: bool) -> None:
    """The call that fills a schema names its one tool where there is no native mode."""
    choices: list[Any] = []

    def answer(request: Request) -> Step:
        choice = request.body.get("tool_choice")
        choices.append(choice)
        if "response_format" in request.body:
            return error(400, "Unsupported parameter: 'response_format' is not supported with this model.")
        if isinstance(choice, dict) or choice == "required":
            return error(400, DEEPSEEK)
        if request.tool_names == ["City"]:
            return call(("City", {"name": "Bern"}))
        return say("Bern it is.")

    server = openai_server(answer, strict=True)
    graph = build_turn_graph(client(server, streamed), response_format=City, checkpointer=InMemorySaver())
    for _ in range(2):
        output, events = run(graph, "where?", thread())
        assert (output["answer"], output["structured"]) == ("Bern it is.", {"name": "Bern"})
        check_turn(output, events)
    named = sum(isinstance(each, dict) for each in choices)
    assert named == 1, f"asked {named} times for what was refused once"
    check_requests(server)
