"""The leases that one journal holds in its database: taking and keeping them, and refusing writes of who lost one."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from turngraph.state.errors import TurnConflict
from turngraph.tools.lease import EXPIRY_SECONDS, is_dead
from turngraph.tools.sql_dialect import Cursor

T = TypeVar("T")

DRAIN_SECONDS = 2.0
"""How long a successor waits for the statements that a dead process had sent."""

UNKNOWN_DRAIN_SECONDS = 0.25
"""The same where the dead process worked through a pool, whose sessions are not known."""

_POLL_SECONDS = 0.005

LOST = "Another runner took this thread over, because this one was silent for too long."

_ACQUIRE = """
    INSERT INTO turngraph_leases (thread, owner, beat) VALUES (?, ?, {now})
    ON CONFLICT (thread) DO UPDATE SET owner = excluded.owner, beat = excluded.beat
    WHERE turngraph_leases.owner = excluded.owner OR abs(excluded.beat - turngraph_leases.beat) > ?
    RETURNING owner"""

Sessions = Callable[[], list[int] | None]
"""The server's processes that work for a checkpointer; None: not known."""


class Run(Protocol):
    def __call__(self, work: Callable[[Cursor], T]) -> Awaitable[T]:
        """One transaction."""


@dataclass
class _Held:
    """A lease as it was taken here, and when it was last confirmed, by two clocks: either may stand still in sleep."""

    name: str
    owner: str
    """The name as it stands in the database, with the sessions that work for it."""
    beat: float
    wall: float

    @property
    def fresh(self) -> bool:
        silent = max(time.monotonic() - self.beat, abs(time.time() - self.wall))
        return silent <= EXPIRY_SECONDS / 2


class SqlLeases:
    """The leases of one journal. Law: who lost the lease of a thread, and slept meanwhile, writes nothing more to it.

    `sessions` are those of the checkpointer: a server goes on with what a killed client has sent, so whoever takes
    over from a dead process waits until that one's sessions have ended, before it reads anything.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._held: dict[str, _Held] = {}

    async def acquire(self, run: Run, thread: str, owner: str) -> bool:
        def work(cursor: Cursor) -> tuple[str, str | None] | None:
            stored = self._stored(thread, owner) or self._signed(cursor, owner)
            if cursor.one(_ACQUIRE.format(now=cursor.now), (thread, stored, EXPIRY_SECONDS)):
                return stored, None
            held = cursor.one("SELECT owner FROM turngraph_leases WHERE thread = ?", (thread,))
            if held is None or not is_dead(held[0]):
                return None
            takeover = f"""
                UPDATE turngraph_leases SET owner = ?, beat = {cursor.now}
                WHERE thread = ? AND owner = ? RETURNING owner"""
            return (stored, held[0]) if cursor.one(takeover, (stored, thread, held[0])) else None

        if (taken := await run(work)) is None:
            return False
        stored, dead = taken
        self._confirm(thread, owner, stored)
        if dead is not None:
            await self._drained(run, dead)
        return True

    def _signed(self, cursor: Cursor, owner: str) -> str:
        """The owner's name with the sessions that work for it."""
        if cursor.session is None:
            return owner
        known = self._sessions()
        told = {**_told(owner), "sessions": None if known is None else [cursor.session, *known]}
        return json.dumps(told) if "pid" in told else owner

    async def _drained(self, run: Run, dead: str) -> None:
        """Waits until nothing that the dead owner sent is still at work."""
        told = _told(dead)
        if "sessions" not in told:
            return
        if told["sessions"] is None:
            await asyncio.sleep(UNKNOWN_DRAIN_SECONDS)
            return
        query = "SELECT 1 FROM pg_stat_activity WHERE pid = ? AND datname = current_database()"
        until = time.monotonic() + DRAIN_SECONDS
        for session in told["sessions"]:
            while await run(lambda cursor, pid=session: cursor.one(query, (pid,))):  # type: ignore[misc]
                if time.monotonic() > until:
                    return
                await asyncio.sleep(_POLL_SECONDS)

    async def heartbeat(self, run: Run, thread: str, owner: str) -> bool:
        stored = self._stored(thread, owner) or owner

        def work(cursor: Cursor) -> bool:
            update = f"UPDATE turngraph_leases SET beat = {cursor.now} WHERE thread = ? AND owner = ? RETURNING owner"
            return cursor.one(update, (thread, stored)) is not None

        if held := await run(work):
            self._confirm(thread, owner, stored)
        return held

    async def release(self, run: Run, thread: str, owner: str) -> None:
        stored = self._stored(thread, owner) or owner
        delete = "DELETE FROM turngraph_leases WHERE thread = ? AND owner = ?"
        await run(lambda cursor: cursor.run(delete, (thread, stored)))
        if (held := self._held.get(thread)) is not None and held.owner == stored:
            del self._held[thread]

    async def still_held(self, run: Run, thread: str) -> bool:
        """Whether the lease under which this journal writes to a thread is its own; asks after a silence only."""
        found = self._over(thread)
        if found is None or found[1].fresh:
            return True
        return await self.heartbeat(run, found[0], found[1].name)

    def fenced(self, thread: str, work: Callable[[Cursor], T]) -> Callable[[Cursor], T]:
        """The transaction, which raises TurnConflict where the lease was taken here and lost since."""

        def checked(cursor: Cursor) -> T:
            if (found := self._over(thread)) is not None:
                query = "SELECT owner FROM turngraph_leases WHERE thread = ?" + cursor.for_share
                if cursor.one(query, (found[0],)) != (found[1].owner,):
                    raise TurnConflict(LOST)
            return work(cursor)

        return checked

    def _over(self, thread: str) -> tuple[str, _Held] | None:
        """The lease that covers a thread: its own, or that of the run that its turn is part of (`thread|namespace`)."""
        end = len(thread)
        while end >= 0:
            if (held := self._held.get(thread[:end])) is not None:
                return thread[:end], held
            end = thread.rfind("|", 0, end)
        return None

    def _stored(self, thread: str, owner: str) -> str | None:
        """The name under which an owner took the lease here."""
        held = self._held.get(thread)
        return held.owner if held is not None and held.name == owner else None

    def _confirm(self, thread: str, name: str, stored: str) -> None:
        self._held[thread] = _Held(name, stored, time.monotonic(), time.time())


def _told(owner: str) -> dict[str, Any]:
    """What an owner's name tells; nothing where it is no JSON object."""
    try:
        told = json.loads(owner)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
