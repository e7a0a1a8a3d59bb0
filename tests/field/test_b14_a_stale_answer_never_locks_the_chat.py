"""B14: a stale or unknown answer is an error that changes nothing, and a plain message always goes through."""

from typing import Any

import pytest
from langgraph.types import Command

from tests.support.scripts import Effects, calls, scripted
from tests.support.turns import check_turn, pause_of, run, thread
from turngraph.graph import ResumeError

QUESTION = calls(("ask_user", {"questions": [{"question": "Which?", "id": "which"}]}))


@pytest.mark.parametrize(
    "stale",
    [
        {"decisions": [{"type": "respond", "answers": {"other": "x"}}]},
        {"decisions": {"call_of_yesterday": {"type": "respond", "message": "x"}}},
        {"decisions": [{"type": "respond", "message": "x", "digest": "0" * 64}]},
        {"decisions": [{"type": "respond", "message": "x"}], "turn_id": "of yesterday"},
        {"0123456789abcdef0123456789abcdef": "x"},
        {"decisions": [{"type": "approve"}]},
    ],
)
def test_b14_then_a_plain_message(stale: Any) -> None:
    graph, model = scripted([QUESTION, "All right."], Effects().tools())
    before = pause_of(run(graph, "go", thread())[0])
    for _ in range(2):
        with pytest.raises(ResumeError):
            run(graph, Command(resume=stale), thread())
    assert pause_of(run(graph, None, thread())[0]) == before
    output, _ = run(graph, "something else", thread())
    assert output["answer"] == "All right."
    model.assert_strict()
    check_turn(output)


def test_b14_an_answer_to_the_pause_before_is_not_taken_for_this_one() -> None:
    graph, _ = scripted([QUESTION, QUESTION, "Done."], Effects().tools())
    first = pause_of(run(graph, "go", thread())[0])["turngraph"]["requests"][0]["call_id"]
    answer = Command(resume={"decisions": {first: {"type": "respond", "message": "one"}}})
    pause_of(run(graph, answer, thread())[0])
    with pytest.raises(ResumeError):
        run(graph, answer, thread())
