"""The routes, on values: what a node decided, and the caller's recursion limit."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from turngraph.graph.routes import (
    route_after_call_llm,
    route_after_dispatch_tools,
    route_after_fold_checkpoint,
    route_after_interrupt,
    within_limit,
)


def state(next_: str | None, **more: Any) -> Any:
    return {"progress": {"next": next_}, **more}


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


NODES = {"tools": 4, "again": 3, "forced": 2, "final": 1}
"""Nodes that run to the end of a turn that goes this way."""


@pytest.mark.parametrize("remaining", range(2, 12))
@pytest.mark.parametrize("decided", ["tools", "again", "forced", "final"])
def test_nothing_starts_that_the_recursion_limit_cannot_finish(decided: Any, remaining: int) -> None:
    way = within_limit(decided, remaining)
    assert NODES[way] <= remaining - 1
    assert way == decided or NODES[decided] > remaining - 1


@pytest.mark.parametrize("decided", ["dispatch", "interrupt", "fold"])
def test_a_pause_is_not_bounded(decided: Any) -> None:
    assert within_limit(decided, 2) == decided


@pytest.mark.parametrize(
    ("message", "target"),
    [
        (AIMessage("", tool_calls=[{"id": "c", "name": "look", "args": {}}]), "dispatch_tools"),
        (AIMessage("Done."), "forced_finish"),
    ],
)
def test_a_message_that_somebody_wrote_in_the_models_name(message: AIMessage, target: str) -> None:
    assert route_after_call_llm(state(None, messages=[message])) == target
