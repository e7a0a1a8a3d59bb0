"""A turn that a parent sends to work after somebody else has spoken: a router, another agent, another turn, a loop."""

from itertools import pairwise
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from tests.support.openai_server import Request, Step, call, say
from tests.support.turns import chat, check_calls, thread
from turngraph.graph import Capability, InputError, build_turn_graph

GO: Any = {"messages": [HumanMessage("What is on the roof?", id="q")]}


def line(*nodes: tuple[str, Any], **options: Any) -> Any:
    builder = StateGraph(MessagesState)
    for name, node in nodes:
        builder.add_node(name, node)
    names = [START, *(name for name, _ in nodes), END]
    for before, after in pairwise(names):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=InMemorySaver(), **options)


def transfer(state: Any) -> Any:
    call_id = f"t{len(state['messages'])}"
    asked = AIMessage("", tool_calls=[{"id": call_id, "name": "transfer_to_research", "args": {}}])
    return {"messages": [asked, ToolMessage("Transferred to research.", tool_call_id=call_id)]}


def route(state: Any) -> Any:
    return {"messages": [AIMessage("Handing over to research.")]}


@pytest.mark.parametrize(("before", "heard"), [(route, "Handing over"), (transfer, "Transferred")])
@pytest.mark.parametrize("saved", [True, False])
async def test_a_turn_goes_on_after_others_have_spoken(
    openai_server: Any, before: Any, heard: str, saved: bool
) -> None:
    server = openai_server([call(("look", {"place": "roof"})), say("A cat."), say("Still a cat.")], strict=True)

    def look(place: str) -> str:
        """Look."""
        return f"seen {place}"

    asked: list[str] = []

    async def seed(question: str) -> str:
        asked.append(question)
        return "known"

    turn = build_turn_graph(chat(server), [look], capabilities=[Capability("memory", seed=seed)])
    graph = line(("before", before), ("turn", turn))
    graph.checkpointer = graph.checkpointer if saved else None
    output = await graph.ainvoke(GO, thread())
    assert output["messages"][-1].text == "A cat."
    assert heard in str(server.requests[0].messages)
    assert asked == ["What is on the roof?"]
    check_calls(output["messages"])
    if saved:
        output = await graph.ainvoke({"messages": [("user", "And now?")]}, thread())
        assert output["messages"][-1].text == "Still a cat."
        assert asked[-1] == "And now?"
        check_calls(output["messages"])
    assert len({m.id for m in output["messages"]}) == len(output["messages"])


def test_the_second_of_two_turns_sees_what_the_first_said(openai_server: Any) -> None:
    server = openai_server([say("First."), say("Second."), say("Third."), say("Fourth.")], strict=True)
    graph = line(("one", build_turn_graph(chat(server))), ("two", build_turn_graph(chat(server))))
    output = graph.invoke(GO, thread())
    assert [m.text for m in output["messages"]] == ["What is on the roof?", "First.", "Second."]
    assert "First." in str(server.requests[1].messages)
    output = graph.invoke({"messages": [("user", "Go on.")]}, thread())
    assert [m.text for m in output["messages"]][2:] == ["Second.", "Go on.", "Third.", "Fourth."]


@pytest.mark.parametrize("remembers", [None, True])
def test_a_turn_in_a_loop(openai_server: Any, remembers: bool | None) -> None:
    def answer(request: Request) -> Step:
        return say(f"Visit {len(server.requests)}.")

    server = openai_server(answer, strict=True)
    builder = StateGraph(MessagesState)
    builder.add_node("turn", build_turn_graph(chat(server), checkpointer=remembers))
    builder.add_edge(START, "turn")
    builder.add_conditional_edges("turn", lambda state: "turn" if len(state["messages"]) < 4 else END, ["turn", END])
    output = builder.compile(checkpointer=InMemorySaver()).invoke(GO, thread())
    assert [m.text for m in output["messages"]] == ["What is on the roof?", "Visit 1.", "Visit 2.", "Visit 3."]


def test_a_turn_of_its_own_still_refuses_to_answer_nothing(openai_server: Any) -> None:
    server = openai_server([say("Hello.")], strict=True)
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())
    graph.invoke(GO, thread())
    with pytest.raises(InputError, match="nothing to answer"):
        graph.invoke({"messages": []}, thread())


def test_inside_a_graph_without_any_user_message_there_is_nothing_to_answer(openai_server: Any) -> None:
    graph = line(("before", route), ("turn", build_turn_graph(chat(openai_server([])))))
    with pytest.raises(InputError, match="nothing to answer"):
        graph.invoke({"messages": []}, thread())
