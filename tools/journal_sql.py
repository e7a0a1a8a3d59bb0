"""The journal in the database of the checkpointer: SQLite or Postgres, the same statements for both."""

import asyncio
import json
import sqlite3
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore

from turngraph.state.calls import CallOutcome
from turngraph.tools.claims import ClaimRequest, ClaimState, Fresh, claim_state, distinct, message_id, to_json
from turngraph.tools.journal import Journal, MemoryJournal
from turngraph.tools.journal_store import StoreJournal
from turngraph.tools.sql_dialect import Cursor
from turngraph.tools.sql_find import beside_aiosqlite, beside_sqlite, conninfo, sessions
from turngraph.tools.sql_lease import Sessions, SqlLeases
from turngraph.tools.sql_worker import SqlWorker, postgres_worker, sqlite_worker

T = TypeVar("T")

_CLAIM = """
    INSERT INTO turngraph_claims (thread, turn_id, call_id, name, digest, state) VALUES (?, ?, ?, ?, ?, 'started')
    ON CONFLICT (thread, turn_id, call_id) DO UPDATE
    SET state = 'started', name = excluded.name, digest = excluded.digest
    WHERE turngraph_claims.state = 'paused'
    RETURNING call_id"""

_SETTLE = """
    INSERT INTO turngraph_claims (thread, turn_id, call_id, name, digest, state, outcome)
    VALUES (?, ?, ?, ?, '', 'settled', ?)
    ON CONFLICT (thread, turn_id, call_id) DO UPDATE SET state = 'settled', outcome = excluded.outcome
    WHERE turngraph_claims.outcome IS NULL"""

_RELEASE = "DELETE FROM turngraph_claims WHERE thread = ? AND turn_id = ? AND call_id = ? AND outcome IS NULL"

_OPEN_TURN = """
    INSERT INTO turngraph_turns (thread, turn_id, record) VALUES (?, ?, ?)"""

_OLD_TURNS = """
    SELECT turn_id FROM turngraph_turns WHERE thread = ? AND closed = 1 AND turn_id <> ?
    ORDER BY seq DESC"""


