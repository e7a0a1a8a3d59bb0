"""Where the database of a checkpointer is, so that the journal can live beside the checkpoints."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from turngraph.tools.claims import JournalError
from turngraph.tools.sql_dialect import session_of
from turngraph.tools.sql_worker import SqlWorker, sqlite_worker

OPEN_SECONDS = 10.0
"""How long a saver's own event loop may take to open its connection."""


def beside_sqlite(saver: Callable[[], Any]) -> SqlWorker:
    """A worker on the file of a SqliteSaver."""
    checkpointer = _alive(saver)
    try:
        with checkpointer.lock:
            rows = checkpointer.conn.execute("PRAGMA database_list").fetchall()
    except sqlite3.ProgrammingError as error:
        raise JournalError(f"The journal cannot see the checkpointer's database: {error}") from error
    return _on_file(rows)


async def beside_aiosqlite(saver: Callable[[], Any]) -> SqlWorker:
    """A worker on the file of an AsyncSqliteSaver, which opens its connection at its first use."""
    checkpointer = _alive(saver)
    try:
        return _on_file(await _databases(checkpointer.conn))
    except ValueError:  # the connection is not open yet
        await _set_up(checkpointer)
        return _on_file(await _databases(checkpointer.conn))


async def _databases(connection: Any) -> list[tuple[Any, ...]]:
    async with connection.execute("PRAGMA database_list") as cursor:
        return [tuple(row) for row in await cursor.fetchall()]


async def _set_up(checkpointer: Any) -> None:
    """Opens a saver's connection, on the event loop that the saver belongs to: its lock does."""
    home = checkpointer.loop
    if home is asyncio.get_running_loop() or not home.is_running():
        await checkpointer.setup()
        return
    opening = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(checkpointer.setup(), home))
    try:
        await asyncio.wait_for(opening, OPEN_SECONDS)
    except TimeoutError as error:
        raise JournalError(
            "The event loop of the AsyncSqliteSaver is blocked; use SqliteSaver with `invoke`."
        ) from error


def _alive(saver: Callable[[], Any]) -> Any:
    checkpointer = saver()
    if checkpointer is None:
        raise JournalError("The checkpointer of this journal is gone.")
    return checkpointer


def _on_file(databases: Sequence[Sequence[Any]]) -> SqlWorker:
    """A worker on the main file of `PRAGMA database_list`; in memory where the checkpointer's database is."""
    return sqlite_worker(next((row[2] for row in databases if row[1] == "main" and row[2]), ":memory:"))


def conninfo(connection: Any) -> str:
    """How to reach the database of a psycopg connection or pool."""
    if isinstance(pooled := getattr(connection, "conninfo", None), str):
        return pooled
    from psycopg.conninfo import make_conninfo

    return make_conninfo(**{**connection.info.get_parameters(), "password": connection.info.password or None})


def sessions(saver: Callable[[], Any]) -> list[int] | None:
    """The server's processes that work for a Postgres saver; None for one with a pool, which opens them as needed."""
    found = session_of(getattr(saver(), "conn", None))
    return None if found is None else [found]
