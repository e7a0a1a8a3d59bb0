"""Input queued for a running turn: delivered once, in order, by journal and by store, over pauses, crashes, turns."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from tests.support.turns import check_turn, run, thread
from turngraph.graph import InputError, TurnSettings, asend_input, build_turn_graph, send_input
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.nodes.queued import inbox_of
from turngraph.tools import tool_policy

STEER = TurnSettings(on_pending_input="steer")
INBOX = ("turngraph", "input", "t1")


@pytest.fixture(params=["memory", "sqlite", "store"])
def kept(request: Any, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The checkpointer, and the store where there is one."""
    if request.param == "sqlite":
        with SqliteSaver.from_conn_string(str(tmp_path / "turns.sqlite")) as saver:
            yield {"checkpointer": saver}
    else:
        yield {"checkpointer": InMemorySaver()} | ({"store": InMemoryStore()} if request.param == "store" else {})


def humans(messages: list[BaseMessage]) -> list[str]:
    return [m.text for m in messages if isinstance(m, HumanMessage)]


def script(messages: list[BaseMessage]) -> Any:
    """Looks once per turn, then says which user messages came after the last answer."""
    after = messages[max([0, *(at for at, m in enumerate(messages) if isinstance(m, AIMessage) and not m.tool_calls)]) :]
    if not any(isinstance(m, ToolMessage) for m in after):
        return ScriptedReply(text="Let me look.", calls=[("look", {"place": "yard"})])
    return "Answering: " + ", ".join(humans(after))


def looker(kept: dict[str, Any], sends: list[Any], **policy: Any) -> Any:
    """A turn whose tool, when it runs, finds that the user has sent something meanwhile."""

    def look(place: str) -> str:
        """Look."""
        for message in sends:
            send_input(graph, "t1", message)
        sends.clear()
        return f"seen {place}"

    graph = build_turn_graph(ScriptedModel(script), [tool_policy(look, **policy)], **kept)
    return graph


def left(graph: Any) -> list[str]:
    """The keys that are still in the queue."""
    inbox = inbox_of(graph.parts.journal_of(graph.checkpointer, graph.store), graph.store)
    return [key for key, _ in asyncio.run(inbox.queued("t1"))]


def test_steer_joins_the_running_turn_in_order(kept: dict[str, Any]) -> None:
    graph = looker(kept, ["first", HumanMessage("second", id="two"), HumanMessage("again", id="two")])
    output, events = run(graph, "go", thread(), context=STEER)
    assert output["answer"] == "Answering: go, first, second"
    assert humans(output["messages"]) == ["go", "first", "second"]
    assert output["receipt"]["stop_reason"] == "finish"
    assert len(graph.get_state(thread()).values["receipts"]) == 1, "a steered message opens no turn"
    check_turn(output, events)
    assert left(graph) == []
    output, _ = run(graph, "more", thread(), context=STEER)
    assert output["answer"] == "Answering: more"


@pytest.mark.parametrize("following", [[], [("user", "and this")]])
def test_yield_ends_the_turn_and_any_input_starts_the_next_with_it(kept: dict[str, Any], following: Any) -> None:
    graph = looker(kept, ["first", "second"])
    output, events = run(graph, "go", thread())
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "pending_input")
    assert output["answer"] == "Let me look."
    check_turn(output, events)
    assert len(left(graph)) == 2
    output, events = run(graph, {"messages": following}, thread())
    said = [text for _, text in following]
    assert output["answer"] == "Answering: " + ", ".join([*said, "first", "second"])
    assert output["receipt"]["status"] == "completed"
    check_turn(output, events)
    assert left(graph) == []
    assert sorted(humans(output["messages"])) == sorted(["go", "first", "second", *said])


def test_input_queued_between_turns_starts_the_next(kept: dict[str, Any]) -> None:
    graph = looker(kept, [])
    message_id = send_input(graph, "t1", "hello there")
    assert send_input(graph, "t1", HumanMessage("hello there", id=message_id)) == message_id
    output, _ = run(graph, {"messages": []}, thread())
    assert humans(output["messages"]) == ["hello there"]
    with pytest.raises(InputError, match="nothing to answer"):
        run(graph, {"messages": []}, thread())


