"""Runs one call of one tool, so that whatever the tool does is an outcome of that call and of nothing else."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypeVar

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp, GraphInterrupt, is_invalid_resume
from langgraph.types import Interrupt
from pydantic import ValidationError

from turngraph.state.calls import Call
from turngraph.tools.inject import (
    PauseBook,
    ToolContext,
    call_arguments,
    call_config,
    idempotency_key,
    injections,
    is_nested_answer,
    nested_answer,
)
from turngraph.tools.returned import describe, describe_arguments, read_given
from turngraph.tools.running import STOP_SECONDS, Box, Ended, Raised, Running, start

__all__ = ["STOP_SECONDS", "Failed", "Interrupted", "Ok", "RawToolResult", "ToolContext", "idempotency_key", "run_tool"]


@dataclass(frozen=True)
class Ok:
    """The tool returned: what it returned, as it is."""

    value: Any
    artifact: Any = None
    update: dict[str, Any] = field(default_factory=dict)
    """What a returned Command wants written to the state besides this call's tool message."""


@dataclass(frozen=True)
class Failed:
    """The tool did not return a result. `unknown`: what it had done by then is not known. The text is not redacted."""

    status: Literal["error", "cancelled", "unknown"]
    text: str


@dataclass(frozen=True)
class Interrupted:
    """The tool asked a person by LangGraph's `interrupt()`. Run the call again with `[*resumes, answer(value)]`."""

    value: Any
    response_schema: dict[str, Any] | None = None
    resumes: tuple[Any, ...] = ()
    """The answers so far that hold."""
    interrupts: tuple[Interrupt, ...] = ()
    """The pauses of a graph that the tool runs; empty for the tool's own `interrupt()`."""
    error: str | None = None
    """Why the last answer was refused by the question's `response_schema`; it is not in `resumes`."""

    @property
    def count(self) -> int:
        """How many of the given `resumes` hold; the others are to be removed."""
        return len(self.resumes)

    def answer(self, value: Any) -> Any:
        """The entry to add to `resumes`: the value; for an inner graph the value (or several) by interrupt id."""
        if not self.interrupts:
            return value
        ids = [each.id for each in self.interrupts]
        by_id = isinstance(value, dict) and bool(value) and set(value) <= set(ids)
        return nested_answer(value if by_id else {ids[0]: value})


RawToolResult: TypeAlias = Ok | Failed | Interrupted

E = TypeVar("E", bound=BaseException)


@dataclass(frozen=True)
class _Attempt:
    """One call with everything that its outcome is read from."""

    tool: BaseTool
    call: Call
    resumes: tuple[Any, ...]
    box: Box
    book: PauseBook
    running: Running


async def run_tool(
    tool: BaseTool,
    call: Call,
    *,
    timeout: float | None,
    injected: ToolContext,
    resumes: Sequence[Any] = (),
    on_stopped: Callable[[RawToolResult], None] | None = None,
) -> RawToolResult:
    """Runs the tool with the call's arguments, for at most `timeout` seconds (None: no limit).

    Sync tools run in a daemon thread of their own, async ones in a task of their own. Whatever the tool raises is
    its outcome: also CancelledError, SystemExit, KeyboardInterrupt and exception groups. `resumes` answers the
    tool's `interrupt()` calls in order (entries made by `Interrupted.answer`); the first one without an answer
    gives Interrupted, even where the tool itself catches every Exception.

    Raises CancelledError when it is cancelled from outside, after the tool was stopped (or abandoned, if it does not
    stop in STOP_SECONDS); `on_stopped` is told before how the tool ended. Raises GraphBubbleUp other than interrupts.
    """
    config, book = call_config(injected, call, resumes)
    box = Box()
    try:
        arguments = call_arguments(tool, call, injected, config)
    except Exception as error:  # noqa: BLE001 - a tool whose declaration cannot be served fails alone
        return Failed("error", describe(error))
    request = {"name": call["name"], "args": arguments, "id": call["id"], "type": "tool_call"}
    running = start(tool, request, config, box, injected.key(call["id"]), quiet=injected.quiet)
    attempt = _Attempt(tool, call, tuple(resumes), box, book, running)
    try:
        ended = await running.wait(timeout)
    except asyncio.CancelledError:
        stopped = await running.stop()
        if on_stopped is not None:
            on_stopped(_read_stopped(attempt, stopped))
        raise
    if ended is None:
        return await _overdue(attempt, timeout or 0.0)
    if (refused := _refused_answer(ended)) is None:
        return _read(attempt, ended)
    holding = _holding(attempt)
    if len(holding) == len(resumes):
        return _read(attempt, ended)
    again = await run_tool(tool, call, timeout=timeout, injected=injected, resumes=holding, on_stopped=on_stopped)
    return replace(again, error=refused) if isinstance(again, Interrupted) else again


