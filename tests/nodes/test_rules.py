"""The turn's decisions on values: no model, no clock, no loop."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngraph.nodes.rules import (
    MAX_CUT_BATCHES,
    AskAgain,
    EmptyTwice,
    EndNow,
    FinishTurn,
    ForceFinish,
    GoOn,
    RoundFacts,
    RunTools,
    decide_fold,
    decide_round,
    spent_budget,
)
from turngraph.state.channels import Progress
from turngraph.state.settings import TurnSettings


def progress(**changes: Any) -> Progress:
    base: dict[str, Any] = {
        "version": 1,
        "turn_id": "t",
        "rounds": 1,
        "tool_calls": 1,
        "seconds": 0.5,
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, "estimated": False},
    }
    return base | changes  # type: ignore[return-value]


def facts(**changes: Any) -> RoundFacts:
    base: dict[str, Any] = {"calls": 0, "cut_calls": 0, "text": "Hello.", "cut": False, "finish": "stop"}
    return RoundFacts(**(base | changes))


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "length", "content_filter", "missing", "other"])
def test_calls_decide_what_a_round_is_and_the_finish_reason_never_does(finish: str) -> None:
    assert isinstance(decide_round(facts(calls=2, finish=finish), progress(), TurnSettings()), RunTools)
    without = decide_round(facts(finish=finish), progress(), TurnSettings())
    assert isinstance(without, FinishTurn)


def test_an_answer_that_a_filter_withheld_in_part_is_not_called_complete() -> None:
    assert decide_round(facts(finish="content_filter"), progress(), TurnSettings()) == FinishTurn("truncated")


def test_calls_that_were_cut_are_counted_as_such() -> None:
    assert decide_round(facts(calls=2, cut_calls=1, cut=True), progress(), TurnSettings()) == RunTools(cut=True)


@pytest.mark.parametrize("text", ["", "   ", "\n\t"])
def test_an_empty_message_is_nudged_once(text: str) -> None:
    assert decide_round(facts(text=text), progress(), TurnSettings()) == AskAgain("empty")
    assert decide_round(facts(text=text), progress(nudges=1), TurnSettings()) == EmptyTwice()


def test_reasoning_only_output_that_was_cut_is_empty_first() -> None:
    assert decide_round(facts(text="", cut=True, finish="length"), progress(), TurnSettings()) == AskAgain("empty")


def test_a_cut_text_is_continued_as_often_as_set() -> None:
    settings = TurnSettings(max_continuations=2)
    cut = facts(cut=True, finish="length")
    assert decide_round(cut, progress(), settings) == AskAgain("cut")
    assert decide_round(cut, progress(continuations=1), settings) == AskAgain("cut")
    assert decide_round(cut, progress(continuations=2), settings) == FinishTurn("truncated")


def test_a_missing_finish_reason_is_continued_once_at_most() -> None:
    cut = facts(cut=True, finish="missing")
    assert decide_round(cut, progress(), TurnSettings()) == AskAgain("cut")
    assert decide_round(cut, progress(continuations=1), TurnSettings()) == FinishTurn("truncated")
    assert decide_round(cut, progress(), TurnSettings(max_continuations=0)) == FinishTurn("truncated")


@pytest.mark.parametrize(
    ("changes", "settings", "spent"),
    [
        ({"rounds": 3}, {"max_rounds": 3}, "max_rounds"),
        ({"rounds": 2}, {"max_rounds": 3}, None),
        ({"tool_calls": 5}, {"max_tool_calls": 5}, "max_tool_calls"),
        ({"tool_calls": 4}, {"max_tool_calls": 5}, None),
        ({}, {"max_tokens": 15}, "max_tokens"),
        ({}, {"max_tokens": 16}, None),
        ({"seconds": 2.0}, {"max_seconds": 2}, "max_seconds"),
        ({"seconds": 1.9}, {"max_seconds": 2}, None),
    ],
)
def test_each_budget_is_spent_at_its_edge(changes: dict[str, Any], settings: dict[str, Any], spent: str | None) -> None:
    assert spent_budget(progress(**changes), TurnSettings(**settings)) == spent


def test_a_capability_raises_the_round_budget() -> None:
    assert spent_budget(progress(rounds=3), TurnSettings(max_rounds=3), min_rounds=5) is None
    assert spent_budget(progress(rounds=5), TurnSettings(max_rounds=3), min_rounds=5) == "max_rounds"


def fold(p: Progress, settings: TurnSettings, **given: Any) -> Any:
    return decide_fold(p, settings, **({"terminated": False, "yields": False, "stuck": False} | given))


def test_what_goes_first_after_a_batch() -> None:
    spent, settings = progress(rounds=9), TurnSettings(max_rounds=9)
    assert fold(spent, settings, terminated=True, yields=True, stuck=True) == EndNow("terminated")
    assert fold(spent, settings, yields=True, stuck=True) == EndNow("pending_input")
    assert fold(spent, settings, stuck=True) == ForceFinish("no_progress")
    assert fold(progress(cut_batches=MAX_CUT_BATCHES + 1), TurnSettings()) == ForceFinish("truncated")
    assert fold(progress(cut_batches=MAX_CUT_BATCHES), TurnSettings()) == GoOn()
    assert fold(spent, settings) == ForceFinish("max_rounds")
    assert fold(progress(), TurnSettings()) == GoOn()


def test_settlement_rounds_are_told_once_and_then_end() -> None:
    settings = TurnSettings(max_rounds=3, settlement_rounds=2)
    assert fold(progress(rounds=2), settings) == GoOn()
    assert fold(progress(rounds=3), settings) == GoOn(settle=2)
    assert fold(progress(rounds=4), settings) == GoOn()
    assert fold(progress(rounds=5), settings) == ForceFinish("max_rounds")


def test_settlement_never_stretches_another_budget() -> None:
    settings = TurnSettings(max_rounds=3, settlement_rounds=2, max_tokens=10)
    assert fold(progress(rounds=3), settings) == ForceFinish("max_tokens")


@given(
    rounds=st.integers(0, 60),
    max_rounds=st.integers(1, 40),
    settlement=st.integers(0, 10),
    least=st.integers(0, 50),
)
def test_the_loop_always_ends(rounds: int, max_rounds: int, settlement: int, least: int) -> None:
    settings = TurnSettings(max_rounds=max_rounds, settlement_rounds=settlement)
    decision = fold(progress(rounds=rounds), settings, min_rounds=least)
    assert isinstance(decision, GoOn) == (rounds < max(max_rounds, least) + settlement)
