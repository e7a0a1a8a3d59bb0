"""Who runs a thread: owners of leases, whether an owner is surely dead, and holding a lease while a turn runs."""

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from turngraph.state.errors import TurnConflict

HEARTBEAT_SECONDS = 2.0
"""How often a runner says that it is alive."""

EXPIRY_SECONDS = 10.0
"""Silence after which a lease may be taken over; without waiting where the owner is surely dead."""


def new_owner() -> str:
    """The name of one run of this process: JSON that tells where it lives, so that others can see whether it died."""
    return json.dumps({**_here(os.getpid()), "run": uuid4().hex})


def is_dead(owner: str) -> bool:
    """Whether the process of `owner` surely has ended. False wherever that cannot be told from here."""
    try:
        told = json.loads(owner)
        pid = int(told["pid"])
    except (ValueError, TypeError, KeyError):
        return False
    here = _here(os.getpid())
    # A process id means something only on the same boot of the same host, within the same process namespace.
    if any(told.get(key) != here[key] for key in ("host", "boot", "space")):
        return False
    if not _exists(pid):
        return True
    return told.get("start") is not None and _start(pid) != told["start"]


@lru_cache(maxsize=1)
def _here(pid: int) -> dict[str, str | int | None]:
    """Where the process `pid` (this one; the key makes a forked child ask again) lives."""
    return {
        "host": socket.gethostname(),
        "boot": _read("/proc/sys/kernel/random/boot_id"),
        "space": _link("/proc/self/ns/pid"),
        "pid": pid,
        "start": _start(pid),
    }


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _start(pid: int) -> str | None:
    """When a process started, in the kernel's ticks; "dead" if it only waits to be reaped; None: not known here."""
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return None
    fields = stat.rpartition(")")[2].split()
    return "dead" if fields[0] in "ZX" else fields[19]


def _read(path: str) -> str | None:
    with contextlib.suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    return None


def _link(path: str) -> str | None:
    with contextlib.suppress(OSError):
        return os.readlink(path)
    return None


class Leases(Protocol):
    """The part of a journal that keeps leases."""

    async def acquire(self, thread: str, owner: str) -> bool:
        """Takes the lease of a thread."""

    async def heartbeat(self, thread: str, owner: str) -> bool:
        """Keeps the lease."""

    async def release_lease(self, thread: str, owner: str) -> None:
        """Gives the lease up."""

    async def still_held(self, thread: str) -> bool:
        """Whether the lease that was taken here is still the taker's; asks after a silence only."""


@contextlib.asynccontextmanager
async def hold_lease(
    journal: Leases, thread: str, *, owner: str | None = None, on_lost: Callable[[], None] | None = None
) -> AsyncIterator[str]:
    """Holds the lease of `thread` while the block runs and gives its owner's name; never waits for another runner.

    Raises TurnConflict where another runner holds it. `on_lost` is called, once, if the lease was or may have been
    taken over while the block runs (no heartbeat arrived for EXPIRY_SECONDS): start no new effect then.
    """
    owner = owner or new_owner()
    if not (await journal.acquire(thread, owner) and await journal.still_held(thread)):
        raise TurnConflict("Another runner works on this thread. Nothing was changed; try again when it has ended.")
    beating = asyncio.create_task(_beat(journal, thread, owner, on_lost))
    try:
        yield owner
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        await journal.release_lease(thread, owner)


async def _beat(journal: Leases, thread: str, owner: str, on_lost: Callable[[], None] | None) -> None:
    last = time.monotonic()
    while True:
        await asyncio.sleep(HEARTBEAT_SECONDS)
        try:
            held = await journal.heartbeat(thread, owner)
            last = time.monotonic()
        except Exception:  # noqa: BLE001 - a database that is away for a moment is not a lost lease
            held = time.monotonic() - last <= EXPIRY_SECONDS
        if not held:
            if on_lost is not None:
                on_lost()
            return
