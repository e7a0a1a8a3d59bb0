"""What the journal keeps: a bounded number of rows for each thread, and nothing once the thread is deleted."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite.aio import AsyncSqliteStore

from tests.support.turns import thread
from turngraph.graph import InputError, TurnConflict, adelete_thread, build_turn_graph, delete_thread, send_input
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import tool_policy
from turngraph.tools.journal_sql import journal_for

TABLES = ("turns", "claims", "inputs", "leases")
GO: Any = {"messages": [("user", "go")]}


def rows(path: Path, name: str | None = None) -> int:
    """How many rows of the journal there are, of one thread and what ran inside it, or in all."""
    with sqlite3.connect(path) as db:
        where = "" if name is None else " WHERE thread = ? OR thread LIKE ? || '|%'"
        values = () if name is None else (name, name)
        return sum(db.execute(f"SELECT count(*) FROM turngraph_{t}{where}", values).fetchone()[0] for t in TABLES)


def script(messages: list[BaseMessage]) -> Any:
    if messages[-1].type == "tool":
        return "Done."
    return ScriptedReply("Writing.", calls=[("write", {"name": "a"}), ("write", {"name": "b"})])


def write(name: str) -> str:
    """Write."""
    return f"wrote {name}"


def writer(saver: Any, **options: Any) -> Any:
    tools = [tool_policy(write, effect="write")]
    return build_turn_graph(ScriptedModel(script), tools, checkpointer=saver, **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.sqlite"


@pytest.fixture
def saver(path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver.from_conn_string(str(path)) as made:
        yield made


def test_a_long_thread_leaves_no_more_rows_than_a_short_one(saver: SqliteSaver, path: Path) -> None:
    graph, counts = writer(saver), []
    for _ in range(40):
        graph.invoke(GO, thread())
        counts.append(rows(path))
    assert counts[2:] == counts[2:3] * 38, counts


def test_a_deleted_thread_leaves_nothing_and_others_stay(saver: SqliteSaver, path: Path) -> None:
    graph = writer(saver)
    parent = StateGraph(MessagesState).add_node("turn", writer(None)).add_edge(START, "turn").compile(checkpointer=saver)
    for name in ("t1", "t10"):
        graph.invoke(GO, thread(name))
        parent.invoke(GO, thread(name))
        send_input(graph, name, "later")
    kept = rows(path, "t10")
    assert rows(path, "t1") == kept > 0
    delete_thread(graph, "t1")
    assert rows(path, "t1") == 0
    assert rows(path, "t10") == kept
    assert graph.get_state(thread("t1")).values == {}
    assert graph.invoke(GO, thread("t1"))["answer"] == "Done."


async def test_the_same_from_an_event_loop(path: Path) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        graph = writer(saver)
        await graph.ainvoke(GO, thread())
        await adelete_thread(graph, "t1")
        assert (await graph.aget_state(thread())).values == {}
    assert rows(path) == 0


async def test_a_sync_saver_and_a_store(saver: SqliteSaver, path: Path) -> None:
    store = InMemoryStore()
    graph = writer(saver, store=store)
    graph.invoke(GO, thread())
    await store.aput(("turngraph", "input", "t1"), "m", {"role": "user", "content": "later"})
    await adelete_thread(graph, "t1")
    assert rows(path) == 0
    assert store.search(("turngraph",)) == []


def test_a_running_thread_is_not_deleted(saver: SqliteSaver) -> None:
    tried: list[str] = []

    def remove(name: str) -> str:
        """Remove the thread."""
        with pytest.raises(TurnConflict):
            delete_thread(graph, "t1")
        tried.append(name)
        return "no"

    model = ScriptedModel([ScriptedReply("Removing.", calls=[("remove", {"name": "it"})]), "Done."])
    graph = build_turn_graph(model, [remove], checkpointer=saver)
    assert graph.invoke(GO, thread())["answer"] == "Done."
    assert tried == ["it"]
    assert graph.get_state(thread()).values["messages"]


class ServersSaver(InMemorySaver):
    """Not LangGraph's own saver in memory: its journal is in the store."""


class ExpiringStore(AsyncSqliteStore):
    supports_ttl = True  # the base says False by the order of its own bases


async def test_a_store_may_let_what_is_over_expire_and_nothing_else(path: Path) -> None:
    def expiring() -> dict[str, set[bool]]:
        """Whether the items of each kind expire."""
        with sqlite3.connect(path) as db:
            found: dict[str, set[bool]] = {}
            for prefix, minutes in db.execute("SELECT prefix, ttl_minutes FROM store WHERE prefix LIKE 'turngraph.%'"):
                assert minutes in (None, 30 * 24 * 60)
                found.setdefault(prefix.split(".")[1], set()).add(minutes is not None)
        return found

    seen: list[dict[str, set[bool]]] = []

    def wait(name: str) -> str:
        """Wait."""
        seen.append(expiring())
        return f"waited for {name}"

    def calling(messages: list[BaseMessage]) -> Any:
        return "Done." if messages[-1].type == "tool" else ScriptedReply(calls=[("wait", {"name": "a"})])

    tools = [tool_policy(wait, effect="write")]
    async with ExpiringStore.from_conn_string(str(path)) as store:
        await store.setup()
        graph = build_turn_graph(ScriptedModel(calling), tools, checkpointer=ServersSaver(), store=store)
        await graph.ainvoke(GO, thread())
        assert expiring() == {"turns": {True}, "claims": {True}}
        await graph.ainvoke(GO, thread())
        assert [each["turns"] for each in seen] == [{False}, {True, False}]
        with sqlite3.connect(path) as db:
            db.execute("UPDATE store SET expires_at = datetime('now', '-1 minute') WHERE expires_at IS NOT NULL")
        await store.sweep_ttl()
        assert expiring() == {}
        assert (await graph.ainvoke(GO, thread()))["answer"] == "Done."
        assert [r["status"] for r in (await graph.aget_state(thread())).values["receipts"]] == ["completed"] * 3


def test_in_memory_and_without_a_checkpointer() -> None:
    graph = writer(InMemorySaver())
    graph.invoke(GO, thread())
    delete_thread(graph, "t1")
    assert graph.get_state(thread()).values == {}
    assert vars(journal_for(graph.checkpointer))["_threads"]["t1"].turns == {}
    with pytest.raises(InputError, match="checkpointer"):
        delete_thread(writer(None), "t1")
