"""Asking at a terminal, with the terminal handed in."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.pauses import QUESTIONS, pause
from turngraph.cli.ask import Later, ask, picked
from turngraph.cli.values import UsageError

EDITED = {"type": "edit", "edited_action": {"name": "send_note", "args": {"text": "x"}}}


def typed(*lines: str) -> Callable[[str], str]:
    """A keyboard; the end of its lines is the end of input."""
    waiting = iter(lines)

    def read(prompt: str) -> str:
        try:
            return next(waiting)
        except StopIteration as end:
            raise EOFError from end

    return read


@pytest.mark.parametrize(
    ("lines", "decision"),
    [
        (["y"], {"type": "approve"}),
        (["what", "", "yes"], {"type": "approve"}),
        (["n", "not now"], {"type": "reject", "message": "not now"}),
        (["e", "{", "e", '{"text": "x"}'], EDITED),
        (["r", "I did it"], {"type": "respond", "message": "I did it"}),
        (["a"], {"type": "always", "scope": "call"}),
        (["A"], {"type": "always", "scope": "tool"}),
        (["q"], {"type": "abandon"}),
    ],
)
def test_a_permission_is_asked_until_it_is_answered(lines: list[str], decision: dict[str, Any]) -> None:
    assert ask(pause("permission"), typed(*lines), lambda text: None) == {"decisions": {"call-1": decision}}


def test_questions_take_numbers_labels_and_text() -> None:
    shown: list[str] = []
    value = ask(pause("ask_user", "permission"), typed("2", "because", "y"), shown.append)
    assert value["decisions"] == {
        "call-1": {"type": "respond", "answers": {"city": "Rome", "why": "because"}},
        "call-2": {"type": "approve"},
    }
    assert any("1. Paris - France" in line for line in shown)


def test_abandoning_one_ends_the_asking() -> None:
    value = ask(pause("permission", "permission"), typed("q"), lambda text: None)
    assert value == {"decisions": {"call-1": {"type": "abandon"}}}


def test_the_end_of_input_means_later() -> None:
    with pytest.raises(Later):
        ask(pause("permission"), typed(), lambda text: None)


def test_a_refused_answer_is_told() -> None:
    shown: list[str] = []
    ask(pause("permission", error="stale"), typed("y"), shown.append)
    assert shown[0] == "The last answer was refused: stale"


def test_what_is_picked() -> None:
    city = QUESTIONS[0]
    assert picked(city, "1") == "Paris"
    assert picked(city, "Rome") == "Rome"
    assert picked(city, "Oslo") == "Oslo"
    assert picked(city, " ") == ""
    several = {**city, "multiple": True}
    assert picked(several, "2, 1") == ["Rome", "Paris"]
    with pytest.raises(UsageError, match="1 to 2"):
        picked({**city, "free_text": False}, "3")


def test_a_tools_own_question_is_answered_raw() -> None:
    assert ask({"how": "many"}, typed("7"), lambda text: None) == "7"
