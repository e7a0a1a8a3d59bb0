"""The no-progress guard: circles are seen, progress is not mistaken for one."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngraph.tools.progress_guard import mask, observe


def verdicts(batches: list[list[tuple[str, Any, str]]], polling: tuple[str, ...] = ()) -> list[str]:
    """What the guard says after each batch of (tool, argument, result)."""
    said: list[str] = []
    snapshot: dict[str, Any] = {}
    numbers = itertools.count()
    for batch in batches:
        calls: list[Any] = [{"id": f"c{next(numbers)}", "name": name, "args": {"x": arg}} for name, arg, _ in batch]
        results = {call["id"]: result for call, (_, _, result) in zip(calls, batch, strict=True)}
        before = json.dumps(snapshot)
        new, verdict = observe(snapshot, calls, results, polling)
        assert json.dumps(snapshot) == before
        snapshot = json.loads(json.dumps(new))
        said.append(verdict)
    return said


def one(name: str, result: str = "same", arg: Any = 1) -> list[tuple[str, Any, str]]:
    return [(name, arg, result)]


A, B, C, D, E = (one(name) for name in "abcde")


def test_the_same_batch_is_corrected_the_second_time_and_stopped_the_fourth() -> None:
    assert verdicts([A, A, A, A]) == ["go", "correct", "go", "stop"]


def test_alternating_batches_count_too() -> None:
    assert verdicts([A, B, A, B, A, B, A]) == ["go", "go", "go", "correct", "go", "go", "stop"]
    assert verdicts([A, B, C] * 4)[5] == "correct"
    assert "stop" in verdicts([A, B, C] * 4)
    assert "stop" in verdicts([A, B, C, D] * 4)


def test_a_circle_entered_late_is_seen() -> None:
    assert verdicts([A, B, C, D, D, D, D]) == ["go", "go", "go", "go", "correct", "go", "stop"]


def test_anything_new_starts_the_count_again() -> None:
    assert verdicts([A, A, B, A, A, C, A, A]) == ["go", "correct", "go", "go", "correct", "go", "go", "correct"]
    assert "stop" not in verdicts([A, A, A, B] * 3)[:11]


def test_other_arguments_or_other_results_are_progress() -> None:
    assert set(verdicts([one("a", arg=n) for n in range(10)])) == {"go"}
    assert set(verdicts([one("a", f"{n} % done") for n in range(10)])) == {"go"}
    tests = [batch for n in range(5) for batch in (one("run_tests", "1 failed"), one("edit", f"changed line {n}", n))]
    assert set(verdicts(tests)) == {"go"}


def test_the_order_of_calls_in_a_batch_does_not_matter() -> None:
    assert verdicts([[*A, *B], [*B, *A]]) == ["go", "correct"]


def test_polling_tools_may_repeat_themselves() -> None:
    assert set(verdicts([one("status")] * 8, polling=("status",))) == {"go"}
    assert verdicts([[*one("status", str(n)), *A] for n in range(4)], polling=("status",))[-1] == "stop"
    assert verdicts([A, one("status"), A], polling=("status",)) == ["go", "go", "correct"]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("done at 2024-05-01T10:00:00Z", "done at 2024-05-01T10:00:09.123+02:00"),
        ("took 1.25 s", "took 13 ms"),
        ('{"duration_ms": 12, "rows": []}', '{"duration_ms": 7.5, "rows": []}'),
        ('{"request_id": "req_abc123XYZ"}', '{"request_id": "req_zzz999AAA"}'),
        ('{"timestamp": 1714550000}', '{"timestamp": 1714550009}'),
        ("id 3f2504e0-4f89-11d3-9a0c-0305e82c3301", "id 6fa459ea-ee8a-3ca4-894e-db77e160355e"),
        ("trace 0123456789abcdef0", "trace fedcba98765432100"),
        ("<Foo at 0x7f3a2b1c>", "<Foo at 0x7f3a2b9d>"),
        ("epoch 1714550000.123", "epoch 1714559999.456"),
        ("Wed, 01 May 2024 10:00:00 GMT", "Thu, 02 May 2024 11:11:11 GMT"),
        ('… read_tool_result(call_id="call_1", offset=9)', '… read_tool_result(call_id="xyz", offset=9)'),
    ],
)
def test_what_changes_and_means_nothing_is_masked(left: str, right: str) -> None:
    assert mask(left) == mask(right)
    assert verdicts([one("a", left), one("a", right)])[-1] == "correct"


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("3 files", "4 files"),
        ("45 %", "46 %"),
        ("price 10.50", "price 10.51"),
        ("user 1002", "user 1003"),
        ("line 10", "line 11"),
        ('{"count": 1}', '{"count": 2}'),
        ("version 1.2.3", "version 1.2.4"),
        ("error: no such file a.txt", "error: no such file b.txt"),
    ],
)
def test_what_means_something_is_not_masked(left: str, right: str) -> None:
    assert mask(left) != mask(right)


@given(st.text())
def test_masking_twice_changes_nothing_more(text: str) -> None:
    assert mask(mask(text)) == mask(text)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=40))
def test_it_never_speaks_of_batches_that_do_not_repeat_and_stays_small(batches: Any) -> None:
    said = verdicts(batches)
    for at, verdict in enumerate(said):
        if verdict != "go":
            circles = [
                n
                for n in range(1, 5)
                if at + 1 >= 2 * n and batches[at + 1 - n : at + 1] == batches[at + 1 - 2 * n : at + 1 - n]
            ]
            assert circles
        if at >= 3 and batches[at - 3 : at + 1] == [batches[at]] * 4:
            assert verdict == "stop"
    snapshot: dict[str, Any] = {}
    for number in range(60):
        call: Any = {"id": "c", "name": "a", "args": {"x": number}}
        snapshot, _ = observe(snapshot, [call], {"c": "r" * 10_000}, ())
    assert len(json.dumps(snapshot)) < 1_000


def remembering(batches: list[list[tuple[str, Any, str]]]) -> list[str]:
    """What a guard with a memory of all 16 batches says, counted from the front."""
    said: list[str] = []
    best = 1
    for end in range(1, len(batches) + 1):
        seen = batches[max(0, end - 16) : end]
        before, best = best, 1
        for length in range(1, 5):
            for start in range(len(seen) - 2 * length + 1):
                if all(seen[at] == seen[at + length] for at in range(start, len(seen) - length)):
                    best = max(best, -(-(len(seen) - start) // length))
                    break
        said.append("stop" if best >= 4 else "correct" if best == 2 > before else "go")
    return said


@given(st.lists(st.sampled_from([A, B, C, D, E]), max_size=24) | st.lists(st.sampled_from([A, B]), max_size=24))
@settings(max_examples=300, deadline=None)
def test_what_it_forgets_would_have_changed_nothing(batches: list[list[tuple[str, Any, str]]]) -> None:
    assert verdicts(batches) == remembering(batches)


def test_it_remembers_little_where_nothing_repeats() -> None:
    snapshot: dict[str, Any] = {}
    for number in range(30):
        snapshot, _ = observe(snapshot, [{"id": "c", "name": "a", "args": {"x": number}}], {"c": "same"}, ())
    assert len(snapshot["seen"]) == 4
