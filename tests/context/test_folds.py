"""Checkpoints inside a turn, and the automatic fold of old results."""

from typing import Any

import pytest

from tests.context.tapes import calls, result, says, texts_of, turn_anchor, user
from tests.support.strict import assert_valid_history
from turngraph.context import view
from turngraph.context.fold import plan_fold
from turngraph.context.terms import ViewTerms
from turngraph.state.anchors import Anchor, FoldAnchor
from turngraph.state.settings import TurnSettings

S = TurnSettings()
ANSWER = "Yes, delete it, but keep the tests. " * 20


def checkpoint(
    through: str, text: str = "Read 3 files; the bug is in b.py.", call_id: str = "c4", key: str = "f1"
) -> FoldAnchor:
    return {
        "id": key,
        "kind": "fold",
        "turn_id": "t1",
        "through_message_id": through,
        "call_id": call_id,
        "text": text,
        "why": "x",
    }


def working_turn() -> list[Any]:
    """A turn of search, question to the person (with a search beside it), steered message, search, checkpoint."""
    return [
        user("u1", "Fix the bug."),
        calls("t1", "a1", ["c1"], text="Looking."),
        result("t1", "c1", "long search output"),
        calls("t1", "a2", ["c2", "q1"]),
        result("t1", "c2", "other output " * 30),
        result("t1", "q1", ANSWER, role="answer", name="ask_user"),
        user("s1", "Hurry please."),
        calls("t1", "a3", ["c3"]),
        result("t1", "c3", "third output"),
        calls("t1", "a4", ["c4"], name="checkpoint"),
        result("t1", "c4", "saved", name="checkpoint"),
    ]  # fmt: skip


def test_a_checkpoint_stands_for_the_rounds_before_it():
    tape = working_turn()
    note: Anchor = {"id": "n", "kind": "note", "turn_id": "t1", "after_message_id": "r-c1", "text": "Settle soon."}
    seen = view(tape, [turn_anchor("t1", "u1", seed="It is Monday."), note, checkpoint("r-c3")], S)
    shown = texts_of(seen.messages)
    joined = "\n".join(shown)
    assert_valid_history(seen.messages)
    assert "Looking." not in joined
    assert "long search output" not in joined
    assert "third output" not in joined
    assert "Fix the bug." in shown[1]
    assert "It is Monday." in shown[1]
    assert ANSWER in shown
    assert "Hurry please." in shown
    assert "Settle soon." in joined
    block = next(at for at, text in enumerate(shown) if text.startswith("[Context checkpoint]"))
    assert "the bug is in b.py" in shown[block]
    assert "search c1" in shown[block]
    assert "search c3" in shown[block]
    assert [m.type for m in seen.messages[block:]] == ["human", "ai", "tool"]
    folded = {entry["id"] for entry in seen.report["excluded"] if entry["reason"] == "folded"}
    assert folded == {"a1", "r-c1", "r-c2", "a3", "r-c3"}


def test_a_checkpoint_stays_in_later_turns_and_a_second_one_keeps_the_first():
    tape = [
        *working_turn(),
        calls("t1", "a5", ["c5"]),
        result("t1", "c5", "fifth output"),
        calls("t1", "a6", ["c6"]),
        result("t1", "c6", "six"),
    ]
    anchors: list[Anchor] = [turn_anchor("t1", "u1"), checkpoint("r-c3"), checkpoint("r-c5", "Fixed.", "c6", "f2")]
    tape += [says("t1", "end", "Done."), user("u2", "Thanks.")]
    seen = view(tape, [*anchors, turn_anchor("t2", "u2")], S)
    shown = texts_of(seen.messages)
    assert sum(text.startswith("[Context checkpoint]") for text in shown) == 2
    assert "fifth output" not in "\n".join(shown)
    assert shown[-3:] == ["six", "Done.", "Thanks."]
    assert_valid_history(seen.messages)


@pytest.mark.parametrize("through", ["a4", "r-c4", "gone", "", "u1", "r-c1"])
def test_a_checkpoint_never_folds_its_own_batch(through):
    seen = view(working_turn(), [turn_anchor("t1", "u1"), checkpoint(through)], S)
    assert_valid_history(seen.messages)
    assert texts_of(seen.messages)[-1] == "saved"
    assert sum("[Context checkpoint]" in text for text in texts_of(seen.messages)) == 1


@pytest.mark.parametrize("through", ["a2", "r-c2"])
def test_a_checkpoint_never_folds_half_of_a_unit(through):
    seen = view(working_turn(), [turn_anchor("t1", "u1"), checkpoint(through, call_id="")], S)
    assert_valid_history(seen.messages)
    assert {"a1", "r-c1", "r-c2"} == {entry["id"] for entry in seen.report["excluded"]}


def test_a_block_names_a_bounded_number_of_calls():
    tape: list[Any] = [user("u1")]
    for n in range(200):
        tape += [calls("t1", f"a{n}", [f"c{n}"]), result("t1", f"c{n}")]
    anchors: list[Anchor] = [turn_anchor("t1", "u1"), checkpoint("r-c199", call_id="")]
    block = view(tape, anchors, S).messages[-1].text
    assert "c199" in block
    assert "180 earlier ones" in block
    assert len(block) < 1_500


