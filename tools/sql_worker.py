"""One thread that owns one database connection and runs transactions on it, for SQLite and for Postgres."""

import contextlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from turngraph.tools.claims import JournalError
from turngraph.tools.sql_dialect import POSTGRES, SCHEMA_VERSION, SQLITE, TABLES, Cursor, Dialect

T = TypeVar("T")

BUSY_SECONDS = 30.0
"""How long a statement waits for another writer of the same SQLite file."""

_Job: TypeAlias = tuple[Callable[[Cursor], Any] | None, "Future[Any]", bool]


@dataclass(frozen=True)
class _Failure:
    """A transaction that failed and was undone, among others that were committed."""

    error: Exception


def _next(jobs: "queue.SimpleQueue[_Job]", limit: int) -> list[_Job]:
    """The next job, and those that wait already, up to `limit` and up to a request to close."""
    batch = [jobs.get()]
    with contextlib.suppress(queue.Empty):
        while len(batch) < limit and batch[-1][0] is not None:
            batch.append(jobs.get_nowait())
    return batch


class SqlWorker:
    """Runs transactions one after the other in a daemon thread of its own, on one connection that it opens itself.

    Law: a submitted transaction is either committed whole, and then its future has its value, or it left nothing
    and its future has the error. A forked child gets a thread and a connection of its own.
    """

    def __init__(self, connect: Callable[[], Any], dialect: Dialect) -> None:
        self._connect = connect
        self._dialect = dialect
        self._lock = threading.Lock()
        self._pid = 0
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()

    def submit(self, work: Callable[[Cursor], T], *, durable: bool = False) -> "Future[T]":
        """Queues one transaction; its future is never cancelled halfway.

        It survives the death of this process once its future is done; a `durable` one also that of the machine.
        """
        done: Future[T] = Future()
        self._put(work, done, durable)
        return done

    def close(self) -> "Future[None]":
        """Closes the connection after what is queued. A later `submit` opens a new one."""
        done: Future[None] = Future()
        with self._lock:
            if self._pid != os.getpid():
                done.set_result(None)
                return done
            self._pid = 0
            self._jobs.put((None, done, False))
        return done

    def _put(self, work: Callable[[Cursor], Any], done: "Future[Any]", durable: bool) -> None:
        with self._lock:
            if self._pid != os.getpid():
                self._pid = os.getpid()
                self._jobs = queue.SimpleQueue()
                name = "turngraph-journal"
                threading.Thread(target=self._serve, args=(self._jobs,), name=name, daemon=True).start()
            self._jobs.put((work, done, durable))

    def _serve(self, jobs: "queue.SimpleQueue[_Job]") -> None:
        connection: Any = None
        while True:
            batch = _next(jobs, self._dialect.group)
            works = [(work, done) for work, done, _ in batch if work is not None]
            durable = any(wanted for _, _, wanted in batch)
            try:
                if works:
                    connection = self._commit(connection, *map(list, zip(*works, strict=True)), durable=durable)
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits for it
                for _, done in works:
                    done.set_exception(error)
            for work, done, _ in batch:
                if work is None:
                    if connection is not None:
                        connection.close()
                    done.set_result(None)
                    return

    def _commit(
        self, connection: Any, works: list[Callable[[Cursor], Any]], waiting: list["Future[Any]"], *, durable: bool
    ) -> Any:
        """Runs transactions with one commit and tells their futures; gives the connection to go on with."""
        if connection is None:
            connection = self._open()
        try:
            results = self._transact(connection, works, durable)
        except Exception as error:
            if not self._dialect.lost(error):
                raise
            connection.close()
            connection = self._open()
            results = self._transact(connection, works, durable)
        for done, result in zip(waiting, results, strict=True):
            if isinstance(result, _Failure):
                done.set_exception(result.error)
            else:
                done.set_result(result)
        return connection

    def _transact(self, connection: Any, works: list[Callable[[Cursor], Any]], durable: bool = True) -> list[Any]:
        cursor = Cursor(connection, self._dialect)
        if self._dialect.durable is not None:
            waits, goes_on = self._dialect.durable
            connection.execute(waits if durable else goes_on)
        connection.execute(self._dialect.begin)
        try:
            results = [self._one(cursor, connection, work) for work in works]
            connection.execute("COMMIT")
        except BaseException:
            self._rollback(connection)
            raise
        return results

    def _one(self, cursor: Cursor, connection: Any, work: Callable[[Cursor], Any]) -> Any:
        """One transaction within a commit that several share: its own failure undoes only itself."""
        connection.execute("SAVEPOINT turngraph")
        try:
            result = work(cursor)
        except Exception as error:
            if self._dialect.lost(error):
                raise
            connection.execute("ROLLBACK TO SAVEPOINT turngraph")
            result = _Failure(error)
        connection.execute("RELEASE SAVEPOINT turngraph")
        return result

    @staticmethod
    def _rollback(connection: Any) -> None:
        try:
            connection.execute("ROLLBACK")
        except Exception:  # noqa: BLE001 - the connection is gone, and the transaction with it
            return

    def _open(self) -> Any:
        connection = self._connect()
        try:
            [failed] = self._transact(connection, [self._create])
            if isinstance(failed, _Failure):
                raise failed.error
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self, cursor: Cursor) -> None:
        cursor.run(self._dialect.lock_schema)
        for statement in TABLES:
            cursor.run(statement.format(serial=self._dialect.serial, real=self._dialect.real))
        found = cursor.one("SELECT max(version) FROM turngraph_schema")
        version = found[0] if found else None
        if version is None:
            cursor.run("INSERT INTO turngraph_schema (version) VALUES (?)", (SCHEMA_VERSION,))
        elif version > SCHEMA_VERSION:
            raise JournalError(
                f"The journal in this database has version {version}; this turngraph knows {SCHEMA_VERSION}. "
                "Update turngraph."
            )


def sqlite_worker(path: str) -> SqlWorker:
    """A worker on a SQLite file (or `:memory:`), with write-ahead logging as the checkpointer uses it."""

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        # Fails while another connection holds the file; the mode that it has then works as well.
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode=WAL")
        return connection

    return SqlWorker(connect, SQLITE)


def postgres_worker(conninfo: str) -> SqlWorker:
    """A worker on a Postgres database. Raises JournalError, at the first use, where psycopg is not installed."""

    def connect() -> Any:
        try:
            import psycopg
        except ImportError as error:
            raise JournalError('The Postgres journal needs psycopg: pip install "turngraph[postgres]".') from error
        # Statements are not prepared on the server: a connection pooler may hand each to another session.
        return psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)

    return SqlWorker(connect, POSTGRES)
