"""An answer is taken only for a question that was shown: inside other graphs LangGraph hands it to whoever asks first."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from tests.support.turns import pause_of, thread
from turngraph.graph import build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import tool_policy

GO: Any = {"messages": [("user", "go")]}
APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})
EARLY = [True, "yes", "approved", 1, [], {"decisions": [{"type": "approve"}]}, {"answer": "ok"}]


def sender(ran: list[str], *, own: bool = False) -> Any:
    def send(to: str) -> str:
        """Send."""
        answer = interrupt({"really": to}) if own else "approved"
        ran.append(f"{to} {answer}")
        return f"sent to {to}"

    def script(messages: list[BaseMessage]) -> Any:
        if isinstance(messages[-1], ToolMessage):
            return "Done."
        return ScriptedReply(text="Let me see.", calls=[("send", {"to": "ann"})])

    policy: Any = {} if own else {"permission": "ask", "effect": "write"}
    return build_turn_graph(ScriptedModel(script), [tool_policy(send, **policy)])


def parent(turn: Any, saver: Any = None, **options: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("before", lambda state: {})
    builder.add_node("turn", turn)
    builder.add_edge(START, "before")
    builder.add_edge("before", "turn")
    builder.add_edge("turn", END)
    return builder.compile(checkpointer=saver or InMemorySaver(), **options)


@pytest.mark.parametrize("stop", [{"interrupt_before": ["turn"]}, {"interrupt_after": ["before"]}])
@pytest.mark.parametrize("answer", EARLY, ids=str)
def test_an_answer_to_a_breakpoint_approves_nothing(stop: Any, answer: Any) -> None:
    ran: list[str] = []
    graph = parent(sender(ran), **stop)
    graph.invoke(GO, thread())
    paused = graph.invoke(Command(resume=answer), thread())
    assert ran == []
    assert pause_of(paused)["turngraph"]["error"]
    again = graph.invoke(None, thread())
    assert ran == []
    assert pause_of(again)["action_requests"] == pause_of(paused)["action_requests"]
    assert graph.invoke(APPROVE, thread())["messages"][-1].text == "Done."
    assert ran == ["ann approved"]


async def test_the_same_async() -> None:
    ran: list[str] = []
    graph = parent(sender(ran), interrupt_before=["turn"])
    await graph.ainvoke(GO, thread())
    assert pause_of(await graph.ainvoke(Command(resume=True), thread()))["turngraph"]["error"]
    assert ran == []
    await graph.ainvoke(APPROVE, thread())
    assert ran == ["ann approved"]


def test_an_answer_that_comes_with_the_question_approves_nothing() -> None:
    ran: list[str] = []
    graph = parent(sender(ran))
    paused = graph.invoke(Command(resume=True, update=GO, goto="turn"), thread())
    assert ran == []
    assert pause_of(paused)["action_requests"]


def test_a_tools_own_question_is_not_answered_unseen() -> None:
    ran: list[str] = []
    graph = parent(sender(ran, own=True), interrupt_before=["turn"])
    graph.invoke(GO, thread())
    paused = graph.invoke(Command(resume="an early answer"), thread())
    assert ran == []
    assert pause_of(paused) == {"really": "ann"}
    graph.invoke(Command(resume="yes"), thread())
    assert ran == ["ann yes"]


def test_calls_that_were_changed_during_the_pause_are_asked_about_again() -> None:
    ran: list[str] = []
    graph = parent(sender(ran))
    graph.invoke(GO, thread())
    inside = graph.get_state(thread(), subgraphs=True).tasks[0].state
    asked = next(m for m in inside.values["messages"] if isinstance(m, AIMessage))
    (call,) = asked.tool_calls
    edited = asked.model_copy(update={"tool_calls": [{**call, "args": {"to": "mallory"}}]})
    graph.update_state(inside.config, {"messages": [edited]}, as_node="call_llm")
    paused = graph.invoke(APPROVE, thread())
    assert ran == []
    assert pause_of(paused)["action_requests"][0]["args"] == {"to": "mallory"}
    graph.invoke(APPROVE, thread())
    assert ran == ["mallory approved"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_question_that_was_shown_is_answered_by_another_process(tmp_path: Any, durability: Any) -> None:
    ran: list[str] = []
    for input in (GO, APPROVE):
        with SqliteSaver.from_conn_string(str(tmp_path / "turns.sqlite")) as saver:
            output = parent(sender(ran), saver).invoke(input, thread(), durability=durability)
    assert ran == ["ann approved"]
    assert output["messages"][-1].text == "Done."
