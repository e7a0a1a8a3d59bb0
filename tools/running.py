"""One execution of a tool in a thread or a task of its own, which can be told to stop and never leaks an exception."""

import asyncio
import contextlib
import functools
import inspect
import threading
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, Tool

from turngraph.tools.inject import enter_call

STOP_SECONDS = 1.0
"""How long a tool that was told to stop may take before it is abandoned."""


@dataclass(frozen=True)
class Returned:
    """What LangChain's tool gave: a ToolMessage, a Command, or a list of them."""

    response: Any


@dataclass(frozen=True)
class Raised:
    """What the tool raised, whatever it was."""

    error: BaseException


Ended: TypeAlias = Returned | Raised


@dataclass
class Box:
    """What the tool's own code did, before LangChain made text of it."""

    entered: bool = False
    returned: bool = False
    value: Any = None


class _Exit(Exception):
    """A SystemExit or KeyboardInterrupt of an async tool, disguised: as itself it would end the event loop."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


_abandoned: set["asyncio.Future[Any]"] = set()
"""Tasks that would not stop: kept, so that they are not collected halfway."""


class Running:
    """A tool that runs. `future` gives how it ended and never an exception."""

    def __init__(self, future: "asyncio.Future[Ended]", *, stoppable: bool) -> None:
        self.future = future
        self.stoppable = stoppable

    async def wait(self, timeout: float | None) -> Ended | None:
        """How it ended; None if it still runs after `timeout` seconds."""
        done, _ = await asyncio.wait({self.future}, timeout=timeout)
        if not done:
            return None
        return Raised(asyncio.CancelledError()) if self.future.cancelled() else self.future.result()

    async def stop(self) -> Ended | None:
        """Tells the tool to stop, if it can be told, and waits STOP_SECONDS; None if it is abandoned after that."""
        if self.stoppable:
            self.future.cancel()
        ended = await self.wait(STOP_SECONDS)
        if ended is None:
            self.abandon()
        return ended

    def abandon(self) -> None:
        """Leaves the tool alone; what it still gives is dropped."""
        _abandoned.add(self.future)
        self.future.add_done_callback(_abandoned.discard)


def start(tool: BaseTool, request: dict[str, Any], config: RunnableConfig, box: Box, key: str) -> Running:
    """Starts a tool on a full tool call, with the context variables of the caller copied."""
    watched = _watched(tool, box)
    context = copy_context()
    context.run(enter_call, key)
    loop = asyncio.get_running_loop()

    async def in_task() -> Ended:
        try:
            return Returned(await watched.ainvoke(request, config))
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome
            return Raised(error.error if isinstance(error, _Exit) else error)

    if runs_async(tool):
        return Running(loop.create_task(in_task(), context=context), stoppable=True)

    future: asyncio.Future[Ended] = loop.create_future()

    def in_thread() -> None:
        ended: Ended
        try:
            ended = Returned(watched.invoke(request, config))
        except BaseException as error:  # noqa: BLE001 - handed over as it is
            ended = Raised(error)
        with contextlib.suppress(RuntimeError):  # the loop may have ended before an abandoned tool
            loop.call_soon_threadsafe(_hand_over, future, ended)

    name = f"turngraph-tool-{tool.name}"
    threading.Thread(target=context.run, args=(in_thread,), name=name, daemon=True).start()
    return Running(future, stoppable=False)


def _hand_over(future: "asyncio.Future[Ended]", ended: Ended) -> None:
    if not future.done():
        future.set_result(ended)


def runs_async(tool: BaseTool) -> bool:
    """Whether a tool has an async form of its own, and not only LangChain's thread around the sync one."""
    kind = type(tool)
    if isinstance(tool, StructuredTool | Tool):
        own = kind._arun not in (StructuredTool._arun, Tool._arun)
        return tool.coroutine is not None or own
    return kind._arun is not BaseTool._arun or kind.ainvoke is not BaseTool.ainvoke


def _watched(tool: BaseTool, box: Box) -> BaseTool:
    """A copy of the tool that runs the original's own code and notes in `box` what that returned."""
    copied = tool.model_copy()
    run, arun = tool._run, tool._arun

    @functools.wraps(run)
    def noted_run(*args: Any, **kwargs: Any) -> Any:
        box.entered = True
        value = run(*args, **kwargs)
        if inspect.iscoroutine(value):  # a sync function that only hands on an async one
            value = asyncio.run(value)
        box.value, box.returned = value, True
        return value

    @functools.wraps(arun)
    async def noted_arun(*args: Any, **kwargs: Any) -> Any:
        box.entered = True
        try:
            value = await arun(*args, **kwargs)
        except (SystemExit, KeyboardInterrupt) as error:
            raise _Exit(error) from error
        box.value, box.returned = value, True
        return value

    # Set on the instance, past pydantic, so that the original stays the `self` of its own code and keeps its state.
    object.__setattr__(copied, "_run", noted_run)
    object.__setattr__(copied, "_arun", noted_arun)
    return copied
