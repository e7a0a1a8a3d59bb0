"""Planning a compaction, and making its anchor: pure."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.context.tapes import anchor_lists, calls, long_thread, result, tapes, texts_of, turn_anchor, user
from tests.support.strict import assert_valid_history
from turngraph.context import count_tokens, view
from turngraph.context.compact import SUMMARY_TOKENS, make_summary, plan_compaction, summary_request
from turngraph.context.terms import ViewTerms
from turngraph.context.tokens import count_text
from turngraph.state.settings import ModelProfile, TurnSettings

SMALL = TurnSettings(context_window=4_096, max_output_tokens=400)


def same(text: str) -> str:
    return text


@given(
    tapes,
    anchor_lists,
    st.sampled_from([512, 700, 1_500, 4_096]),
    st.sampled_from([0.05, 0.3, 0.8]),
    st.sampled_from([None, 1, 2]),
    st.text(max_size=400),
    st.sampled_from([None, True]),
)
@settings(max_examples=300, deadline=None)
def test_laws(tape, anchors, window, at, keep, written, alternate):
    limits = TurnSettings(context_window=window, max_output_tokens=100, compact_at=at, protected_turns=1)
    profile = ModelProfile(alternate_roles=alternate, system_messages=alternate is None or None)
    plan = plan_compaction(tape, anchors, ViewTerms(limits, profile=profile), keep_turns=keep)
    if plan is None:
        return
    request = summary_request(plan, profile)
    assert_valid_history(request, alternate=bool(alternate), system=profile.system_messages is not False)
    assert count_text(plan.opening) <= plan.cap <= max(200, SUMMARY_TOKENS)
    before = view(tape, anchors, limits, profile=profile)
    anchor = make_summary(plan, written, same)
    assert anchor is None or written.strip()
    if anchor is None:
        return
    after = view(tape, [*anchors, anchor], limits, profile=profile)
    assert_valid_history(after.messages, alternate=bool(alternate))
    if not before.new_anchors and not after.new_anchors:
        assert after.report["used"] < before.report["used"], "a summary made the request larger"
    again = plan_compaction(tape, [*anchors, anchor], ViewTerms(limits, profile=profile), keep_turns=keep)
    if again is not None:
        assert again.before_message_id != plan.before_message_id


def test_nothing_is_planned_below_the_threshold():
    messages, anchors = long_thread(6, 1, 40)
    assert plan_compaction(messages, anchors, ViewTerms(TurnSettings())) is None
    assert plan_compaction([], [], ViewTerms(SMALL)) is None


def test_protected_turns_and_the_running_one_stay():
    messages, anchors = long_thread(5, 1, 400)
    plan = plan_compaction(messages, anchors, ViewTerms(SMALL))
    assert plan is not None
    assert plan.before_message_id in ("u1", "u2")
    assert plan_compaction(messages, anchors, ViewTerms(SMALL.model_copy(update={"protected_turns": 4}))) is None
    one, its = long_thread(1, 8, 400)
    assert plan_compaction(one, its, ViewTerms(SMALL)) is None


def test_the_source_says_who_said_and_did_what():
    tape = [user("u1", "Find the ship."), calls("t1", "a1", ["c1"], text="Let me look.")]
    tape += [result("t1", "c1", "It is the Meridian."), user("u2", "And its port?")]
    anchors = [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")]
    plan = plan_compaction(tape, anchors, ViewTerms(SMALL), keep_turns=1)
    assert plan is None, "too little is gained from so short a turn"
    tape.insert(3, result("t1", "c1", "x"))
    tape[2] = result("t1", "c1", "It is the Meridian. " + "word " * 900)
    plan = plan_compaction(tape, anchors, ViewTerms(SMALL), keep_turns=1)
    assert plan is not None
    for line in (
        "User: Find the ship.",
        "Assistant: Let me look.",
        'called search with {"q": "c1"}',
        "Result of search:",
    ):
        assert line in plan.source
    assert plan.opening == "Find the ship."
    assert "And its port?" not in plan.source


@pytest.mark.parametrize("turns", [8, 60, 400])
def test_the_request_for_a_summary_fits_the_window(turns):
    messages, anchors = long_thread(turns, 2, 150)
    plan = plan_compaction(messages, anchors, ViewTerms(SMALL))
    assert plan is not None
    assert count_tokens(summary_request(plan, ModelProfile())) <= 4_096 - 400 - 204


def test_turns_that_were_dropped_before_are_summarised_with_the_others():
    messages, anchors = long_thread(8, 1, 200)
    seen = view(messages, anchors, SMALL)
    assert [anchor["kind"] for anchor in seen.new_anchors] == ["trim"]
    trimmed = [*anchors, *seen.new_anchors]
    more = [*messages, user("new", "word " * 1_200)]
    plan = plan_compaction(more, [*trimmed, turn_anchor("new", "new")], ViewTerms(SMALL))
    assert plan is not None
    assert "question 0" in plan.source


def test_the_summary_is_redacted_cut_to_size_and_labelled():
    messages, anchors = long_thread(6, 1, 300)
    plan = plan_compaction(messages, anchors, ViewTerms(SMALL))
    assert plan is not None
    anchor = make_summary(
        plan, "The password is hunter2. " + "Then it went on. " * 2_000, lambda t: t.replace("hunter2", "[x]")
    )
    assert anchor is not None
    assert "hunter2" not in anchor["text"]
    assert count_text(anchor["text"]) <= 2 * plan.cap + 60
    seen = view(messages, [*anchors, anchor], SMALL)
    shown = next(text for text in texts_of(seen.messages) if text.startswith("[Summary"))
    assert "Background only" in shown
    assert "question 0" in shown
    assert seen.report["segments"]["summary"] > 0


def test_a_gain_that_is_too_small_is_refused():
    messages, anchors = long_thread(6, 1, 300)
    plan = plan_compaction(messages, anchors, ViewTerms(SMALL))
    assert plan is not None
    small = type(plan)(**{**{f: getattr(plan, f) for f in plan.__slots__}, "freed": plan.least + 20})
    assert make_summary(small, "A summary of some length that is worth nothing.", same) is None
    assert make_summary(plan, " \n", same) is None
