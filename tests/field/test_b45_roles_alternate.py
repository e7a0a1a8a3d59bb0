"""B45 (vllm#6862, hermes-agent#20154, crush#279, mistral-vibe#1006): providers that want roles to alternate, or take
no system message."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import Request, Step, call, error, hanging, say
from tests.support.strict import assert_valid_history
from tests.support.turns import check_turn, pause_of, run, thread
from tests.support.wire import both_ways, check_requests, client
from turngraph.graph import ModelProfile, ProviderError, TurnSettings, build_turn_graph
from turngraph.tools import tool_policy

MISTRAL = (
    "After the optional system message, conversation roles must alternate user/assistant/user/assistant/... "
    "except for tool calls and results."
)
ALTERNATE = TurnSettings(model_profile=ModelProfile(alternate_roles=True))


def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is empty"


def alternating(request: Request) -> str | None:
    """What a provider of this kind refuses: two of a role, and user after tool or tool after user."""
    roles = [role for role in request.roles if role != "system"]
    same = any(a == b and a != "tool" for a, b in pairwise(roles))
    pairs = set(pairwise(roles))
    return MISTRAL if same or ("tool", "user") in pairs or ("user", "tool") in pairs or roles[0] != "user" else None


def strict_about_roles(steps: list[Step]) -> Any:
    def answer(request: Request) -> Step:
        refused = alternating(request)
        return error(400, refused) if refused else steps.pop(0)

    return answer


def refused(server: Any) -> list[int]:
    return [each.number for each in server.requests if each.step is not None and each.step.status == 400]


@both_ways
def test_b45_two_user_messages_after_a_failed_turn(openai_server: Any, streamed: bool) -> None:
    server = openai_server(strict_about_roles([error(401, "no"), say("Hello."), say("Again.")]), strict=True)
    graph = build_turn_graph(client(server, streamed), checkpointer=InMemorySaver())
    with pytest.raises(ProviderError):
        run(graph, "first", thread())
    output, events = run(graph, "second", thread())
    assert output["answer"] == "Hello."
    assert [m.text for m in output["messages"] if isinstance(m, HumanMessage)] == ["first", "second"]
    check_turn(output, events)
    assert refused(server) == [2], "learned from exactly one refusal"
    said = server.requests[-1].said("user")
    assert "first" in said
    assert "second" in said
    output, _ = run(graph, "third", thread())
    assert output["answer"] == "Again."
    assert refused(server) == [2], "not remembered"
    check_requests(server)


def test_b45_a_cancelled_turn_and_a_new_message(openai_server: Any) -> None:
    steps = [hanging(say("", chunks=1)), say("Here.")]
    server = openai_server(strict_about_roles(steps), strict=True)
    graph = build_turn_graph(client(server), checkpointer=InMemorySaver())

    async def cancelled() -> None:
        task = asyncio.create_task(graph.ainvoke({"messages": [("user", "first")]}, thread(), context=ALTERNATE))
        while not server.requests:
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    output, events = run(graph, "second", thread(), context=ALTERNATE)
    assert output["answer"] == "Here."
    check_turn(output, events)
    assert refused(server) == []
    assert_valid_history(server.requests[-1].messages, alternate=True)


@both_ways
def test_b45_a_note_after_a_result(openai_server: Any, streamed: bool) -> None:
    """A forced finish tells the model why in a user message, directly after a tool message."""
    server = openai_server(strict_about_roles([call(("look", {"place": "yard"})), say("Empty.")]), strict=True)
    graph = build_turn_graph(client(server, streamed), [look], checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread(), context=TurnSettings(max_rounds=1))
    assert output["answer"] == "Empty."
    assert output["receipt"]["error"] is None
    check_turn(output, events)
    last = server.requests[-1]
    assert "budget" in last.said("user")
    assert_valid_history(last.messages, alternate=True)
    kinds = [type(m) for m in output["messages"]]
    assert kinds == [HumanMessage, AIMessage, ToolMessage, AIMessage], "the stored history changed"


def test_b45_a_message_instead_of_an_answer(openai_server: Any) -> None:
    steps = [call(("look", {"place": "yard"})), say("Never mind then.")]
    server = openai_server(strict_about_roles(steps), strict=True)
    asking = tool_policy(look, permission="ask")
    graph = build_turn_graph(client(server), [asking], checkpointer=InMemorySaver())
    paused, _ = run(graph, "go", thread())
    assert pause_of(paused)["action_requests"]
    output, events = run(graph, "never mind", thread())
    assert output["answer"] == "Never mind then."
    check_turn(output, events)
    assert_valid_history(server.requests[-1].messages, alternate=True)


def test_b45_continuations_and_nudges(openai_server: Any) -> None:
    """AI, AI on the tape: parts of one answer; and a nudge after an empty message."""
    steps = [say(""), say("One, ", finish="length"), say("two, ", finish="length"), say("three."), say("Four.")]
    server = openai_server(strict_about_roles(steps), strict=True)
    graph = build_turn_graph(client(server), checkpointer=InMemorySaver())
    output, events = run(graph, "count", thread(), context=ALTERNATE)
    assert output["answer"] == "One, two, three."
    check_turn(output, events)
    output, events = run(graph, "more", thread(), context=ALTERNATE)
    assert output["answer"] == "Four."
    assert refused(server) == []
    for request in server.requests:
        assert_valid_history(request.messages, alternate=True)


@pytest.mark.parametrize("declared", [True, None])
def test_b45_two_questions_in_a_row(openai_server: Any, declared: bool | None) -> None:
    server = openai_server([say("Both answered."), say("And again.")], alternate_roles=True)
    graph = build_turn_graph(client(server), [look], checkpointer=InMemorySaver())
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
    def answer(request: Request) -> Step:
        return error(400, "System role not supported") if "system" in request.roles else say("Yes.")

    server = openai_server(answer)
    graph = build_turn_graph(client(server), checkpointer=InMemorySaver())
    output, events = run(graph, "Really?", thread(), context=TurnSettings(system_prompt="Be brief."))
    assert (output["answer"], output["receipt"]["status"]) == ("Yes.", "completed")
    assert server.requests[-1].said("user").startswith("Be brief.")
    check_turn(output, events)


def test_b45_a_call_then_a_question(openai_server: Any) -> None:
    steps = [call(("look", {"place": "yard"})), say("Found."), say("More.")]
    server = openai_server(steps, alternate_roles=True, strict=True)
    graph = build_turn_graph(client(server), [look], checkpointer=InMemorySaver())
    run(graph, "Find x.", thread())
    output, events = run(graph, "And more?", thread())
    assert output["answer"] == "More."
    check_turn(output, events)
