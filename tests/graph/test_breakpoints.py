"""Static breakpoints and edits of the state between two nodes, as LangGraph's users and Studio make them."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.turns import check_turn, thread
from turngraph.graph import build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import tool_policy

GO: Any = {"messages": [("user", "go")]}
NODES = ("prepare_turn", "call_llm", "dispatch_tools", "fold_checkpoint", "finalize")


def writer(ran: list[str]) -> Any:
    def write(name: str) -> str:
        """Write."""
        ran.append(name)
        return f"wrote {name}"

    def script(messages: list[BaseMessage]) -> Any:
        if isinstance(messages[-1], ToolMessage):
            return f"Done: {messages[-1].text}."
        return ScriptedReply(text="Let me see.", calls=[("write", {"name": "a"})])

    return build_turn_graph(
        ScriptedModel(script), [tool_policy(write, effect="write")], checkpointer=InMemorySaver(), name="turn"
    )


@pytest.mark.parametrize("when", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("touched", [False, True])
def test_a_turn_goes_on_after_any_breakpoint(when: str, node: str, touched: bool) -> None:
    ran: list[str] = []
    graph = writer(ran)
    output = graph.invoke(GO, thread(), **{when: [node]})
    stops = 0
    while graph.get_state(thread()).next:
        stops += 1
        if touched:
            before = graph.get_state(thread()).next
            graph.update_state(thread(), {"messages": []})
            assert graph.get_state(thread()).next == before
        output = graph.invoke(None, thread(), **{when: [node]})
    assert stops == {"call_llm": 2}.get(node, 1) - (when == "interrupt_after" and node == "finalize")
    assert ran == ["a"]
    assert output["receipt"]["status"] == "completed"
    assert output["answer"] == "Done: wrote a."
    check_turn(output)


@pytest.mark.parametrize("as_node", [None, "call_llm"])
def test_a_call_that_is_edited_at_a_breakpoint_runs_as_edited(as_node: str | None) -> None:
    ran: list[str] = []
    graph = writer(ran)
    graph.invoke(GO, thread(), interrupt_before=["dispatch_tools"])
    message = graph.get_state(thread()).values["messages"][-1]
    (call,) = message.tool_calls
    edited = message.model_copy(update={"tool_calls": [{**call, "args": {"name": "edited"}}]})
    graph.update_state(thread(), {"messages": [edited]}, as_node=as_node)
    assert graph.get_state(thread()).next == ("dispatch_tools",)
    output = graph.invoke(None, thread())
    assert ran == ["edited"]
    assert output["answer"] == "Done: wrote edited."
    assert output["receipt"]["stop_reason"] == "finish"


def test_a_call_that_somebody_writes_in_the_models_name_runs() -> None:
    ran: list[str] = []
    graph = writer(ran)
    graph.invoke(GO, thread(), interrupt_before=["call_llm"])
    mine = graph.get_state(thread()).values["anchors"][-1]["turn_id"]
    written = AIMessage(
        "I do it.",
        id="w",
        tool_calls=[{"id": "c1", "name": "write", "args": {"name": "by hand"}}],
        additional_kwargs={"turngraph": {"turn_id": mine, "round": 1, "role": "narration"}},
    )
    graph.update_state(thread(), {"messages": [written]}, as_node="call_llm")
    output = graph.invoke(None, thread())
    assert ran == ["by hand"]
    assert output["receipt"]["status"] == "completed"