def big_turn(rounds: int, words: int = 200) -> tuple[list[Any], list[Anchor]]:
    tape: list[Any] = [user("u1", "work")]
    for n in range(rounds):
        tape += [calls("t1", f"a{n}", [f"c{n}"]), result("t1", f"c{n}", f"output {n} " + "data " * words)]
    return tape, [turn_anchor("t1", "u1")]


def test_old_results_fold_beyond_fold_at_newest_kept_until_it_fits():
    settings = TurnSettings(context_window=4_000, max_output_tokens=400)
    tape, anchors = big_turn(12)
    planned = plan_fold(tape, anchors, ViewTerms(settings))
    assert planned is not None
    assert planned["turn_id"] == "t1"
    assert planned["message_ids"] == [f"r-c{n}" for n in range(len(planned["message_ids"]))]
    assert "r-c11" not in planned["message_ids"]
    seen = view(tape, [*anchors, planned], settings)
    room = seen.report["window"] - seen.report["reserved"]
    assert seen.report["used"] <= 0.6 * settings.fold_at * room + 200
    assert not seen.new_anchors
    assert 'read_tool_result(call_id="c0")' in seen.messages[3].text
    assert seen.messages[-1].text.startswith("output 11")
    assert {"id": "r-c0", "reason": "folded"} in seen.report["excluded"]
    assert plan_fold(tape, [*anchors, planned], ViewTerms(settings)) is None


def test_nothing_folds_while_there_is_room_or_nothing_old():
    settings = TurnSettings(context_window=4_000, max_output_tokens=400)
    assert plan_fold(*big_turn(3), ViewTerms(settings)) is None
    assert plan_fold(*big_turn(1, 5_000), ViewTerms(settings)) is None
    assert plan_fold([], [], ViewTerms(settings)) is None


def test_a_persons_answer_never_folds():
    settings = TurnSettings(context_window=4_000, max_output_tokens=400)
    tape, anchors = big_turn(10)
    tape[2] = result("t1", "c0", "my answer " + "word " * 200, role="answer")
    planned = plan_fold(tape, anchors, ViewTerms(settings))
    assert planned is not None
    assert "r-c0" not in planned["message_ids"]


def test_folding_a_growing_turn_is_rare_and_ends():
    """Each fold makes room for several rounds, so prompt caches hold between folds."""
    settings = TurnSettings(context_window=8_000, max_output_tokens=800)
    folds, anchors = 0, big_turn(1)[1]
    for rounds in range(1, 60):
        tape, _ = big_turn(rounds)
        planned = plan_fold(tape, anchors, ViewTerms(settings))
        if planned is not None:
            anchors, folds = [*anchors, planned], folds + 1
    assert 3 <= folds <= 12


def test_a_fold_that_would_free_little_is_not_made():
    settings = TurnSettings(context_window=4_000, max_output_tokens=400)
    tape, anchors = big_turn(2, 200)
    long_question = user("u1", "word " * 2_000)
    assert plan_fold([long_question, *tape[1:]], anchors, ViewTerms(settings)) is None
    more, _ = big_turn(6, 200)
    assert plan_fold([long_question, *more[1:]], anchors, ViewTerms(settings)) is not None


def test_a_turn_of_very_many_small_rounds_never_outgrows_the_window():
    """Whole old rounds fold, one block stands for all of them, and the newest stay."""
    settings = TurnSettings(context_window=4_000, max_output_tokens=400)
    tape, anchors, folds = [user("u1", "work")], [turn_anchor("t1", "u1")], 0
    for n in range(400):
        tape += [calls("t1", f"a{n}", [f"c{n}"]), result("t1", f"c{n}", f"small {n}")]
        if n % 10 == 9:
            planned = plan_fold(tape, anchors, ViewTerms(settings))
            if planned is not None:
                anchors, folds = [*anchors, planned], folds + 1
            seen = view(tape, anchors, settings)
            assert seen.new_anchors == []
            assert seen.report["used"] + seen.report["reserved"] <= 4_000
            assert_valid_history(seen.messages)
            assert seen.messages[1].text == "work"
            assert seen.messages[-1].text == f"small {n}"
    blocks = [text for text in texts_of(seen.messages) if text.startswith("[Context checkpoint]")]
    assert len(blocks) == 1
    assert "search" in blocks[0]
    assert 3 <= folds <= 40
    assert len(seen.included) + len(seen.report["excluded"]) == len(tape)


def test_view_folds_rounds_itself_where_nothing_else_makes_room():
    settings = TurnSettings(context_window=2_000, max_output_tokens=200)
    tape: list[Any] = [user("u1", "work")]
    for n in range(100):
        tape += [calls("t1", f"a{n}", [f"c{n}"]), result("t1", f"c{n}", f"small {n}")]
    tape.insert(7, user("s", "Steered."))
    seen = view(tape, [turn_anchor("t1", "u1")], settings)
    assert [anchor["kind"] for anchor in seen.new_anchors] == ["fold"]
    assert seen.report["used"] + seen.report["reserved"] <= 2_000
    assert "Steered." in texts_of(seen.messages)
    again = view(tape, [turn_anchor("t1", "u1"), *seen.new_anchors], settings)
    assert (again.messages, again.new_anchors) == (seen.messages, [])
