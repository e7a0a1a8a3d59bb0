"""One execution of a tool in a thread or a task of its own, which can be told to stop and never leaks an exception."""

import asyncio
import contextlib
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool, StructuredTool, Tool

from turngraph.tools.inject import enter_call
from turngraph.tools.redact import hushed

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


def start(
    tool: BaseTool, request: dict[str, Any], config: RunnableConfig, box: Box, key: str, *, quiet: bool = False
) -> Running:
    """Starts a tool on a full tool call, with the context variables of the caller copied.

    `quiet`: no callback handler watches the run, so a plain function is called without LangChain's ceremony for them.
    """
    watched = _watched(tool)
    context = copy_context()
    context.run(enter_call, key)
    context.run(_box.set, box)
    direct = quiet and watched.direct
    if direct:
        context.run(var_child_runnable_config.set, config)
    loop = asyncio.get_running_loop()

    async def in_task() -> Ended:
        try:
            if direct:
                args, kwargs = tool._to_args_and_kwargs(request["args"], request["id"])
                return Returned(await watched.copy._arun(*args, **kwargs))
            return Returned(await watched.copy.ainvoke(request, config))
        except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome
            return Raised(error.error if isinstance(error, _Exit) else error)

    if runs_async(tool):
        return Running(loop.create_task(in_task(), context=context), stoppable=True)

    future: asyncio.Future[Ended] = loop.create_future()

    def in_thread() -> None:
        ended: Ended
        try:
            if direct:
                args, kwargs = tool._to_args_and_kwargs(request["args"], request["id"])
                ended = Returned(watched.copy._run(*args, **kwargs))
            else:
                ended = Returned(watched.copy.invoke(request, config))
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


_box: ContextVar[Box] = ContextVar("turngraph_tool_box")
"""The box of the call that the current context works for."""

_COPY = "_turngraph_watched"


@dataclass(frozen=True)
class _Watched:
    """The watched copy of a tool, and the fields that it was made from."""

    fields: dict[str, Any]
    copy: BaseTool
    direct: bool
    """Whether `copy._run` and `copy._arun` may be called with nothing but the arguments."""


def _watched(tool: BaseTool) -> _Watched:
    """A copy of the tool that runs the original's own code and notes in the call's box what that returned.

    One copy, kept with the tool, serves all its calls while the tool stays as it is: LangChain reads the signatures
    and schemas of every new copy again, which costs more than the rest of a call.
    """
    fields = {name: tool.__dict__.get(name) for name in type(tool).model_fields}
    known: _Watched | None = tool.__dict__.get(_COPY)
    if known is not None and all(known.fields[name] is value for name, value in fields.items()):
        return known
    direct = _is_plain(tool)
    made = _Watched(fields, _watch(tool, direct), direct)
    object.__setattr__(tool, _COPY, made)
    return made


def _is_plain(tool: BaseTool) -> bool:
    """Whether a tool is a function and nothing besides: no callbacks or config to hand in, no handling of its own."""
    if type(tool) is not StructuredTool or tool.response_format != "content" or tool.callbacks:
        return False
    if tool.handle_tool_error or tool.handle_validation_error or tool.verbose:
        return False
    taken = inspect.signature(tool.coroutine or tool.func or _is_plain).parameters.values()
    return not any(
        each.name in ("callbacks", "run_manager", "config") or "RunnableConfig" in str(each.annotation)
        for each in taken
    )


def _watch(tool: BaseTool, direct: bool) -> BaseTool:
    """The copy; a direct one calls the function itself, which takes no config."""
    copied = tool.model_copy()
    copied.__dict__.pop(_COPY, None)
    run: Callable[..., Any] = tool._run
    arun: Callable[..., Awaitable[Any]] = tool._arun
    if direct and isinstance(tool, StructuredTool):
        run, arun = tool.func or run, tool.coroutine or arun

    @functools.wraps(run)
    def noted_run(*args: Any, **kwargs: Any) -> Any:
        box = _box.get()
        box.entered = True
        with hushed():
            value = run(*args, **kwargs)
            if inspect.iscoroutine(value):  # a sync function that only hands on an async one
                value = asyncio.run(value)
        box.value, box.returned = value, True
        return value

    @functools.wraps(arun)
    async def noted_arun(*args: Any, **kwargs: Any) -> Any:
        box = _box.get()
        box.entered = True
        try:
            with hushed():
                value = await arun(*args, **kwargs)
        except (SystemExit, KeyboardInterrupt) as error:
            raise _Exit(error) from error
        box.value, box.returned = value, True
        return value

    # Set on the instance, past pydantic, so that the original stays the `self` of its own code and keeps its state.
    object.__setattr__(copied, "_run", noted_run)
    object.__setattr__(copied, "_arun", noted_arun)
    return copied
