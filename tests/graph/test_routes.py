"""The routes, on values: what a node decided, and the caller's recursion limit."""

from typing import Any

import pytest

from turngraph.graph.routes import (
    route_after_call_llm,
    route_after_dispatch_tools,
    route_after_fold_checkpoint,
    route_after_interrupt,
)


def state(next_: str | None, remaining: int = 1_000, **more: Any) -> Any:
    return {"progress": {"next": next_}, "remaining_steps": remaining, **more}


@pytest.mark.parametrize(
    ("next_", "target"),
    [("tools", "dispatch_tools"), ("again", "call_llm"), ("final", "finalize"), ("forced", "forced_finish")],
)
def test_after_call_llm(next_: str, target: str) -> None:
    assert route_after_call_llm(state(next_)) == target


def test_a_tape_edited_during_a_pause_keeps_the_pause() -> None:
    assert route_after_call_llm(state("tools", batch={"waiting": ["c1"]})) == "interrupt"


@pytest.mark.parametrize(("waiting", "target"), [(["c1"], "interrupt"), ([], "fold_checkpoint")])
def test_after_dispatch(waiting: list[str], target: str) -> None:
    assert route_after_dispatch_tools(state("fold", batch={"waiting": waiting})) == target
    assert route_after_dispatch_tools(state("fold", batch=None)) == "fold_checkpoint"


@pytest.mark.parametrize(
    ("next_", "target"),
    [("dispatch", "dispatch_tools"), ("fold", "fold_checkpoint"), ("interrupt", "interrupt"), ("final", "finalize")],
)
def test_after_interrupt(next_: str, target: str) -> None:
    assert route_after_interrupt(state(next_)) == target


@pytest.mark.parametrize(
    ("next_", "target"), [("again", "call_llm"), ("forced", "forced_finish"), ("final", "finalize")]
)
def test_after_fold(next_: str, target: str) -> None:
    assert route_after_fold_checkpoint(state(next_)) == target


COSTS = {"dispatch_tools": 4, "call_llm": 3, "forced_finish": 2, "finalize": 1}


@pytest.mark.parametrize("remaining", range(2, 12))
@pytest.mark.parametrize("route", [route_after_call_llm, route_after_fold_checkpoint])
@pytest.mark.parametrize("next_", ["tools", "again", "forced", "final"])
def test_no_route_starts_what_the_recursion_limit_cannot_finish(route: Any, next_: str, remaining: int) -> None:
    assert COSTS[route(state(next_, remaining))] <= remaining - 1