async def _overdue(attempt: _Attempt, timeout: float) -> RawToolResult:
    """Ends a tool past its time. One that was just about to return, and does so when told to stop, has its result."""
    if not attempt.running.stoppable:
        attempt.running.abandon()
        return Failed("unknown", f"Timed out after {timeout:g} s and could not be stopped; its outcome is unknown.")
    ended = await attempt.running.stop()
    if ended is None:
        return Failed("unknown", f"Timed out after {timeout:g} s and would not stop; its outcome is unknown.")
    if isinstance(ended, Raised) and attempt.book.open is None:
        return Failed("unknown", f"Timed out after {timeout:g} s and was stopped; what it had done by then is unknown.")
    return _read(attempt, ended)


def _read_stopped(attempt: _Attempt, ended: Ended | None) -> RawToolResult:
    """How a tool ended that was stopped because its caller was cancelled."""
    if ended is None:
        return Failed("unknown", "Cancelled, but it could not be stopped; its outcome is unknown.")
    if isinstance(ended, Raised) and isinstance(ended.error, asyncio.CancelledError):
        return Failed("cancelled", "Cancelled while it ran.")
    try:
        return _read(attempt, ended)
    except GraphBubbleUp as error:
        return Failed("cancelled", describe(error))


def _read(attempt: _Attempt, ended: Ended) -> RawToolResult:
    """The outcome of a tool that ended by itself."""
    if (asked := attempt.book.open) is not None:
        return Interrupted(asked.value, asked.response_schema, attempt.resumes)
    if isinstance(ended, Raised):
        return _read_error(attempt, ended.error)
    box, response = attempt.box, ended.response
    if not box.returned and isinstance(response, ToolMessage) and response.status == "error":
        # The tool's own handle_tool_error or handle_validation_error made a message of what it raised.
        return Failed("error", response.text)
    value, artifact = (box.value, None) if box.returned else (response, None)
    if box.returned and attempt.tool.response_format == "content_and_artifact":
        value, artifact = box.value
    try:
        given = read_given(value, artifact, attempt.call)
    except Exception as error:  # noqa: BLE001 - a Command or message that cannot be read fails its own call only
        return Failed("error", f"The tool ran, and what it returned cannot be read: {describe(error)}")
    if given.failed:
        return Failed("error", ToolMessage(given.value, tool_call_id=attempt.call["id"]).text)
    return Ok(given.value, given.artifact, given.update)


def _read_error(attempt: _Attempt, error: BaseException) -> RawToolResult:
    if (pause := _inside(error, GraphInterrupt)) is not None:
        interrupts = _interrupts_of(pause)
        first = interrupts[0]
        own = attempt.book.asked > len(attempt.book.resumes)
        schema = first.response_schema if isinstance(first.response_schema, dict) else None
        return Interrupted(first.value, schema, attempt.resumes, () if own else interrupts)
    if (other := _inside(error, GraphBubbleUp)) is not None:
        raise other
    if isinstance(error, ValidationError) and not attempt.box.entered:
        return Failed("error", describe_arguments(error, attempt.tool, injections(attempt.tool).hidden))
    if isinstance(error, asyncio.CancelledError):
        return Failed("error", "The tool cancelled itself.")
    return Failed("error", describe(error))


def _inside(error: BaseException | None, kind: type[E], seen: frozenset[int] = frozenset()) -> E | None:
    """An error of `kind` in an error: itself, in a group, or as what another error was raised from."""
    if error is None or id(error) in seen:
        return None
    if isinstance(error, kind):
        return error
    seen = seen | {id(error)}
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for each in (*members, error.__cause__, error.__context__):
        if (found := _inside(each, kind, seen)) is not None:
            return found
    return None


def _interrupts_of(pause: GraphInterrupt) -> tuple[Interrupt, ...]:
    """The interrupts that an exception carries; one made of its text where somebody raised it without any."""
    carried = pause.args[0] if pause.args else ()
    if isinstance(carried, Sequence) and carried and all(isinstance(each, Interrupt) for each in carried):
        return tuple(carried)
    return (Interrupt(value=carried if carried else str(pause)),)


def _refused_answer(ended: Ended) -> str | None:
    """Why an answer did not match the `response_schema` of its question; None where none was refused."""
    if isinstance(ended, Raised) and is_invalid_resume(ended.error):
        return describe(ended.error)
    return None


def _holding(attempt: _Attempt) -> tuple[Any, ...]:
    """The answers before the one that was refused."""
    if attempt.resumes and is_nested_answer(attempt.resumes[-1]):
        return attempt.resumes[:-1]
    own = [at for at, entry in enumerate(attempt.resumes) if not is_nested_answer(entry)]
    return attempt.resumes[: own[attempt.book.asked - 1]] if 0 < attempt.book.asked <= len(own) else attempt.resumes
