"""The lease of a thread around one run: who takes one, and keeping it alive beside whatever the run does."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from typing import Any

from langchain_core.runnables import RunnableConfig

from turngraph.graph.admission import configurable_of
from turngraph.graph.loop import background_loop, on_background_loop, submit
from turngraph.nodes.parts import TurnParts, Visit
from turngraph.tools.journal import Journal
from turngraph.tools.lease import hold_lease, new_owner

_log = logging.getLogger(__name__)

_SERVER_KEYS = ("langgraph_request_id", "langgraph_auth_user_id", "__request_start_time_ms__")
"""What LangGraph server puts into the config of a run."""


class HeldLease:
    """A lease that is asked for now, and kept until `give_up` (or until nobody holds this object any more).

    Everything happens on the background loop: a caller that blocks its own loop or thread for long does not lose the
    lease by that. `taken` is done when the lease is held, or fails with TurnConflict.
    """

    def __init__(self, journal: Journal, thread: str, on_lost: Callable[[], None]) -> None:
        self._loop = background_loop()
        self._over = asyncio.Event()
        self.taken: Future[None] = Future()
        self._ended = submit(_hold(journal, thread, on_lost, self.taken, self._over))

    def give_up(self) -> "Future[None]":
        """Ends the holding; the future is done when others may take the lease."""
        self._loop.call_soon_threadsafe(self._over.set)
        return self._ended

    def __del__(self) -> None:
        with contextlib.suppress(RuntimeError, AttributeError):
            self._loop.call_soon_threadsafe(self._over.set)


async def _hold(
    journal: Journal, thread: str, on_lost: Callable[[], None], taken: "Future[None]", over: asyncio.Event
) -> None:
    try:
        owner = await asyncio.to_thread(new_owner)
        async with hold_lease(journal, thread, owner=owner, on_lost=on_lost):
            taken.set_result(None)
            await over.wait()
    except Exception as error:  # noqa: BLE001 - handed to whoever waits for the lease
        if taken.done():
            _log.warning("The lease of thread %r could not be given up; it will expire.", thread, exc_info=error)
        else:
            taken.set_exception(error)


def leased_thread(graph: Any, config: RunnableConfig | None) -> tuple[Journal, str] | None:
    """The journal and the thread whose lease a root run needs; None where it needs none.

    The lease lies beside the checkpoints (for savers without a database of their own: in this process), never in
    LangGraph's store: there it would be slow and best effort. LangGraph server keeps one run per thread itself, so
    a run there takes none.
    """
    configurable = {**(graph.config or {}).get("configurable", {}), **configurable_of(config)}
    thread, saver = configurable.get("thread_id"), graph.checkpointer
    if not thread or saver is None or isinstance(saver, bool) or any(key in configurable for key in _SERVER_KEYS):
        return None
    return graph.parts.journal_of(saver, None), str(thread)


@contextlib.contextmanager
def holding(needed: tuple[Journal, str] | None, on_lost: Callable[[], None]) -> Iterator[HeldLease | None]:
    """Holds a lease while the block runs, from a thread that may wait; the block may give it up earlier.

    Raises TurnConflict.
    """
    if needed is None:
        yield None
        return
    lease = HeldLease(*needed, on_lost)
    try:
        lease.taken.result()
        yield lease
    finally:
        ended = lease.give_up()
        if not on_background_loop():
            ended.result()


@contextlib.asynccontextmanager
async def aholding(
    needed: tuple[Journal, str] | None, on_lost: Callable[[], None]
) -> AsyncIterator[HeldLease | None]:
    """The same from an event loop."""
    if needed is None:
        yield None
        return
    lease = HeldLease(*needed, on_lost)
    try:
        await asyncio.shield(asyncio.wrap_future(lease.taken))
        yield lease
    finally:
        await asyncio.shield(asyncio.wrap_future(lease.give_up()))


async def take_lease(parts: TurnParts, visit: Visit) -> HeldLease | None:
    """The lease of a turn inside another graph's run, taken by its first node. Raises TurnConflict.

    Its key holds the namespace, so parallel turns of one parent do not conflict. LangGraph has saved the turn's input
    by then; the lease only makes sure that no model and no tool is called twice.
    """
    configurable = visit.config.get("configurable", {})
    if not configurable.get("thread_id") or any(key in configurable for key in _SERVER_KEYS):
        return None
    lease = HeldLease(parts.journal_of(configurable["__pregel_checkpointer"], None), visit.thread, visit.scope.lose)
    try:
        await asyncio.shield(asyncio.wrap_future(lease.taken))
    except BaseException:
        lease.give_up()
        raise
    return lease
