"""Batching of deltas: nothing lost, nothing reordered, the first at once, none later than an interval after it came."""

import asyncio
import itertools
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngraph.nodes.emit import DeltaEvents, later_here


@dataclass
class Appointment:
    at: int
    call: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Clock:
    """Time that only moves when it is told to, in milliseconds, and the calls that were asked for."""

    now: int = 0
    made: list[Appointment] = field(default_factory=list)
    sent: list[tuple[str, str, int]] = field(default_factory=list)

    def later(self, seconds: float, call: Callable[[], None]) -> Appointment:
        self.made.append(Appointment(self.now + round(seconds * 1000), call))
        return self.made[-1]

    def emit(self, kind: Any, /, **fields: Any) -> None:
        self.sent.append((kind, fields["text"], self.now))

    @property
    def open(self) -> list[Appointment]:
        return sorted((each for each in self.made if not each.cancelled), key=lambda each: each.at)

    def forward(self, milliseconds: int) -> None:
        end = self.now + milliseconds
        while (due := self.open) and due[0].at <= end:
            self.now = due[0].at
            self.made.remove(due[0])
            due[0].call()
        self.now = end

    def events(self, interval: int, *, timers: bool = True) -> DeltaEvents:
        return DeltaEvents(self.emit, interval, lambda: self.now / 1000, self.later if timers else None)


def batched(deltas: list[tuple[Any, str, int]], interval: int, *, timers: bool = True) -> list[tuple[str, str, int]]:
    clock = Clock()
    with clock.events(interval, timers=timers) as events:
        for kind, text, later in deltas:
            clock.forward(later)
            events(kind, text)
    assert not clock.open, "an event could still come after the end"
    return clock.sent


deltas = st.lists(st.tuples(st.sampled_from(["content", "thinking"]), st.text(max_size=4), st.integers(0, 50)))


@given(deltas=deltas, interval=st.integers(0, 100), timers=st.booleans())
def test_the_events_join_to_the_deltas_in_order(deltas: list[Any], interval: int, timers: bool) -> None:
    sent = batched(deltas, interval, timers=timers)
    for kind in ("content", "thinking"):
        assert "".join(t for k, t, _ in sent if k == kind) == "".join(t for k, t, _ in deltas if k == kind)
    assert "".join(t for _, t, _ in sent) == "".join(t for _, t, _ in deltas)
    assert all(text for _, text, _ in sent)


def test_no_interval_sends_each_delta_and_the_first_is_never_held() -> None:
    three = [("content", "a", 0), ("content", "b", 1), ("content", "c", 1)]
    assert [t for _, t, _ in batched(three, 0)] == ["a", "b", "c"]
    assert [t for _, t, _ in batched(three, 100)] == ["a", "bc"]


@given(deltas=deltas, interval=st.integers(1, 100), timers=st.booleans())
def test_events_of_one_kind_are_an_interval_apart(deltas: list[Any], interval: int, timers: bool) -> None:
    sent = batched([("content", text, later) for _, text, later in deltas], interval, timers=timers)[:-1]
    times = [at for _, _, at in sent]
    assert all(later - earlier >= interval for earlier, later in itertools.pairwise(times))


@given(deltas=deltas, interval=st.integers(0, 100))
def test_no_delta_waits_longer_than_an_interval(deltas: list[Any], interval: int) -> None:
    clock = Clock()
    came: list[int] = []
    with clock.events(interval) as events:
        for kind, text, later in deltas:
            clock.forward(later)
            came += [clock.now] * len(text)
            events(kind, text)
        clock.forward(interval)
        stalled = list(clock.sent)
        clock.forward(10_000)
    assert clock.sent == stalled, "something was still held an interval after the last delta"
    sent = [at for _, text, at in clock.sent for _ in text]
    assert len(sent) == len(came)
    assert all(0 <= then - when <= interval for when, then in zip(came, sent, strict=True))


def test_a_stall_is_shown_once_and_its_event_counts_for_the_pace() -> None:
    clock = Clock()
    with clock.events(100) as events:
        events("content", "a")
        clock.forward(10)
        events("content", "b")
        clock.forward(1)
        events("content", "c")
        clock.forward(500)
        assert clock.sent == [("content", "a", 0), ("content", "bc", 100)]
        events("content", "d")
        clock.forward(1)
        events("content", "e")
        clock.forward(99)
        events("content", "f")
    assert clock.sent[2:] == [("content", "d", 511), ("content", "e", 611), ("content", "f", 611)]


@pytest.mark.parametrize("ending", [None, ValueError("no"), asyncio.CancelledError()])
def test_what_is_held_is_sent_at_the_end_whatever_the_end(ending: BaseException | None) -> None:
    clock = Clock()
    try:
        with clock.events(100) as events:
            events("content", "a")
            events("content", "b")
            if ending is not None:
                raise ending
    except (ValueError, asyncio.CancelledError) as error:
        assert error is ending  # noqa: PT017
    clock.forward(1_000)
    assert clock.sent == [("content", "a", 0), ("content", "b", 0)]


async def test_the_loop_sends_what_is_held_in_the_context_in_which_the_timers_were_made() -> None:
    where: ContextVar[str] = ContextVar("where", default="nowhere")
    sent: list[tuple[str, str]] = []
    shown = asyncio.Event()

    def emit(kind: Any, /, **fields: Any) -> None:
        sent.append((fields["text"], where.get()))
        if len(sent) > 1:
            shown.set()

    where.set("node")
    later = later_here()
    with DeltaEvents(emit, 20, later=later) as events:
        where.set("model")
        events("content", "a")
        events("content", "b")
        async with asyncio.timeout(20):
            await shown.wait()
        assert sent == [("a", "model"), ("b", "node")]
    assert len(sent) == 2
