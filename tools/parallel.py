"""Runs the calls of a batch together: bounded, writes in call order, none harming another, all stopped by a cancel."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Job(Generic[T]):
    """One call that may run now: `run` does everything that belongs to it (claim, run, settle, events)."""

    call_id: str
    run: Callable[[], Awaitable[T]]
    write: bool = False


async def run_many(jobs: Sequence[Job[T]], limit: int, into: dict[str, T] | None = None) -> dict[str, T]:
    """Runs the jobs, at most `limit` at once, and gives their results by call id (`into`, filled as they come).

    Laws: jobs start in the given order; of the `write` jobs one runs at a time, in that order; a job that raises
    does not stop the others, and what it raised is raised when all have ended. When this is cancelled, no further
    job starts, running ones are cancelled and waited for, and `into` holds every result there is before
    CancelledError is raised: a call that is missing in it never started, or gave nothing.
    """
    results = {} if into is None else into
    slots = asyncio.Semaphore(max(1, limit))

    async def one(job: Job[T]) -> None:
        async with slots:
            results[job.call_id] = await job.run()

    turns = _turns(jobs)

    async def in_turn(job: Job[T]) -> None:
        mine, after = turns[job.call_id]
        try:
            await mine.wait()
            await one(job)
        finally:
            after.set()

    tasks = [asyncio.create_task(in_turn(job) if job.write else one(job)) for job in jobs]
    try:
        if tasks:
            await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    failed = [error for task in tasks if (error := task.exception()) is not None]
    if failed:
        raise failed[0]
    return results


def _turns(jobs: Sequence[Job[T]]) -> dict[str, tuple[asyncio.Event, asyncio.Event]]:
    """For each write: what it waits for, and what it sets when it has ended."""
    turns: dict[str, tuple[asyncio.Event, asyncio.Event]] = {}
    mine = asyncio.Event()
    mine.set()
    for job in jobs:
        if job.write:
            after = asyncio.Event()
            turns[job.call_id] = (mine, after)
            mine = after
    return turns
