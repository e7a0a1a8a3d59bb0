"""The process-wide background loop on which sync callers run the one async core."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def _forget() -> None:
    """In a forked child the thread of the loop does not exist, and its lock may be held for ever."""
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def background_loop() -> asyncio.AbstractEventLoop:
    """The loop, started in a daemon thread on first use (and again in a forked child)."""
    global _loop, _thread
    with _lock:
        if _loop is None or _loop.is_closed() or _thread is None or not _thread.is_alive():
            # Not waited for, because the caller may be on an event loop: what is submitted now runs once it runs.
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_loop.run_forever, name="turngraph-loop", daemon=True)
            _thread.start()
        return _loop


def on_background_loop() -> bool:
    """Whether this code runs on the loop, where nothing may wait for it: any garbage may be collected there."""
    return threading.current_thread() is _thread


def submit(coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
    """Starts a coroutine on the background loop, in a copy of the caller's context."""
    loop, context, future = background_loop(), copy_context(), Future[T]()

    def start() -> None:
        task = loop.create_task(coroutine, context=context)
        task.add_done_callback(lambda done: _hand_over(done, future))

    loop.call_soon_threadsafe(start)
    return future


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on the background loop and waits for it. Not for use on that loop itself."""
    return submit(coroutine).result()


def _hand_over(task: "asyncio.Task[T]", future: "Future[T]") -> None:
    if task.cancelled():
        future.cancel()
        future.set_running_or_notify_cancel()
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())
