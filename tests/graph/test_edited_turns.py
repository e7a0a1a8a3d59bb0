"""Turns that are edited, forked or begun anew from an earlier checkpoint: what was done for one call is no other call's."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, interrupt

from tests.support.turns import check_calls, pause_of, thread
from turngraph.graph import build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import tool_policy

APPROVE: Any = Command(resume={"decisions": [{"type": "approve"}]})


def mailer(ran: list[str], *, ids: str | None = "call_0", saver: Any = None) -> Any:
    """A turn that mails whom the newest user message names, after asking; its provider repeats its call ids."""

    def send(to: str) -> str:
        """Send."""
        ran.append(f"send {to}")
        return f"sent to {to}"

    def write(name: str) -> str:
        """Write."""
        ran.append(f"write {name}")
        return f"wrote {name}"

    def own(question: str) -> str:
        """Ask by itself."""
        answer = interrupt({"question": question})
        ran.append(f"own {answer}")
        return f"told {answer}"

    def script(messages: list[BaseMessage]) -> Any:
        if isinstance(messages[-1], ToolMessage):
            return f"Done: {messages[-1].text}."
        asked = next(m.text for m in reversed(messages) if isinstance(m, HumanMessage)).split()
        if asked[0] == "say":
            return " ".join(asked[1:])
        given = {"id": ids} if ids else {}
        if asked[0] == "both":
            return AIMessage(
                "",
                tool_calls=[
                    {"name": "send", "args": {"to": "ann"}, "id": "b1"},
                    {"name": "own", "args": {"question": "?"}, "id": "b2"},
                ],
            )
        arg = {"send": "to", "write": "name"}[asked[0]]
        call = {"name": asked[0], "args": {arg: asked[1]}, "id": None, **given}
        return (
            AIMessage("Let me see.", tool_calls=[call]) if ids else ScriptedReply(calls=[(asked[0], {arg: asked[1]})])
        )

    tools = [tool_policy(send, permission="ask", effect="write"), tool_policy(write, effect="write"), tool_policy(own)]
    return build_turn_graph(ScriptedModel(script), tools, checkpointer=saver or InMemorySaver())


def before(graph: Any, node: str) -> Any:
    """The newest checkpoint that goes on with this node."""
    return next(each.config for each in graph.get_state_history(thread()) if each.next == (node,))


def say(text: str, id: str = "u1") -> Any:
    return {"messages": [HumanMessage(text, id=id)]}


def test_an_edited_call_is_not_answered_with_the_result_of_the_old_one() -> None:
    ran: list[str] = []
    graph = mailer(ran)
    graph.invoke(say("send ann"), thread())
    graph.invoke(APPROVE, thread())
    at = before(graph, "dispatch_tools")
    message = graph.get_state(at).values["messages"][-1]
    edited = message.model_copy(update={"tool_calls": [{**message.tool_calls[0], "args": {"to": "bob"}}]})
    fork = graph.update_state(at, {"messages": [edited]}, as_node="call_llm")
    assert pause_of(graph.invoke(None, fork))["action_requests"][0]["args"] == {"to": "bob"}
    output = graph.invoke(APPROVE, thread())
    assert ran == ["send ann", "send bob"]
    assert output["answer"] == "Done: sent to bob."
    check_calls(output["messages"])


def test_an_edited_call_that_is_walked_away_from_has_no_result_of_the_old_one() -> None:
    ran: list[str] = []
    graph = mailer(ran)
    graph.invoke(say("send ann"), thread())
    graph.invoke(APPROVE, thread())
    at = before(graph, "dispatch_tools")
    message = graph.get_state(at).values["messages"][-1]
    edited = message.model_copy(update={"tool_calls": [{**message.tool_calls[0], "args": {"to": "bob"}}]})
    graph.invoke(None, graph.update_state(at, {"messages": [edited]}, as_node="call_llm"))
    output = graph.invoke(say("say never mind", "u2"), thread())
    (result,) = [m for m in output["messages"] if isinstance(m, ToolMessage)]
    assert result.text.startswith("Not answered")
    assert ran == ["send ann"]


def test_the_same_call_at_an_old_checkpoint_keeps_its_result() -> None:
    ran: list[str] = []
    graph = mailer(ran)
    graph.invoke(say("write a"), thread())
    output = graph.invoke(None, before(graph, "dispatch_tools"))
    assert ran == ["write a"]
    assert output["answer"] == "Done: wrote a."


@pytest.mark.parametrize("ids", ["call_0", None])
def test_an_edited_question_is_answered_for_itself(ids: str | None) -> None:
    ran: list[str] = []
    graph = mailer(ran, ids=ids)
    graph.invoke(say("say hello", "u0"), thread())
    at = graph.get_state(thread()).config
    graph.invoke(say("write a"), thread())
    output = graph.invoke(say("say something else"), at)
    assert output["answer"] == "something else"
    assert [m.type for m in output["messages"]] == ["human", "ai"] * 2
    assert ran == ["write a"]


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("ids", ["call_0", None])
def test_a_turn_that_is_begun_anew_asks_the_model_anew(ids: str | None, times: int) -> None:
    ran: list[str] = []
    graph = mailer(ran, ids=ids)
    graph.invoke(say("write a"), thread())
    at = before(graph, "__start__")
    first = {graph.get_state(thread()).values["receipt"]["turn_id"]}
    for _ in range(times):
        output = graph.invoke(None, graph.get_state(at).config)
        first.add(output["receipt"]["turn_id"])
        assert output["answer"] == "Done: wrote a."
        assert [m.type for m in output["messages"]] == ["human", "ai", "tool", "ai"]
        assert len(graph.get_state(thread()).values["receipts"]) == 1
    assert len(first) == times + 1
    assert ran == ["write a"] * (times + 1)


@pytest.mark.parametrize("ids", ["call_0", None])
def test_an_older_turn_that_is_begun_anew_does_its_own_work(ids: str | None) -> None:
    ran: list[str] = []
    graph = mailer(ran, ids=ids)
    graph.invoke(say("say hello", "u0"), thread())
    at = graph.get_state(thread()).config
    before = graph.invoke(say("write a"), thread())["receipt"]["turn_id"]
    graph.invoke(say("say next", "u2"), thread())  # closes the turn before
    for times in (2, 3):
        output = graph.invoke(say("write a"), at)
        assert output["receipt"]["turn_id"] != before
        before = output["receipt"]["turn_id"]
        assert ran == ["write a"] * times
        assert output["answer"] == "Done: wrote a."
        check_calls(output["messages"])


def test_a_round_of_a_finished_turn_that_is_run_again_asks_the_model_again() -> None:
    ran: list[str] = []
    graph = mailer(ran, ids=None)
    first = graph.invoke(say("write a"), thread())
    *_, at = (each.config for each in graph.get_state_history(thread()) if each.next == ("call_llm",))
    output = graph.invoke(None, at)
    assert output["answer"] == first["answer"] == "Done: wrote a."
    assert [m.type for m in output["messages"]] == ["human", "ai", "tool", "ai"]
    assert output["messages"][1].id != first["messages"][1].id, "the old message was not replayed"
    assert ran == ["write a", "write a"]


def test_a_walked_away_pause_with_an_answered_one_beside_it_is_abandoned() -> None:
    ran: list[str] = []
    graph = mailer(ran)
    paused = graph.invoke(say("both"), thread())
    asked = pause_of(paused)
    if "action_requests" in asked:
        pytest.fail("the tool's own question comes first")
    graph.invoke(Command(resume="yes"), thread())
    assert ran == ["own yes"]
    output = graph.invoke(say("say never mind", "u2"), thread())
    receipts = graph.get_state(thread()).values["receipts"]
    assert [(r["status"], r["stop_reason"]) for r in receipts] == [
        ("abandoned", "user_abandoned"),
        ("completed", "finish"),
    ]
    results = {m.tool_call_id: m.text for m in output["messages"] if isinstance(m, ToolMessage)}
    assert results["b2"] == "told yes"
    assert "Not answered" in results["b1"]


def test_an_edited_call_in_another_process(tmp_path: Any) -> None:
    ran: list[str] = []
    where = str(tmp_path / "turns.sqlite")
    with SqliteSaver.from_conn_string(where) as saver:
        graph = mailer(ran, saver=saver)
        graph.invoke(say("send ann"), thread())
        graph.invoke(APPROVE, thread())
    with SqliteSaver.from_conn_string(where) as saver:
        graph = mailer(ran, saver=saver)
        at = before(graph, "dispatch_tools")
        message = graph.get_state(at).values["messages"][-1]
        edited = message.model_copy(update={"tool_calls": [{**message.tool_calls[0], "args": {"to": "bob"}}]})
        graph.invoke(None, graph.update_state(at, {"messages": [edited]}, as_node="call_llm"))
        graph.invoke(APPROVE, thread())
    assert ran == ["send ann", "send bob"]
