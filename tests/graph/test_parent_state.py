"""A parent's own state and memory around the turns inside it: edits during a pause, and what a turn remembers."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send

from tests.support.turns import check_calls, thread
from turngraph.graph import TurnConflict, build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import tool_policy

ALWAYS: Any = Command(resume={"decisions": [{"type": "always", "scope": "tool"}]})


class State(MessagesState):
    extra: str


def worker(ran: list[str], seen: list[list[str]] | None = None, **options: Any) -> Any:
    """A turn that writes and sends to whom the newest question names; its sends are asked about."""

    def write(name: str) -> str:
        """Write."""
        ran.append(f"write {name}")
        return f"wrote {name} " + "x" * 3_000

    def send(to: str) -> str:
        """Send."""
        ran.append(f"send {to}")
        return f"sent to {to}"

    def script(messages: list[BaseMessage]) -> Any:
        name = next(m.text for m in reversed(messages) if isinstance(m, HumanMessage))
        results = [m.text for m in messages if isinstance(m, ToolMessage)]
        if seen is not None:
            seen.append(results)
        if isinstance(messages[-1], ToolMessage) or any(f"wrote {name} " in text for text in results):
            return "Done."
        return ScriptedReply(calls=[("write", {"name": name}), ("send", {"to": name})])

    tools = [
        tool_policy(write, effect="write", max_output_tokens=100),
        tool_policy(send, permission="ask", effect="write"),
    ]
    return build_turn_graph(ScriptedModel(script), tools, name="turn", **options)


def parent(turn: Any, saver: Any = None) -> Any:
    builder = StateGraph(State)
    builder.add_node("turn", turn)
    builder.add_edge(START, "turn")
    builder.add_edge("turn", END)
    return builder.compile(checkpointer=saver or InMemorySaver())


def go(graph: Any, name: str) -> Any:
    return graph.invoke({"messages": [("user", name)], "extra": "1"}, thread())


@pytest.mark.parametrize("edits", [1, 3])
def test_an_edit_of_a_paused_parents_state_repeats_no_effect(edits: int) -> None:
    ran: list[str] = []
    seen: list[list[str]] = []
    graph = parent(worker(ran, seen))
    assert "__interrupt__" in go(graph, "ann")
    for number in range(edits):
        graph.update_state(thread(), {"extra": str(number)})
    output = graph.invoke(None, thread())
    assert ran == ["write ann"]
    assert output["messages"][-1].text == "Done."
    assert any(text.startswith("wrote ann") for text in seen[-1]), "the model knows what was done"
    check_calls(output["messages"])
    output = go(graph, "bob")
    assert "__interrupt__" in output
    assert ran == ["write ann", "write bob"]


def test_a_turn_with_a_checkpointer_of_its_own_remembers_between_the_parents_runs(tmp_path: Path) -> None:
    ran: list[str] = []
    for at, name in enumerate(("ann", "bob", "eve")):
        with SqliteSaver.from_conn_string(str(tmp_path / "turns.sqlite")) as saver:
            turn = worker(ran, checkpointer=True)
            graph = parent(turn, saver)
            output = go(graph, name)
            if at == 0:
                assert "__interrupt__" in output
                output = graph.invoke(ALWAYS, thread())
            assert "__interrupt__" not in output, "the grant stands"
            check_calls(output["messages"])
            assert [m.type for m in output["messages"]] == ["human", "ai", "tool", "tool", "ai"] * (at + 1)
            config: Any = {"configurable": {**thread()["configurable"], "checkpoint_ns": "turn"}}
            kept = parent(turn, saver).get_state(config).values
            assert [m.id for m in kept["messages"]] == [m.id for m in output["messages"]]
            assert [r["status"] for r in kept["receipts"]] == ["completed"] * (at + 1)
            assert len(kept["originals"]) == at + 1
    assert ran == [f"{verb} {name}" for name in ("ann", "bob", "eve") for verb in ("write", "send")]


def test_a_message_instead_of_an_answer_to_a_turn_that_remembers() -> None:
    ran: list[str] = []
    graph = parent(worker(ran, checkpointer=True))
    go(graph, "ann")
    output = go(graph, "bob")
    output = graph.invoke(ALWAYS, thread())
    assert ran == ["write ann", "write bob", "send bob"]
    check_calls(output["messages"])
    assert len({m.id for m in output["messages"]}) == len(output["messages"])
    assert [m.text for m in output["messages"] if isinstance(m, ToolMessage)][1].startswith("Not answered")


def test_several_at_once_of_a_turn_that_remembers_are_refused() -> None:
    """LangGraph gives them one place for their state, where they would overwrite each other."""
    turn = worker([], checkpointer=True)
    builder = StateGraph(State)
    builder.add_node("turn", turn)
    builder.add_conditional_edges(
        START, lambda state: [Send("turn", {"messages": [("user", name)]}) for name in ("ann", "bob")], ["turn"]
    )
    builder.add_edge("turn", END)
    graph = builder.compile(checkpointer=InMemorySaver())
    with pytest.raises(TurnConflict):
        graph.invoke({"messages": [("user", "both")], "extra": ""}, thread())
