"""Events of the `custom` stream: one emitter per visit, and the batching of deltas."""

import asyncio
import time
from collections.abc import Callable
from contextvars import copy_context
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeAlias

from langgraph.config import get_stream_writer

from turngraph.state.events import Emit, EventType


def emitter(turn_id: str, round_number: int) -> Emit:
    """An emitter of events for one turn and round, bound to the stream writer of the node that runs."""
    write = get_stream_writer()

    def emit(type: EventType, /, **fields: Any) -> None:
        write({"type": type, "turn_id": turn_id, "round": round_number, **fields})

    return emit


class Timer(Protocol):
    """An appointment that can be called off."""

    def cancel(self) -> None: ...


Later: TypeAlias = Callable[[float, Callable[[], None]], Timer]
"""Makes a call after some seconds, in the thread in which deltas come."""


def later_here() -> Later:
    """Timers of the running loop. Calls see the context of the node that asks now: the stream writer reads it."""
    loop, context = asyncio.get_running_loop(), copy_context()
    return lambda seconds, call: loop.call_later(seconds, call, context=context)


class DeltaEvents:
    """Turns deltas into `content` and `thinking` events, at most one per `interval_ms` and kind; the first at once.

    A context manager: what is held is sent at its end, however it ends, and nothing after it. Laws: the joined texts
    of the events equal the joined deltas, in order; with timers (`later`), every delta is sent at the latest one
    interval after it came, whether or not another one follows.
    """

    def __init__(
        self,
        emit: Emit,
        interval_ms: int,
        clock: Callable[[], float] = time.monotonic,
        later: Later | None = None,
    ) -> None:
        self._emit = emit
        self._interval = interval_ms / 1000
        self._clock = clock
        self._later = later
        self._last: float | None = None
        self._kind: Literal["content", "thinking"] = "content"
        self._held: list[str] = []
        self._timer: Timer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.flush()

    def __call__(self, kind: Literal["content", "thinking"], text: str) -> None:
        if not text:
            return
        if kind != self._kind:
            self.flush()
            self._kind = kind
        self._held.append(text)
        waits = 0.0 if self._last is None else self._last + self._interval - self._clock()
        if waits <= 0:
            self._send()
        elif self._timer is None and self._later is not None:
            self._timer = self._later(waits, self._send)

    def flush(self) -> None:
        """Sends what is held, and calls the timer off."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held:
            self._emit(self._kind, text="".join(self._held))
            self._held.clear()

    def _send(self) -> None:
        """Sends what is held as the event of this interval."""
        self.flush()
        self._last = self._clock()
