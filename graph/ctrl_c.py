"""Ctrl-C for a turn that a graph around it runs in a worker thread: only the main thread is ever interrupted."""

import queue
import sys
import threading
from typing import Any

LOOK_SECONDS = 0.2


def _raised_in_main() -> BaseException | None:
    """The Ctrl-C that the main thread is unwinding with now, if it is."""
    active: Any = sys._current_exceptions().get(threading.main_thread().ident or 0)
    error = active[1] if isinstance(active, tuple) else active  # a tuple before Python 3.12
    return error if isinstance(error, KeyboardInterrupt) else None


class Items:
    """A queue whose reader, if it is to `watch`, is interrupted when the main thread is, without being that thread.

    LangGraph runs the nodes of a sync parent in worker threads when it streams, or has several. Ctrl-C makes the main
    thread leave that graph, which waits for its workers first: for ever, if nobody told them. What the main thread was
    unwinding with before this reader came does not count.
    """

    def __init__(self, *, watch: bool) -> None:
        self._watch = watch
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._before = _raised_in_main()

    def put(self, item: Any) -> None:
        self._queue.put(item)

    def get(self) -> Any:
        """The next item, waited for. Raises KeyboardInterrupt."""
        if not self._watch or threading.current_thread() is threading.main_thread():
            return self._queue.get()
        while True:
            try:
                return self._queue.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                raised = _raised_in_main()
                if raised is not None and raised is not self._before:
                    raise KeyboardInterrupt from None
