"""Which of the stored threads a person means by an id, or by its first letters."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from turngraph.cli.values import UsageError

LISTED = 10
"""Threads that an ambiguous prefix lists at most."""

_LAST = "\U0010ffff"
"""Sorts after whatever else an id may go on with."""


def known_thread(database: Path, typed: str) -> str:
    """The thread whose id is `typed`, else the only one whose id starts with it.

    Raises UsageError where there is none or more than one; sqlite3.Error for a file that is no database.
    """
    found = _starting_with(database, typed) if database.exists() else []
    return chosen(typed, found, database)


def chosen(typed: str, found: Sequence[str], database: Path) -> str:
    """The one of these threads, newest first, that is meant; each starts with `typed`. Raises UsageError."""
    if typed in found or len(found) == 1:
        return typed if typed in found else found[0]
    if not found:
        raise UsageError(f"There is no thread {typed!r} in {database}. `turngraph threads` lists them.")
    more = f"\n  and {len(found) - LISTED} more" if len(found) > LISTED else ""
    lines = "\n".join(f"  {each}" for each in found[:LISTED])
    raise UsageError(f"{len(found)} threads start with {typed!r}, newest first:\n{lines}{more}\nType more of the id.")


def _starting_with(database: Path, typed: str) -> list[str]:
    """Ids of threads that start so, those that were written to last first."""
    with closing(sqlite3.connect(database)) as db:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'checkpoints'").fetchone():
            return []
        rows = db.execute(
            "SELECT thread_id FROM checkpoints WHERE checkpoint_ns = '' AND thread_id BETWEEN ? AND ? "
            "GROUP BY thread_id ORDER BY MAX(checkpoint_id) DESC",
            (typed, typed + _LAST),
        )
        return [row[0] for row in rows]