class SqlJournal(Journal):
    """A journal in tables `turngraph_*` beside the checkpoints. All its statements run in one worker thread.

    `worker` is awaited at the first operation, so that finding and opening the database never blocks an event loop.
    Safe against a killed process (each operation is one transaction), against several processes at once, and against
    one that sleeps and wakes after another took its thread over: it gets TurnConflict and writes nothing.
    `sessions`: the database's own, that work for the checkpointer.
    """

    def __init__(self, worker: Callable[[], Awaitable[SqlWorker]], sessions: Sessions = list) -> None:
        self._find_worker = worker
        self._leases = SqlLeases(sessions)
        self._worker: SqlWorker | None = None
        self._lock = threading.Lock()

    async def _write(self, thread: str, work: Callable[[Cursor], T]) -> T:
        """One transaction on a thread, unless its lease was taken here and lost since: TurnConflict."""
        return await self._run(self._leases.fenced(thread, work))

    async def _run(self, work: Callable[[Cursor], T], *, durable: bool = False) -> T:
        """One transaction in the worker thread. It is completed even if the caller is cancelled meanwhile.

        What others rely on beyond this process is `durable`: a call may only run once its claim is on the disk. The
        rest may be lost with the whole machine: a result is then reported as unknown, and nothing runs twice.
        """
        worker = await self._opened()
        return await asyncio.shield(asyncio.wrap_future(worker.submit(work, durable=durable)))

    async def _opened(self) -> SqlWorker:
        if self._worker is None:
            found = await self._find_worker()
            with self._lock:
                if self._worker is None:
                    self._worker = found
                    weakref.finalize(self, found.close)
        return self._worker

    async def close(self) -> None:
        if self._worker is not None:
            await asyncio.wrap_future(self._worker.close())

    async def open_turn(self, thread: str, turn_id: str, record: Mapping[str, Any]) -> None:
        text = to_json(dict(record), "A turn record")

        def work(cursor: Cursor) -> None:
            for (old,) in cursor.all(_OLD_TURNS, (thread, turn_id))[1:]:
                for table in ("turngraph_claims", "turngraph_turns"):
                    cursor.run(f"DELETE FROM {table} WHERE thread = ? AND turn_id = ?", (thread, old))
            cursor.run("DELETE FROM turngraph_turns WHERE thread = ? AND turn_id = ?", (thread, turn_id))
            cursor.run(_OPEN_TURN, (thread, turn_id, text))

        await self._write(thread, work)

    async def update_turn(self, thread: str, turn_id: str, record: Mapping[str, Any]) -> None:
        to_json(dict(record), "A turn record")

        def work(cursor: Cursor) -> None:
            query = "SELECT record FROM turngraph_turns WHERE thread = ? AND turn_id = ? AND closed = 0"
            for (text,) in cursor.all(query + cursor.for_update, (thread, turn_id)):
                merged = json.dumps({**json.loads(text), **record})
                update = "UPDATE turngraph_turns SET record = ? WHERE thread = ? AND turn_id = ?"
                cursor.run(update, (merged, thread, turn_id))

        await self._write(thread, work)

    async def open_turns(self, thread: str) -> list[dict[str, Any]]:
        query = "SELECT turn_id, record FROM turngraph_turns WHERE thread = ? AND closed = 0 ORDER BY seq"
        rows = await self._run(lambda cursor: cursor.all(query, (thread,)))
        return [{**json.loads(text), "turn_id": turn_id} for turn_id, text in rows]

    async def close_turn(self, thread: str, turn_id: str) -> None:
        update = "UPDATE turngraph_turns SET closed = 1 WHERE thread = ? AND turn_id = ?"
        await self._write(thread, lambda cursor: cursor.run(update, (thread, turn_id)))

    async def forget(self, thread: str, turn_id: str, call_ids: Sequence[str]) -> None:
        delete = "DELETE FROM turngraph_claims WHERE thread = ? AND turn_id = ? AND call_id = ?"
        await self._each(delete, [(thread, turn_id, call_id) for call_id in call_ids])

    async def forget_thread(self, thread: str) -> None:
        inside = f"{thread}|"

        def work(cursor: Cursor) -> None:
            for table in ("turns", "claims", "inputs"):
                delete = f"DELETE FROM turngraph_{table} WHERE thread = ? OR substr(thread, 1, ?) = ?"
                cursor.run(delete, (thread, len(inside), inside))

        await self._write(thread, work)

    async def claim(self, thread: str, turn_id: str, calls: Sequence[ClaimRequest]) -> dict[str, ClaimState]:
        def work(cursor: Cursor) -> dict[str, ClaimState]:
            found: dict[str, ClaimState] = {}
            # In one order everywhere, so that two claimers of one batch cannot wait for each other.
            for call in sorted(distinct(calls), key=lambda each: each.call_id):
                row = cursor.one(_CLAIM, (thread, turn_id, call.call_id, call.name, call.digest))
                found[call.call_id] = Fresh() if row else _known(cursor, thread, turn_id, call.call_id)
            return found

        worker = await self._opened()
        claimed = worker.submit(self._leases.fenced(thread, work), durable=True)
        try:
            return await asyncio.shield(asyncio.wrap_future(claimed))
        except asyncio.CancelledError:
            # The caller will not run what was claimed for it meanwhile.
            claimed.add_done_callback(lambda done: _give_back(worker, thread, turn_id, done))
            raise

    async def settle(self, thread: str, turn_id: str, outcome: CallOutcome) -> None:
        text = to_json(outcome, f"The outcome of the call {outcome['call_id']}")
        values = (thread, turn_id, outcome["call_id"], outcome["name"], text)
        await self._write(thread, lambda cursor: cursor.run(_SETTLE, values))

    async def lookup(self, thread: str, turn_id: str) -> dict[str, ClaimState]:
        query = """
            SELECT call_id, name, digest, state, outcome FROM turngraph_claims
            WHERE thread = ? AND turn_id = ?"""
        rows = await self._run(lambda cursor: cursor.all(query, (thread, turn_id)))
        return {call_id: claim_state(name, digest, state, outcome) for call_id, name, digest, state, outcome in rows}

    async def release(self, thread: str, turn_id: str, call_ids: Sequence[str]) -> None:
        await self._each(_RELEASE, [(thread, turn_id, call_id) for call_id in call_ids])

    async def pause(self, thread: str, turn_id: str, call_id: str) -> None:
        update = """
            UPDATE turngraph_claims SET state = 'paused'
            WHERE thread = ? AND turn_id = ? AND call_id = ? AND outcome IS NULL"""
        await self._write(thread, lambda cursor: cursor.run(update, (thread, turn_id, call_id)))

    async def acquire(self, thread: str, owner: str) -> bool:
        return await self._leases.acquire(self._run, thread, owner)

    async def heartbeat(self, thread: str, owner: str) -> bool:
        return await self._leases.heartbeat(self._run, thread, owner)

    async def release_lease(self, thread: str, owner: str) -> None:
        await self._leases.release(self._run, thread, owner)

    async def still_held(self, thread: str) -> bool:
        return await self._leases.still_held(self._run, thread)

    async def enqueue(self, thread: str, message: Mapping[str, Any]) -> bool:
        values = (thread, message_id(message), to_json(dict(message), "A queued message"))
        insert = """
            INSERT INTO turngraph_inputs (thread, message_id, message) VALUES (?, ?, ?)
            ON CONFLICT (thread, message_id) DO NOTHING RETURNING message_id"""
        return await self._run(lambda cursor: cursor.one(insert, values), durable=True) is not None

    async def queued(self, thread: str) -> list[tuple[str, dict[str, Any]]]:
        query = "SELECT message_id, message FROM turngraph_inputs WHERE thread = ? ORDER BY seq"
        rows = await self._run(lambda cursor: cursor.all(query, (thread,)))
        return [(key, json.loads(text)) for key, text in rows]

    async def dequeue(self, thread: str, ids: Sequence[str]) -> None:
        delete = "DELETE FROM turngraph_inputs WHERE thread = ? AND message_id = ?"
        await self._each(delete, [(thread, key) for key in ids])

    async def _each(self, statement: str, rows: Sequence[tuple[str, ...]]) -> None:
        def work(cursor: Cursor) -> None:
            for row in sorted(rows):
                cursor.run(statement, row)

        if rows:
            await self._write(rows[0][0], work)


