"""Input queued for a parent's thread: the turns inside take it, each message once, whatever its tapes and crashes."""

import asyncio
import operator
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send
from typing_extensions import TypedDict

from tests.graph.test_queued_input import humans, script
from tests.support.turns import check_calls, thread
from turngraph.graph import TurnSettings, as_tool, build_turn_graph, send_input
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.nodes.queued import CLAIMS, inbox_of
from turngraph.tools import tool_policy
from turngraph.tools.journal_sql import journal_for

STEER = {"turn_settings": TurnSettings(on_pending_input="steer")}
APPROVE = Command(resume={"decisions": [{"type": "approve"}]})


@pytest.fixture(params=["memory", "sqlite", "store"])
def kept(request: Any, tmp_path: Path) -> Iterator[dict[str, Any]]:
    if request.param == "sqlite":
        with SqliteSaver.from_conn_string(str(tmp_path / "turns.sqlite")) as saver:
            yield {"checkpointer": saver}
    else:
        yield {"checkpointer": InMemorySaver()} | ({"store": InMemoryStore()} if request.param == "store" else {})


def looker(sends: list[Any], parents: list[Any], **policy: Any) -> Any:
    """A turn whose tool, when it runs, finds that the user has sent something to the parent's thread meanwhile."""

    def look(place: str) -> str:
        """Look."""
        while sends:
            send_input(parents[0], "t1", sends.pop(0))
        return f"seen {place}"

    return build_turn_graph(ScriptedModel(script), [tool_policy(look, **policy)])


def around(node: Any, kept: dict[str, Any], state: Any = MessagesState) -> Any:
    builder = StateGraph(state)
    builder.add_node("turn", node)
    builder.add_edge(START, "turn")
    builder.add_edge("turn", END)
    return builder.compile(**kept)


def parent_of(shape: str, sends: list[Any], kept: dict[str, Any], **policy: Any) -> Any:
    """A parent with a turn inside: as a `node`, or called in one that keeps all its messages or the `answer` only."""
    parents: list[Any] = []
    turn = looker(sends, parents, **policy)

    def call(state: MessagesState) -> Any:
        output = turn.invoke({"messages": state["messages"]})
        return {"messages": [AIMessage(output["answer"])] if shape == "answer" else output["messages"]}

    parents.append(around(turn if shape == "node" else call, kept))
    return parents[0]


def left(graph: Any) -> list[str]:
    inbox = inbox_of(journal_for(graph.checkpointer, graph.store), graph.store)
    return [key for key, _ in asyncio.run(inbox.queued("t1"))]


def claims(graph: Any) -> dict[str, Any]:
    return asyncio.run(journal_for(graph.checkpointer, graph.store).lookup("t1", CLAIMS))


def ask(graph: Any, text: str | None, **options: Any) -> list[BaseMessage]:
    said = [] if text is None else [("user", text)]
    messages: list[BaseMessage] = graph.invoke({"messages": said}, thread(), **options)["messages"]
    check_calls(messages)
    return messages


SHAPES = ["node", "messages", "answer"]


@pytest.mark.parametrize("shape", SHAPES)
def test_steer_joins_the_turn_inside_once(kept: dict[str, Any], shape: str) -> None:
    graph = parent_of(shape, ["first", HumanMessage("second", id="two"), HumanMessage("again", id="two")], kept)
    messages = ask(graph, "go", context=STEER)
    assert messages[-1].text == "Answering: go, first, second"
    assert humans(messages) == (["go"] if shape == "answer" else ["go", "first", "second"])
    for text in ("more", "and more"):
        messages = ask(graph, text, context=STEER)
        assert messages[-1].text == f"Answering: {text}"
    assert left(graph) == []
    assert claims(graph) == {}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("following", [None, "and this"])
def test_yield_ends_the_turn_inside_and_any_input_starts_the_next_with_it(
    kept: dict[str, Any], shape: str, following: Any
) -> None:
    graph = parent_of(shape, ["first", "second"], kept)
    assert ask(graph, "go")[-1].text == "Let me look."
    assert len(left(graph)) == 2
    messages = ask(graph, following)
    said = [following] if following else []
    assert messages[-1].text == "Answering: " + ", ".join([*said, "first", "second"])
    for text in ("more", "and more"):
        assert ask(graph, text)[-1].text == f"Answering: {text}"
    assert left(graph) == []


def test_input_queued_during_a_pause_inside_waits_for_its_end(kept: dict[str, Any]) -> None:
    graph = parent_of("node", [], kept, permission="ask")
    graph.invoke({"messages": [("user", "go")]}, thread(), context=STEER)
    send_input(graph, "t1", "meanwhile")
    assert graph.get_state(thread()).next == ("turn",), "the pause stays"
    messages = graph.invoke(APPROVE, thread(), context=STEER)["messages"]
    assert messages[-1].text == "Answering: go, meanwhile"
    assert humans(messages) == ["go", "meanwhile"]


def test_what_a_budget_kept_from_the_turn_goes_to_the_next(kept: dict[str, Any]) -> None:
    graph = parent_of("node", ["first"], kept)
    settings = {"turn_settings": TurnSettings(on_pending_input="steer", max_rounds=1)}
    messages = ask(graph, "go", context=settings)
    assert humans(messages) == ["go"]
    messages = ask(graph, None, context=STEER)
    assert humans(messages) == ["go", "first"]
    assert messages[-1].text == "Answering: first"


