"""B23 (DeepSeek-V3#1376): a provider that refuses tool_choice, in some values or altogether, and takes tools."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import Request, Step, call, error, say
from tests.support.turns import chat, check_turn, run, thread
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm.profile import PROFILES

WORDINGS = [
    "Thinking mode does not support this tool_choice",
    "deepseek-reasoner does not support this tool_choice",
    "No endpoints found that support the provided 'tool_choice' value.",
    "Unsupported parameter: 'tool_choice' is not supported with this model.",
]


def search(query: str) -> str:
    """Search."""
    return f"found {query}"


@pytest.mark.parametrize("wording", WORDINGS)
@pytest.mark.parametrize("status", [400, 404])
def test_b23_only_the_parameter_goes_and_it_is_remembered(openai_server: Any, wording: str, status: int) -> None:
    PROFILES.forget()

    def answer(request: Request) -> Step:
        if "tool_choice" in request.body:
            return error(status, wording)
        asked = request.messages[-1]["role"] == "user" and request.tool_names
        return call(("search", {"query": "x"}), ids=[f"c{len(server.requests)}"]) if asked else say("Done.")

    server = openai_server(answer)
    graph = build_turn_graph(chat(server), [search], checkpointer=InMemorySaver())
    for turn in range(2):
        output, events = run(graph, f"go {turn}", thread(), context=TurnSettings(max_rounds=1))
        assert (output["answer"], output["receipt"]["stop_reason"]) == ("Done.", "max_rounds")
        check_turn(output, events)
    assert ["tool_choice" in request.body for request in server.requests] == [False, True, False, False, False]
    assert all(request.tool_names for request in (server.requests[0], server.requests[3]))