def _give_back(worker: SqlWorker, thread: str, turn_id: str, done: "Future[dict[str, ClaimState]]") -> None:
    """Releases the fresh claims of a claimer that was cancelled while it waited for them."""
    if done.exception() is None:
        fresh = [call_id for call_id, state in done.result().items() if isinstance(state, Fresh)]

        def work(cursor: Cursor) -> None:
            for call_id in sorted(fresh):
                cursor.run(_RELEASE, (thread, turn_id, call_id))

        worker.submit(work)


def _known(cursor: Cursor, thread: str, turn_id: str, call_id: str) -> ClaimState:
    """The claim that stands in the way of a new one (its row is locked by the attempt to insert)."""
    query = "SELECT name, digest, state, outcome FROM turngraph_claims WHERE thread = ? AND turn_id = ? AND call_id = ?"
    [(name, digest, state, outcome)] = cursor.all(query, (thread, turn_id, call_id))
    return claim_state(name, digest, state, outcome)


def sqlite_journal(path: str) -> SqlJournal:
    """A journal in a SQLite file (`:memory:`: in memory)."""
    return _fixed(sqlite_worker(path))


def postgres_journal(conninfo: str) -> SqlJournal:
    """A journal in a Postgres database; needs psycopg 3."""
    return _fixed(postgres_worker(conninfo))


def _fixed(worker: SqlWorker) -> SqlJournal:
    return SqlJournal(lambda: _ready(worker))


async def _ready(worker: SqlWorker) -> SqlWorker:
    return worker


_journals: "weakref.WeakKeyDictionary[Any, Journal]" = weakref.WeakKeyDictionary()
_journals_lock = threading.Lock()


def journal_for(checkpointer: Any, store: BaseStore | None = None) -> Journal:
    """The journal that belongs to a checkpointer: always the same one for the same object.

    SQLite and Postgres savers (sync or async, from a connection or a pool): tables beside their checkpoints.
    LangGraph's own saver in memory: in memory, as long as the saver lives. Any other, a server's for example: in
    `store` if there is one, else in memory. None (or a bool): a new one in memory. Returns at once; the database is
    found and opened at the first operation.
    """
    if checkpointer is None or isinstance(checkpointer, bool):
        return MemoryJournal()
    with _journals_lock:
        journal = _journals.get(checkpointer)
        if journal is None:
            journal = _journals[checkpointer] = _beside(checkpointer) or MemoryJournal()
    if store is None or isinstance(journal, SqlJournal) or type(checkpointer) is InMemorySaver:
        return journal
    return StoreJournal(store)


def _beside(checkpointer: Any) -> Journal | None:
    """A journal in the database of a checkpointer that has one."""
    connection = getattr(checkpointer, "conn", None)
    package = type(connection).__module__.partition(".")[0]
    saver = weakref.ref(checkpointer)  # the journal must not keep its own key alive
    if isinstance(connection, sqlite3.Connection):
        return SqlJournal(lambda: asyncio.to_thread(beside_sqlite, saver))
    if package == "aiosqlite":
        return SqlJournal(lambda: beside_aiosqlite(saver))
    if package in ("psycopg", "psycopg_pool"):
        worker = postgres_worker(conninfo(connection))
        return SqlJournal(lambda: _ready(worker), lambda: sessions(saver))
    return None