class Work(TypedDict):
    places: list[str]
    found: Annotated[list[str], operator.add]


@pytest.mark.parametrize("form", ["sync", "async"])
def test_of_parallel_turns_one_takes_a_message(kept: dict[str, Any], form: str) -> None:
    """Every turn looks at the same moment: all their tools wait for each other."""
    if form == "async" and isinstance(kept["checkpointer"], SqliteSaver):
        pytest.skip("a sync saver runs no async parent")
    together: list[str] = []

    async def look(place: str) -> str:
        """Look."""
        together.append(place)
        last = len(together) == 4
        while len(together) < 4:
            await asyncio.sleep(0.005)
        if last:
            for number in range(6):
                await asyncio.to_thread(send_input, graph, "t1", f"m{number}")
            together.append("sent")
        while len(together) < 5:
            await asyncio.sleep(0.005)
        return "seen"

    turn = build_turn_graph(ScriptedModel(script), [look])

    def one(state: Any) -> Any:
        return {"found": [turn.invoke({"messages": [("user", state["place"])]})["answer"]]}

    async def aone(state: Any) -> Any:
        return {"found": [(await turn.ainvoke({"messages": [("user", state["place"])]}))["answer"]]}

    builder = StateGraph(Work)
    builder.add_node("one", one if form == "sync" else aone)
    builder.add_conditional_edges(START, lambda state: [Send("one", {"place": p}) for p in state["places"]], ["one"])
    builder.add_edge("one", END)
    graph = builder.compile(**kept)
    given = {"places": ["a", "b", "c", "d"], "found": []}
    output = (
        graph.invoke(given, thread(), context=STEER)
        if form == "sync"
        else asyncio.run(graph.ainvoke(given, thread(), context=STEER))
    )
    said = " ".join(output["found"])
    assert [said.count(f"m{number}") for number in range(6)] == [1] * 6


@pytest.mark.parametrize("outer", ["turn", "agent"])
def test_a_turn_that_is_a_tools_work_takes_nothing(outer: str) -> None:
    def model(messages: list[BaseMessage]) -> Any:
        if any(isinstance(m, ToolMessage) for m in messages):
            return "Outer: " + ", ".join(humans(messages))
        return ScriptedReply(calls=[("research", {"question": "why"})])

    sends, parents = ["first"], []
    turn = looker(sends, parents)
    tool = as_tool(turn, name="research", description="Research.", settings=TurnSettings(on_pending_input="steer"))
    kept = {"checkpointer": InMemorySaver()}
    if outer == "turn":
        graph: Any = build_turn_graph(ScriptedModel(model), [tool], **kept)
        options: Any = {"context": TurnSettings(on_pending_input="steer")}
    else:
        graph, options = create_agent(ScriptedModel(model), [tool], **kept), {}
    parents.append(graph)
    messages = graph.invoke({"messages": [("user", "go")]}, thread(), **options)["messages"]
    inside = [m.text for m in messages if isinstance(m, ToolMessage)]
    assert inside == ["Answering: why"]
    assert messages[-1].text == ("Outer: go, first" if outer == "turn" else "Outer: go")
    assert len(left(graph)) == (0 if outer == "turn" else 1)


CHILD = '''
import os, sys
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.graph.test_queued_in_parents import STEER, parent_of
from tests.support.turns import thread
import turngraph.graph.node as module

database, shape, node = sys.argv[1:]
original = module.TurnNode._run

async def _run(self, state):
    update = await original(self, state)
    if self.name == node and "m2" in str([*state.get("messages", []), *update.get("messages", [])]):
        os._exit(9)
    return update

module.TurnNode._run = _run
with SqliteSaver.from_conn_string(database) as saver:
    graph = parent_of(shape, ["m1", "m2"], {"checkpointer": saver})
    graph.invoke({"messages": [("user", "go")]}, thread(), context=STEER)
'''


@pytest.mark.parametrize(("shape", "node"), [("node", "fold_checkpoint"), *((shape, "call_llm") for shape in SHAPES)])
def test_a_killed_process_loses_and_doubles_nothing(tmp_path: Path, shape: str, node: str) -> None:
    database = tmp_path / "turns.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(database), shape, node],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 9, done.stderr
    for then in ("continue", "new message"):
        copy = tmp_path / then
        copy.mkdir()
        for file in tmp_path.glob("turns.sqlite*"):
            shutil.copy(file, copy)
        after_kill(copy / "turns.sqlite", shape, then)


def after_kill(database: Path, shape: str, then: str) -> None:
    with SqliteSaver.from_conn_string(str(database)) as saver:
        graph = parent_of(shape, [], {"checkpointer": saver})
        input = None if then == "continue" else {"messages": [("user", "go on")]}
        answers = []
        for given in (input, {"messages": [("user", "more")]}, {"messages": [("user", "and more")]}):
            messages = graph.invoke(given, thread(), context=STEER)["messages"]
            check_calls(messages)
            answers.append(messages[-1].text)
        said = [text for text in humans(messages) if text.startswith("m") and text != "more"]
        assert said == ([] if shape == "answer" else ["m1", "m2"])
        assert left(graph) == []
        if then == "continue":
            assert answers == ["Answering: go, m1, m2", "Answering: more", "Answering: and more"]
        else:
            assert answers[1:] == ["Answering: more", "Answering: and more"]
