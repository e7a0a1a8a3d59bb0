"""B45 (vllm#6862): a provider whose template wants user and assistant in strict alternation, or no system message."""

from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import Request, Step, call, error, say
from tests.support.turns import chat, check_turn, run, thread
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm.profile import PROFILES
from turngraph.state.settings import ModelProfile


def search(query: str) -> str:
    """Search."""
    return f"found {query}"


@pytest.mark.parametrize("declared", [True, None])
def test_b45_two_questions_in_a_row(openai_server: Any, declared: bool | None) -> None:
    PROFILES.forget()
    server = openai_server([say("Both answered."), say("And again.")], alternate_roles=True)
    graph = build_turn_graph(chat(server), [search], checkpointer=InMemorySaver())
    context = TurnSettings(model_profile=ModelProfile(alternate_roles=declared))
    two = {"messages": [HumanMessage("One?", id="h1"), HumanMessage("Two?", id="h2")]}
    output, events = run(graph, two, thread(), context=context)
    assert (output["answer"], output["receipt"]["status"]) == ("Both answered.", "completed")
    assert [message.id for message in output["messages"][:2]] == ["h1", "h2"]
    assert server.accepted[0].said("user").count("?") == 2
    check_turn(output, events)

    output, events = run(graph, "Three?", thread(), context=context)
    assert output["answer"] == "And again."
    assert [request.refused is not None for request in server.requests] == (
        [False, False] if declared else [True, False, False]
    )
    check_turn(output, events)


def test_b45_no_system_message(openai_server: Any) -> None:
    PROFILES.forget()

    def answer(request: Request) -> Step:
        return error(400, "System role not supported") if "system" in request.roles else say("Yes.")

    server = openai_server(answer)
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())
    output, events = run(graph, "Really?", thread(), context=TurnSettings(system_prompt="Be brief."))
    assert (output["answer"], output["receipt"]["status"]) == ("Yes.", "completed")
    assert server.requests[-1].said("user").startswith("Be brief.")
    check_turn(output, events)


def test_b45_a_call_then_a_question(openai_server: Any) -> None:
    PROFILES.forget()
    steps = [call(("search", {"query": "x"})), say("Found."), say("More.")]
    server = openai_server(steps, alternate_roles=True, strict=True)
    graph = build_turn_graph(chat(server), [search], checkpointer=InMemorySaver())
    run(graph, "Find x.", thread())
    output, events = run(graph, "And more?", thread())
    assert output["answer"] == "More."
    check_turn(output, events)
