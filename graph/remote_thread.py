"""One thread on a LangGraph server, for a run of a graph in this process: look at it, run on it, stop what runs."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from operator import attrgetter
from typing import Any, TypeVar

import httpx
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from langgraph_sdk.errors import LangGraphError, NotFoundError

from turngraph.graph.remote_steps import Pause, Seen
from turngraph.state.errors import InputError

T = TypeVar("T")
_log = logging.getLogger(__name__)

CREATED_SECONDS = 5.0
"""How long a stop waits for the server to say which run it started."""

Hear = Callable[[tuple[str, ...], str, Any], None]
"""Told every part of a remote stream: namespace, mode, data."""


class RemoteThread:
    """Made for one visit of one node. `sync`: the caller has a sync client only; its calls are made in threads."""

    def __init__(self, remote: RemoteGraph, thread_id: str, *, sync: bool, modes: Sequence[str], hear: Hear) -> None:
        self._client: Any = remote.sync_client if sync else remote.client
        if self._client is None:
            kind = "sync_client" if sync else "client"
            raise InputError(f"This RemoteGraph has no {kind}: give it `url`, or both `client` and `sync_client`.")
        self.stopped = False
        self._remote, self._id, self._sync, self._modes, self._hear = remote, thread_id, sync, list(modes), hear
        self._loop = asyncio.get_running_loop()
        self._running: asyncio.Future[str] | None = None

    async def look(self) -> Seen:
        """What is there. Runs are asked for first: one that ends in between is seen as active, not overlooked."""
        try:
            runs = await self._call("runs.list", self._id, select=["run_id", "status"])
            active = [run["run_id"] for run in runs if run["status"] in ("pending", "running")]
            if active:
                return Seen(active=active[-1])
            state = await self._call("threads.get_state", self._id)
        except NotFoundError:
            return Seen()
        pauses = [Pause(each["id"], each["value"]) for task in state["tasks"] for each in task["interrupts"]]
        values = state["values"] if isinstance(state["values"], dict) else {}
        return Seen(None, values, tuple(pauses), bool(state["next"]) and not pauses)

    async def run(self, input: dict[str, Any] | Command[Any] | None, context: dict[str, Any] | None) -> None:
        """Starts a run and hears it to its end. None goes on where the last run stopped.

        Raises langgraph_sdk's ConflictError when another run is active, and RemoteException when the run fails.
        """
        options: dict[str, Any] = {
            "context": context,
            "stream_mode": self._modes,
            "subgraphs": True,
            "version": "v2",
            "multitask_strategy": "reject",
            "on_disconnect": "continue",
            "on_run_created": lambda made: self._created(made["run_id"]),
        }
        config: Any = {"configurable": {"thread_id": self._id}}

        def hear(part: Any) -> None:
            self._hear(part["ns"], part["type"], part["data"])

        await self._follow(
            lambda: (self._remote.stream if self._sync else self._remote.astream)(input, config, **options), hear
        )

    async def join(self, run_id: str) -> None:
        """Hears what is left of a run that was started before."""

        def hear(part: Any) -> None:
            mode, *namespace = part.event.split("|")
            if mode in self._modes:
                self._hear(tuple(namespace), mode, part.data)

        def start() -> Any:
            self._created(run_id)
            return self._client.runs.join_stream(self._id, run_id)

        with contextlib.suppress(NotFoundError):  # it ended, and was forgotten
            await self._follow(start, hear)

    async def stop(self) -> None:
        """Cancels the run that is heard now: it keeps what it streamed. Nothing is started after that."""
        self.stopped = True
        if self._running is None:
            return
        try:
            run_id = await asyncio.wait_for(asyncio.shield(self._running), CREATED_SECONDS)
            if run_id:
                await self._call("runs.cancel", self._id, run_id, wait=True, action="interrupt")
        except (TimeoutError, LangGraphError, httpx.HTTPError) as error:
            _log.warning("The remote run on thread %s could not be stopped.", self._id, exc_info=error)

    async def _follow(self, start: Callable[[], Any], hear: Callable[[Any], None]) -> None:
        self._running = self._loop.create_future()
        try:
            if self._sync:
                await in_thread(lambda: _each(start(), hear))
            else:
                async for part in start():
                    hear(part)
        finally:
            self._settle("")
            self._running = None

    def _created(self, run_id: str) -> None:
        self._loop.call_soon_threadsafe(self._settle, run_id)

    def _settle(self, run_id: str) -> None:
        if self._running is not None and not self._running.done():
            self._running.set_result(run_id)

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        call = attrgetter(method)(self._client)
        return await (in_thread(lambda: call(*args, **kwargs)) if self._sync else call(*args, **kwargs))


def _each(parts: Any, hear: Callable[[Any], None]) -> None:
    for part in parts:
        hear(part)


async def in_thread(run: Callable[[], T]) -> T:
    """Runs blocking code in a thread of its own: a pool full of waiting runs would leave none for their work."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if not ended.done():
            ended.set_exception(error) if error is not None else ended.set_result(result)

    def work() -> None:
        try:
            loop.call_soon_threadsafe(settle, run(), None)
        except BaseException as error:  # noqa: BLE001 - handed to the caller's task as it is
            loop.call_soon_threadsafe(settle, None, error)

    threading.Thread(target=copy_context().run, args=(work,), name="turngraph-remote", daemon=True).start()
    return await ended
