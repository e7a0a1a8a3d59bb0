"""B09: an answer that cannot be taken is refused, the question stays, and nothing that ran before runs again."""

import pytest
from langgraph.types import Command, interrupt

from tests.support.scripts import Effects, calls, scripted
from tests.support.turns import check_turn, pause_of, run, thread
from turngraph.graph import ResumeError

AGE = {"question": "How old?", "id": "age", "options": [{"label": "30"}, {"label": "40"}], "free_text": False}


def test_b09_wrong_answers_change_nothing_and_the_right_one_counts_once() -> None:
    effects = Effects()
    graph, model = scripted([calls(("write", {"name": "w"}), ("ask_user", {"questions": [AGE]})), "Thanks."], effects.tools())
    before = pause_of(run(graph, "go", thread())[0])
    for wrong in ("x", "y", 31):
        with pytest.raises(ResumeError, match="options"):
            run(graph, Command(resume=wrong), thread())
        again, events = run(graph, None, thread())
        assert pause_of(again) == before
        assert events == []
    output, _ = run(graph, Command(resume=30), thread())
    assert effects == ["write w"]
    assert model.results == ["wrote w", "30"]
    assert output["receipt"]["interactions"] == 1
    check_turn(output)


def test_b09_a_tool_that_asks_in_a_loop_sees_each_answer_in_order() -> None:
    effects, seen = Effects(), list[str]()

    def ask_age() -> str:
        """Ask until the answer is a number."""
        while True:
            answer = interrupt("How old?")
            seen.append(answer)
            if answer.isdigit():
                return f"age {answer}"

    graph, model = scripted([calls(("write", {"name": "w"}), ("ask_age", {})), "Thanks."], [ask_age, *effects.tools()])
    output, _ = run(graph, "go", thread())
    for answer in ("x", "y", "30"):
        assert output["__interrupt__"][0].value == "How old?"
        output, _ = run(graph, Command(resume=answer), thread())
    assert effects == ["write w"]
    assert model.results == ["wrote w", "age 30"]
    assert seen[-3:] == ["x", "y", "30"]
    check_turn(output)
