"""The compiled turn graph: what happens around LangGraph's loop: admission before, an orderly stop after a cancel."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel

from turngraph.graph.admission import (
    Admitted,
    admit,
    check_resume,
    configurable_of,
    is_nested,
    is_served,
    load_models,
    refuse_own_loop,
    takes_messages,
    unloaded_models,
    wants_resume,
    with_unstarted,
)
from turngraph.graph.ctrl_c import Items
from turngraph.graph.lease import aholding, holding, leased_thread
from turngraph.graph.loop import on_background_loop, run_sync
from turngraph.nodes.parts import TurnParts
from turngraph.nodes.scope import RunScope, enter_scope, new_scope
from turngraph.state.channels import TurnInput, TurnOutput, TurnState
from turngraph.state.settings import TurnSettings
from turngraph.tools.journal import Journal

STOP_SECONDS = 10.0
"""How long a cancelled run may take to close its turn before it is stopped where it stands."""


@dataclass(frozen=True)
class _Raised:
    error: BaseException


class _End:
    """Marks the end of a stream in the hand-over queue."""


class TurnGraph(CompiledStateGraph[TurnState, TurnSettings, TurnInput, TurnOutput]):
    """A compiled turn. Everything that LangGraph's graphs do, and: bad input and answers are refused before anything
    is saved; a cancelled run (task cancel, Ctrl-C, a client that went away) still closes its turn; and streams show
    the output's keys only, unless `output_keys` asks for more.
    """

    def __init__(self, *, parts: TurnParts, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parts = parts

    def stream(
        self, input: Any, config: RunnableConfig | None = None, *, context: Any = None, **kwargs: Any
    ) -> Iterator[Any]:
        """As LangGraph's `stream`. Raises a TurnError (InputError, ModelLoadError, ResumeError, TurnConflict) before
        anything is changed."""
        refuse_own_loop(self.checkpointer)
        admitted, scope, needed = self._open(input, config, context)
        if (names := unloaded_models(self.parts, admitted, config)):
            run_sync(load_models(names))
        kwargs.setdefault("output_keys", self.output_channels)
        with holding(needed, scope.lose) as scope.held:
            if wants_resume(admitted) and not is_nested(config):
                admitted = check_resume(
                    admitted, self.get_state(config or {}), self.parts.tool_names, strict=not is_served(config)
                )
            elif needed is not None and takes_messages(admitted, config):
                admitted = with_unstarted(admitted, self._saver.get_tuple(self._thread(config)))

            def start() -> Iterator[Any]:
                return super(TurnGraph, self).stream(admitted.input, config, context=admitted.context, **kwargs)

            yield from _drain(start, scope, nested=is_nested(config))

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, *, context: Any = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """As LangGraph's `astream`. Raises a TurnError (InputError, ModelLoadError, ResumeError, TurnConflict) before
        anything is changed."""
        admitted, scope, needed = self._open(input, config, context)
        await load_models(unloaded_models(self.parts, admitted, config))
        kwargs.setdefault("output_keys", self.output_channels)
        async with aholding(needed, scope.lose) as scope.held:
            if wants_resume(admitted) and not is_nested(config):
                admitted = check_resume(
                    admitted, await self.aget_state(config or {}), self.parts.tool_names, strict=not is_served(config)
                )
            elif needed is not None and takes_messages(admitted, config):
                admitted = with_unstarted(admitted, await self._saver.aget_tuple(self._thread(config)))
            inner = super().astream(admitted.input, config, context=admitted.context, **kwargs)
            stream = _adrain(inner, scope, gives_in=_is_node_task(config))
            try:
                async for item in stream:
                    yield item
            finally:
                await stream.aclose()

    def _open(
        self, input: Any, config: RunnableConfig | None, context: Any
    ) -> tuple[Admitted, RunScope, tuple[Journal, str] | None]:
        """What was admitted, the scope of the run, and the lease that it needs."""
        admitted, scope = admit(input, config, self.config, context), new_scope()
        scope.values_at, scope.checkpoint_at, scope.write_at = self._values_at, _checkpoint_at, _write_at
        if is_nested(config):
            scope.nested = not scope.leased
            return admitted, scope, None
        needed = leased_thread(self, config)
        scope.leased = needed is not None
        return admitted, scope, needed

    @property
    def _saver(self) -> BaseCheckpointSaver[Any]:
        """The checkpointer of a graph whose runs need a lease."""
        return cast(BaseCheckpointSaver[Any], self.checkpointer)

    def _thread(self, config: RunnableConfig | None) -> RunnableConfig:
        """The config that names the newest checkpoint of the thread of a run."""
        given = {**(self.config or {}).get("configurable", {}), **configurable_of(config)}
        return {"configurable": {"thread_id": str(given["thread_id"]), "checkpoint_ns": ""}}

    async def _values_at(self, config: RunnableConfig) -> Mapping[str, Any]:
        snapshot = await _outside(self.aget_state, self.get_state, config)
        return dict(snapshot.values)


async def _checkpoint_at(config: RunnableConfig) -> CheckpointTuple | None:
    saver = config["configurable"]["__pregel_checkpointer"]
    found: CheckpointTuple | None = await _outside(saver.aget_tuple, saver.get_tuple, config)
    return found


async def _write_at(config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str) -> None:
    saver = config["configurable"]["__pregel_checkpointer"]
    await _outside(
        lambda at: saver.aput_writes(at, writes, task_id), lambda at: saver.put_writes(at, writes, task_id), config
    )


async def _outside(read: Callable[[Any], Any], read_sync: Callable[[Any], Any], config: RunnableConfig) -> Any:
    """Reads outside the context of the node that asks; with the sync form where the run or its saver is sync."""
    loop, outside = asyncio.get_running_loop(), Context()
    if not on_background_loop():
        try:
            return await loop.create_task(read(config), context=outside)
        except NotImplementedError:
            pass
    return await loop.run_in_executor(None, outside.run, read_sync, config)


def _drain(start: Callable[[], Iterator[Any]], scope: RunScope, *, nested: bool) -> Iterator[Any]:
    """Runs a sync stream in a thread of its own, so that Ctrl-C can stop its nodes and let the turn be closed."""
    items = Items(watch=nested)

    def pump() -> None:
        enter_scope(scope)
        last: Any = _End
        try:
            for item in start():
                items.put(item)
            run_sync(scope.saved())
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread as it is
            last = _Raised(error)
        finally:
            if scope.held is not None:  # before the caller goes on: its next run may come at once
                scope.held.give_up().result()
            items.put(last)

    thread = threading.Thread(target=copy_context().run, args=(pump,), name="turngraph-stream", daemon=True)
    thread.start()
    try:
        while (item := items.get()) is not _End:
            if isinstance(item, _Raised):
                raise item.error
            yield item
    except (KeyboardInterrupt, GeneratorExit):
        scope.cancel()
        if not on_background_loop():
            thread.join(STOP_SECONDS)
        raise


def _is_node_task(config: RunnableConfig | None) -> bool:
    """Whether LangGraph runs this graph as a node of another one, with nobody's code in between.

    A node that is cancelled and still returns has its update saved by LangGraph, in the library and on the server:
    the only way in which the text of a cancelled turn can reach the state of a parent that is cancelled with it.
    """
    if "__pregel_read" not in (config or {}).get("configurable", {}):
        return False
    task = asyncio.current_task()
    return task is not None and getattr(task.get_coro(), "cr_code", None) is Pregel.ainvoke.__code__


async def _adrain(stream: AsyncIterator[Any], scope: RunScope, *, gives_in: bool) -> Any:
    """Runs an async stream in a task of its own, so that a cancel stops its nodes and lets the turn be closed.

    After that the cancel goes on; where the run `gives_in`, its output does.
    """
    items: asyncio.Queue[Any] = asyncio.Queue()

    async def pump() -> None:
        enter_scope(scope)
        last: Any = _End
        try:
            async for item in stream:
                items.put_nowait(item)
            await scope.saved()
        except BaseException as error:  # noqa: BLE001 - handed to the caller's task as it is
            last = _Raised(error)
        finally:
            if scope.held is not None:  # before the caller goes on: its next run may come at once
                await asyncio.shield(asyncio.wrap_future(scope.held.give_up()))
            items.put_nowait(last)

    task = asyncio.create_task(pump())
    try:
        while (item := await items.get()) is not _End:
            if isinstance(item, _Raised):
                raise item.error
            yield item
    except (asyncio.CancelledError, GeneratorExit) as stop:
        scope.cancel()
        if not await _ended(task, patient=gives_in):
            task.cancel()
            raise
        if not gives_in or isinstance(stop, GeneratorExit):
            raise
    else:
        return
    while (item := items.get_nowait()) is not _End:
        if isinstance(item, _Raised):
            raise item.error
        yield item


async def _ended(task: "asyncio.Task[None]", *, patient: bool) -> bool:
    """Waits until a cancelled run has closed its turn, for STOP_SECONDS at most; `patient` outlasts further cancels."""
    until = time.monotonic() + STOP_SECONDS
    while not task.done() and (left := until - time.monotonic()) > 0:
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError:
            if not patient:
                raise
    return task.done()
