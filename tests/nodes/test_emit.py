"""Batching of deltas: nothing lost, nothing reordered, the first at once."""

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from turngraph.nodes.emit import DeltaEvents


def batched(deltas: list[tuple[Any, str, int]], interval: int) -> list[tuple[str, str, int]]:
    sent: list[tuple[str, str, int]] = []
    now = 0

    def emit(kind: Any, /, **fields: Any) -> None:
        sent.append((kind, fields["text"], now))

    events = DeltaEvents(emit, interval, clock=lambda: now / 1000)
    for kind, text, later in deltas:
        now += later
        events(kind, text)
    events.flush()
    return sent


deltas = st.lists(st.tuples(st.sampled_from(["content", "thinking"]), st.text(max_size=4), st.integers(0, 50)))


@given(deltas=deltas, interval=st.integers(0, 100))
def test_the_events_join_to_the_deltas_in_order(deltas: list[Any], interval: int) -> None:
    sent = batched(deltas, interval)
    for kind in ("content", "thinking"):
        assert "".join(t for k, t, _ in sent if k == kind) == "".join(t for k, t, _ in deltas if k == kind)
    assert "".join(t for _, t, _ in sent) == "".join(t for _, t, _ in deltas)
    assert all(text for _, text, _ in sent)


def test_no_interval_sends_each_delta_and_the_first_is_never_held() -> None:
    three = [("content", "a", 0), ("content", "b", 1), ("content", "c", 1)]
    assert [t for _, t, _ in batched(three, 0)] == ["a", "b", "c"]
    assert [t for _, t, _ in batched(three, 100)] == ["a", "bc"]


@given(deltas=deltas, interval=st.integers(1, 100))
def test_events_of_one_kind_are_an_interval_apart(deltas: list[Any], interval: int) -> None:
    sent = batched([("content", text, later) for _, text, later in deltas], interval)[:-1]
    times = [at for _, _, at in sent]
    assert all(later - earlier >= interval for earlier, later in itertools.pairwise(times))
