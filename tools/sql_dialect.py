"""Where SQLite and Postgres differ for the journal, its tables, and what one of its transactions may do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from turngraph.tools.lease import EXPIRY_SECONDS

SCHEMA_VERSION = 1
TABLES = (
    "CREATE TABLE IF NOT EXISTS turngraph_schema (version INTEGER NOT NULL)",
    """CREATE TABLE IF NOT EXISTS turngraph_turns (
        seq {serial}, thread TEXT NOT NULL, turn_id TEXT NOT NULL, record TEXT NOT NULL,
        closed INTEGER NOT NULL DEFAULT 0, UNIQUE (thread, turn_id))""",
    """CREATE TABLE IF NOT EXISTS turngraph_claims (
        thread TEXT NOT NULL, turn_id TEXT NOT NULL, call_id TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL,
        state TEXT NOT NULL, outcome TEXT, PRIMARY KEY (thread, turn_id, call_id))""",
    """CREATE TABLE IF NOT EXISTS turngraph_leases (
        thread TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL, beat {real} NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS turngraph_inputs (
        seq {serial}, thread TEXT NOT NULL, message_id TEXT NOT NULL, message TEXT NOT NULL,
        UNIQUE (thread, message_id))""",
)


@dataclass(frozen=True)
class Dialect:
    """Where the two databases differ. `now` is seconds by the database's own clock, which all its runners share."""

    placeholder: str
    serial: str
    real: str
    now: str
    begin: str
    for_update: str
    for_share: str
    lock_schema: str
    group: int
    """How many waiting transactions may share one commit: a commit to a file costs as much as everything else."""
    durable: tuple[str, str] | None
    """Statements that make the next commits wait for the disk, and that end this; None: they always wait."""
    lost: Callable[[Exception], bool]
    """Whether an error means that the same transaction may be tried once more, on a new connection."""


_LOST = ("OperationalError", "InterfaceError", "IdleInTransactionSessionTimeout")


def _is_lost(error: Exception) -> bool:
    """A lost connection or a deadlock, by the DB-API's class names: psycopg is optional and not imported here."""
    return any(base.__name__ in _LOST for base in type(error).__mro__)


SQLITE = Dialect(
    placeholder="?",
    serial="INTEGER PRIMARY KEY AUTOINCREMENT",
    real="REAL",
    now="((julianday('now') - 2440587.5) * 86400.0)",
    begin="BEGIN IMMEDIATE",  # a transaction that reads first and writes later could otherwise fail halfway
    for_update="",
    for_share="",
    lock_schema="SELECT 1",
    group=64,
    # Without waiting, a commit survives the death of the process but not that of the machine; the next one that waits
    # puts it on the disk as well (write-ahead logging).
    durable=("PRAGMA synchronous=FULL", "PRAGMA synchronous=NORMAL"),
    lost=lambda _: False,
)

POSTGRES = Dialect(
    placeholder="%s",
    serial="BIGSERIAL PRIMARY KEY",
    real="DOUBLE PRECISION",
    now="EXTRACT(EPOCH FROM clock_timestamp())::double precision",
    # A process that is stopped in the middle must not keep its successor waiting; when it wakes it has no session.
    begin=f"BEGIN; SET LOCAL idle_in_transaction_session_timeout = {int(EXPIRY_SECONDS * 500)}",
    for_update=" FOR UPDATE",
    for_share=" FOR SHARE",
    lock_schema="SELECT pg_advisory_xact_lock(7310868735427)",
    group=1,  # transactions of several runners that share rows could block each other
    durable=None,
    lost=_is_lost,
)


class Cursor:
    """What a transaction may do: statements with `?` placeholders, rows as tuples."""

    def __init__(self, connection: Any, dialect: Dialect) -> None:
        self._connection = connection
        self._placeholder = dialect.placeholder
        self.now = dialect.now
        self.for_update = dialect.for_update
        self.for_share = dialect.for_share

    @property
    def session(self) -> int | None:
        """The server's process behind this connection; None where there is no server."""
        return session_of(self._connection)

    def _execute(self, statement: str, values: tuple[Any, ...]) -> Any:
        return self._connection.execute(statement.replace("?", self._placeholder), values)

    def run(self, statement: str, values: tuple[Any, ...] = ()) -> None:
        """Executes a statement whose rows nobody wants."""
        self._execute(statement, values)

    def all(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows of a statement."""
        return [tuple(row) for row in self._execute(statement, values).fetchall()]

    def one(self, statement: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """The first row of a statement, or None. The statement is run to its end."""
        rows = self.all(statement, values)
        return rows[0] if rows else None


def session_of(connection: Any) -> int | None:
    """The server's process behind a psycopg connection; None for others."""
    found = getattr(getattr(connection, "info", None), "backend_pid", None)
    return found if isinstance(found, int) else None
