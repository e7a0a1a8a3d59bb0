"""The compiled turn graph: what happens around LangGraph's loop: admission before, an orderly stop after a cancel."""

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph

from turngraph.graph.admission import Admitted, admit, check_resume, is_nested, is_served, wants_resume
from turngraph.nodes.parts import TurnParts
from turngraph.nodes.scope import RunScope, open_scope
from turngraph.state.channels import TurnInput, TurnOutput, TurnState
from turngraph.state.settings import TurnSettings

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
        """As LangGraph's `stream`. Raises InputError, ResumeError or TurnConflict before anything is changed."""
        admitted = self._admit(input, config, context)
        if wants_resume(admitted) and not is_nested(config):
            admitted = check_resume(admitted, self.get_state(config or {}), strict=not is_served(config))
        kwargs.setdefault("output_keys", self.output_channels)
        yield from _drain(
            lambda: super(TurnGraph, self).stream(admitted.input, config, context=admitted.context, **kwargs)
        )

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, *, context: Any = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """As LangGraph's `astream`. Raises InputError, ResumeError or TurnConflict before anything is changed."""
        admitted = self._admit(input, config, context)
        if wants_resume(admitted) and not is_nested(config):
            admitted = check_resume(admitted, await self.aget_state(config or {}), strict=not is_served(config))
        kwargs.setdefault("output_keys", self.output_channels)
        inner = super().astream(admitted.input, config, context=admitted.context, **kwargs)
        stream = _adrain(inner)
        try:
            async for item in stream:
                yield item
        finally:
            await stream.aclose()

    def _admit(self, input: Any, config: RunnableConfig | None, context: Any) -> Admitted:
        return admit(input, config, self.config, context)


def _drain(start: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """Runs a sync stream in a thread of its own, so that Ctrl-C can stop its nodes and let the turn be closed."""
    items: queue.SimpleQueue[Any] = queue.SimpleQueue()
    scope_of: list[RunScope] = []

    def pump() -> None:
        scope_of.append(open_scope())
        try:
            for item in start():
                items.put(item)
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread as it is
            items.put(_Raised(error))
        finally:
            items.put(_End)

    thread = threading.Thread(target=copy_context().run, args=(pump,), name="turngraph-stream", daemon=True)
    thread.start()
    try:
        while (item := items.get()) is not _End:
            if isinstance(item, _Raised):
                raise item.error
            yield item
    except (KeyboardInterrupt, GeneratorExit):
        if scope_of:
            scope_of[0].cancel()
        thread.join(STOP_SECONDS)
        raise


async def _adrain(stream: AsyncIterator[Any]) -> Any:
    """Runs an async stream in a task of its own, so that a cancel stops its nodes and lets the turn be closed."""
    items: asyncio.Queue[Any] = asyncio.Queue()
    scope_of: list[RunScope] = []

    async def pump() -> None:
        scope_of.append(open_scope())
        try:
            async for item in stream:
                items.put_nowait(item)
        except BaseException as error:  # noqa: BLE001 - handed to the caller's task as it is
            items.put_nowait(_Raised(error))
        finally:
            items.put_nowait(_End)

    task = asyncio.create_task(pump())
    try:
        while (item := await items.get()) is not _End:
            if isinstance(item, _Raised):
                raise item.error
            yield item
    except (asyncio.CancelledError, GeneratorExit):
        if scope_of:
            scope_of[0].cancel()
        else:
            task.cancel()
        _, late = await asyncio.wait({task}, timeout=STOP_SECONDS)
        for left in late:
            left.cancel()
        raise