@pytest.mark.parametrize("settings", [TurnSettings(), STEER])
def test_input_queued_during_a_pause_waits_for_its_end(kept: dict[str, Any], settings: TurnSettings) -> None:
    graph = looker(kept, [], permission="ask")
    run(graph, "go", thread(), context=settings)
    send_input(graph, "t1", "meanwhile")
    assert graph.get_state(thread()).next == ("interrupt",), "the pause stays"
    output, _ = run(graph, Command(resume={"decisions": [{"type": "approve"}]}), thread())
    if settings is STEER:
        assert output["answer"] == "Answering: go, meanwhile"
    else:
        assert output["receipt"]["stop_reason"] == "pending_input"
        run(graph, {"messages": []}, thread())
        output, _ = run(graph, Command(resume={"decisions": [{"type": "approve"}]}), thread())
        assert output["answer"] == "Answering: meanwhile"
    assert humans(output["messages"]) == ["go", "meanwhile"]
    assert left(graph) == []


def test_a_client_writes_plain_messages_into_the_store() -> None:
    store = InMemoryStore()
    graph = looker({"checkpointer": InMemorySaver(), "store": store}, [])
    store.put(INBOX, "m1", {"role": "user", "content": "by hand"})
    store.put(INBOX, "m2", {"type": "human", "data": {"content": "dumped", "type": "human", "id": "own-id"}})
    store.put(INBOX, "m3", {"nonsense": 1})
    store.put(INBOX, "m4", {"role": "assistant", "content": "I am the assistant"})
    store.put(INBOX, "m5", {"role": "user", "content": "marked", "turngraph": {"turn_id": "x"}})
    store.put(("turngraph", "input", "t10"), "m6", {"role": "user", "content": "another thread's"})
    output, _ = run(graph, {"messages": []}, thread())
    assert humans(output["messages"]) == ["by hand", "dumped", "marked"]
    assert {m.id for m in output["messages"]} >= {"m1", "own-id", "m5"}
    assert [item.key for item in store.search(("turngraph", "input"))] == ["m6"]
    assert output["answer"] == "Answering: by hand, dumped, marked"


async def test_asend_input_while_a_turn_runs() -> None:
    started = asyncio.Event()

    async def look(place: str) -> str:
        """Look."""
        started.set()
        await asyncio.sleep(0.2)
        return "seen"

    graph = build_turn_graph(ScriptedModel(script), [look], checkpointer=InMemorySaver())
    task = asyncio.create_task(graph.ainvoke({"messages": [("user", "go")]}, thread(), context=STEER))
    await started.wait()
    for number in range(20):
        await asend_input(graph, "t1", f"m{number}")
    output = await task
    assert output["answer"] == "Answering: go, " + ", ".join(f"m{number}" for number in range(20))


def test_what_cannot_be_queued_is_refused() -> None:
    graph = build_turn_graph(ScriptedModel(["x"]), checkpointer=InMemorySaver())
    with pytest.raises(InputError, match="user's message"):
        send_input(graph, "t1", AIMessage("I am the assistant"))
    with pytest.raises(InputError):
        send_input(graph, "t1", {"no": "message"})
    with pytest.raises(InputError, match="checkpointer"):
        send_input(build_turn_graph(ScriptedModel(["x"])), "t1", "hello")


CHILD = '''
import os, sys
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.graph.test_queued_input import STEER, looker
from tests.support.turns import thread
from turngraph.graph import send_input
import turngraph.graph.node as module

database, node, durability = sys.argv[1:]
original = module.TurnNode._run

async def _run(self, state):
    update = await original(self, state)
    seen[self.name] = seen.get(self.name, 0) + 1
    if self.name == node and "m2" in str([*state.get("messages", []), *update.get("messages", [])]):
        os._exit(9)
    return update

seen = {}
module.TurnNode._run = _run
with SqliteSaver.from_conn_string(database) as saver:
    graph = looker({"checkpointer": saver}, ["m1", "m2"])
    graph.invoke({"messages": [("user", "go")]}, thread(), context=STEER, durability=durability)
'''


@pytest.mark.parametrize("node", ["fold_checkpoint", "call_llm", "finalize"])
@pytest.mark.parametrize("durability", ["async", "exit"])
def test_a_killed_process_loses_and_doubles_no_queued_input(tmp_path: Path, node: str, durability: str) -> None:
    database = tmp_path / "turns.sqlite"
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(database), node, durability],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 9, done.stderr
    with SqliteSaver.from_conn_string(str(database)) as saver:
        graph = looker({"checkpointer": saver}, [])
        resumable = graph.get_state(thread()).next
        output, _ = run(graph, None if resumable else "go on", thread(), context=STEER)
        while len(left(graph)) > 0:
            output, _ = run(graph, {"messages": []}, thread(), context=STEER)
        said = humans(output["messages"])
        assert [text for text in said if text.startswith("m")] == ["m1", "m2"]
        sent = str([m.text for m in output["messages"] if isinstance(m, AIMessage) and m.text.startswith("Answering")])
        assert "m1" in sent
        assert "m2" in sent
