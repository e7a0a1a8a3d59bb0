"""Events of the `custom` stream: one emitter per visit, and the batching of deltas."""

import time
from collections.abc import Callable
from typing import Any, Literal

from langgraph.config import get_stream_writer

from turngraph.state.events import Emit, EventType


def emitter(turn_id: str, round_number: int) -> Emit:
    """An emitter of events for one turn and round, bound to the stream writer of the node that runs."""
    write = get_stream_writer()

    def emit(type: EventType, /, **fields: Any) -> None:
        write({"type": type, "turn_id": turn_id, "round": round_number, **fields})

    return emit


class DeltaEvents:
    """Turns deltas into `content` and `thinking` events, at most one per `interval_ms` and kind; the first at once.

    Law: the joined texts of the events equal the joined deltas, in order.
    """

    def __init__(self, emit: Emit, interval_ms: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._emit = emit
        self._interval = interval_ms / 1000
        self._clock = clock
        self._last: float | None = None
        self._kind: Literal["content", "thinking"] = "content"
        self._held: list[str] = []

    def __call__(self, kind: Literal["content", "thinking"], text: str) -> None:
        if not text:
            return
        if kind != self._kind:
            self.flush()
            self._kind = kind
        self._held.append(text)
        now = self._clock()
        if self._last is None or now - self._last >= self._interval:
            self.flush()
            self._last = now

    def flush(self) -> None:
        """Sends what is held."""
        if self._held:
            self._emit(self._kind, text="".join(self._held))
            self._held.clear()
