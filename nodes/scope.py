"""Stopping a run from outside: the tasks of the nodes that can be cut short, reachable from the shell."""

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple


@dataclass(eq=False)
class RunScope:
    """One run of a graph: whether it was cancelled, and the node task that works now.

    A node that can be cut short catches the cancellation and returns what it has; the others are quick and are
    left to finish, so that every cancelled turn still reaches `finalize`.
    """

    cancelled: bool = False
    visits: int = 0
    """Nodes entered so far; a run that continues another one enters its first node with 1."""
    continued: bool = True
    """Whether the turn was begun by another run, and this one has not yet caught up with what the journal knows."""
    claimed: frozenset[str] = frozenset()
    """The ids of calls that other runs of the turn made: a checkpoint may hold none of them."""
    leased: bool = False
    """Whether this run, or the one that it is part of, holds the lease of its thread."""
    nested: bool = False
    """Whether this run is part of one that holds none: its first node takes a lease of its own."""
    held: Any = None
    """The lease of this run: its shell took it, or its first node. Given up as soon as the run has ended or paused."""
    lost: bool = False
    """Whether another runner took the lease over: this run may not write any more."""
    values_at: Callable[[RunnableConfig], Awaitable[Mapping[str, Any]]] | None = None
    """Reads the state that this graph saved in another place of a thread; the config names the checkpointer, too."""
    checkpoint_at: Callable[[RunnableConfig], Awaitable[CheckpointTuple | None]] | None = None
    """Reads a checkpoint of the graph around this one; without an id in the config the newest."""
    write_at: Callable[[RunnableConfig, Sequence[tuple[str, Any]], str], Awaitable[None]] | None = None
    """Saves pending writes of a task beside a checkpoint; the config names it, and the checkpointer."""
    when_saved: list[Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=list)
    """What is to be done once everything that the run wrote is saved."""
    _inner: "weakref.WeakSet[RunScope]" = field(default_factory=weakref.WeakSet)
    _tasks: dict[asyncio.Task[Any], asyncio.AbstractEventLoop] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, task: asyncio.Task[Any]) -> None:
        """Registers the task of a node that can be cut short."""
        with self._lock:
            self._tasks[task] = task.get_loop()
            stop = self.cancelled
        if stop:
            task.cancel()

    def leave(self, task: asyncio.Task[Any]) -> None:
        with self._lock:
            self._tasks.pop(task, None)

    def contain(self, inner: "RunScope") -> None:
        """Registers a run inside this one, which is cancelled with it."""
        with self._lock:
            self._inner.add(inner)
            stop = self.cancelled
        if stop:
            inner.cancel()

    def cancel(self) -> None:
        """Marks the run cancelled and cancels what works now, inner runs first; may be called from any thread."""
        with self._lock:
            self.cancelled = True
            tasks, inner = list(self._tasks.items()), list(self._inner)
        for scope in inner:
            scope.cancel()
        for task, loop in tasks:
            loop.call_soon_threadsafe(task.cancel)

    async def saved(self) -> None:
        """The run has ended and its checkpoints are saved."""
        while self.when_saved:
            await self.when_saved.pop(0)()

    def lose(self) -> None:
        """The lease is gone: stops the run like a cancel, and nothing of it is written."""
        self.lost = True
        self.cancel()


_scope: ContextVar[RunScope | None] = ContextVar("turngraph_run_scope", default=None)


def current_scope() -> RunScope:
    """The scope of the run that this code is part of; a fresh one where no shell opened any (a subgraph)."""
    scope = _scope.get()
    return scope if scope is not None else RunScope()


def new_scope() -> RunScope:
    """The scope of a run that is about to start. Inside a run that holds a lease it is part of that one."""
    outer = _scope.get()
    scope = RunScope(leased=outer is not None and outer.leased)
    if outer is not None:
        outer.contain(scope)
    return scope


def enter_scope(scope: RunScope) -> None:
    """Makes this the scope of the current context."""
    _scope.set(scope)
