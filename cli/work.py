"""The async core: opens the database and the graph, runs one leg of a turn, reads and feeds threads."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command, StateSnapshot

from turngraph.cli.terminal import Sink
from turngraph.cli.values import UsageError
from turngraph.graph import TurnGraph, TurnSettings, asend_input, build_turn_graph
from turngraph.tools.ask import ask_user
from turngraph.tools.demo import demo_tools


@dataclass(frozen=True)
class Ended:
    """The turn is over; `values` is the thread's state."""

    values: dict[str, Any]


@dataclass(frozen=True)
class Paused:
    """A person is needed; `value` is what the pause asks."""

    value: Any


@dataclass(frozen=True)
class Stopped:
    """The run was cancelled. `closed` says whether the turn still got its receipt."""

    closed: bool
    values: dict[str, Any]


LegEnd: TypeAlias = Ended | Paused | Stopped


def _usable(database: Path) -> None:
    """Makes the folder, and raises sqlite3.Error here for a file that is no database: the driver's own thread, which
    opens it next, would report it over a closed event loop."""
    database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with closing(sqlite3.connect(database)) as probe:
        probe.execute("PRAGMA schema_version")


@asynccontextmanager
async def open_graph(database: Path) -> AsyncIterator[TurnGraph]:
    """The graph of the command line on a SQLite file, which is made where it does not exist."""
    await asyncio.to_thread(_usable, database)
    async with AsyncSqliteSaver.from_conn_string(str(database)) as saver:
        await saver.setup()
        graph = build_turn_graph(tools=[*demo_tools(), ask_user], checkpointer=saver)
        try:
            yield graph
        finally:
            await graph.parts.journal_of(saver, None).close()


def config_of(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}


async def run_leg(database: Path, thread: str, input: Any, settings: TurnSettings | None, sink: Sink) -> LegEnd:
    """Runs until the turn ends, pauses or is cancelled. Cancelling gives `Stopped`, with the turn closed."""
    async with open_graph(database) as graph:
        return await _leg(graph, thread, input, settings, sink)


async def continue_leg(database: Path, thread: str, sink: Sink) -> LegEnd | None:
    """Goes on where a thread stopped; a finished one takes its queued input. None where there is nothing to do."""
    async with open_graph(database) as graph:
        snapshot = await graph.aget_state(config_of(thread))
        if snapshot.next:
            return await _leg(graph, thread, None, None, sink)
        if await graph.parts.journal_of(graph.checkpointer, graph.store).queued(thread):
            return await _leg(graph, thread, {"messages": []}, last_settings(snapshot.values), sink)
        return None


def last_settings(values: Mapping[str, Any]) -> TurnSettings | None:
    """The settings of a thread's last turn, for the turn that answers what was queued during it."""
    recorded = [anchor["settings"] for anchor in values.get("anchors", []) if anchor["kind"] == "turn"]
    return TurnSettings.model_validate(recorded[-1]) if recorded else None


async def resume_leg(database: Path, thread: str, value: Any, sink: Sink) -> LegEnd:
    """Answers a pause and goes on."""
    return await run_leg(database, thread, Command(resume=value), None, sink)


async def _leg(graph: TurnGraph, thread: str, input: Any, settings: TurnSettings | None, sink: Sink) -> LegEnd:
    config = config_of(thread)
    stopped = False
    try:
        stream = graph.astream(input, config, context=settings, stream_mode="custom")
        async with aclosing(cast(AsyncGenerator[Any, None], stream)) as events:
            async for event in events:
                sink.event(event)
    except asyncio.CancelledError:
        stopped = True  # reported as an outcome: the process goes on, to say how the thread is taken up again
    finally:
        sink.end()
    snapshot = await graph.aget_state(config)
    if stopped:
        return Stopped(closed=not snapshot.next, values=snapshot.values)
    interrupts = [interrupt for task in snapshot.tasks for interrupt in task.interrupts]
    return Paused(interrupts[0].value) if interrupts else Ended(snapshot.values)


async def pending_value(database: Path, thread: str) -> Any:
    """What a thread's pause asks. Raises UsageError where none is pending."""
    async with open_graph(database) as graph:
        snapshot = await graph.aget_state(config_of(thread))
        interrupts = [interrupt for task in snapshot.tasks for interrupt in task.interrupts]
        if not interrupts:
            raise UsageError(f"Nothing waits for an answer on thread {thread!r}.")
        return interrupts[0].value


async def queue_input(database: Path, thread: str, text: str) -> bool:
    """Queues a message for a thread; returns whether the thread has a turn that is not over."""
    async with open_graph(database) as graph:
        snapshot = await graph.aget_state(config_of(thread))
        await asend_input(graph, thread, text)
        return bool(snapshot.next)


async def read_thread(database: Path, thread: str) -> StateSnapshot:
    """The whole state of one thread."""
    async with open_graph(database) as graph:
        snapshot: StateSnapshot = await graph.aget_state(config_of(thread))
        return snapshot


async def read_threads(database: Path, limit: int) -> list[tuple[str, StateSnapshot]]:
    """The threads that were written to last, newest first."""
    async with AsyncSqliteSaver.from_conn_string(str(database)) as saver:
        await saver.setup()
        newest = (
            "SELECT thread_id, MAX(checkpoint_id) AS newest FROM checkpoints WHERE checkpoint_ns = '' "
            "GROUP BY thread_id ORDER BY newest DESC LIMIT ?"
        )
        async with saver.conn.execute(newest, (limit,)) as rows:
            threads = [row[0] async for row in rows]
    async with open_graph(database) as graph:
        return [(thread, await graph.aget_state(config_of(thread))) for thread in threads]
