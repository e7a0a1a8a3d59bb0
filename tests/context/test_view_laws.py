"""The laws of `view`, on any tape and any anchors."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.context.tapes import SMALL, anchor_lists, tapes
from tests.support.strict import assert_valid_history
from turngraph.context import count_tokens, view
from turngraph.context.fold import plan_fold
from turngraph.context.terms import ViewTerms
from turngraph.state.settings import ModelProfile, TurnSettings

profiles = st.builds(
    ModelProfile,
    reasoning_back=st.sampled_from([None, True, False]),
    system_messages=st.sampled_from([None, False]),
    alternate_roles=st.sampled_from([None, True]),
    string_tool_content=st.sampled_from([None, False]),
)
windows = st.sampled_from(
    [SMALL, TurnSettings(context_window=2_000, max_output_tokens=100, protected_turns=0), TurnSettings()]
)
LAWS = settings(max_examples=250, deadline=None)


@LAWS
@given(tapes, anchor_lists, windows, profiles)
def test_any_tape_is_a_valid_history(tape, anchors, given_settings, profile):
    seen = view(tape, anchors, given_settings, profile=profile)
    assert_valid_history(
        seen.messages,
        system=profile.system_messages is not False,
        alternate=bool(profile.alternate_roles),
        string_tool_content=profile.string_tool_content is not False,
    )


@LAWS
@given(tapes, anchor_lists, windows, profiles)
def test_each_message_is_shown_or_left_out_with_a_reason(tape, anchors, given_settings, profile):
    seen = view(tape, anchors, given_settings, profile=profile)
    excluded = {entry["id"] for entry in seen.report["excluded"]}
    assert set(seen.included) | excluded == {message.id for message in tape}
    assert len(seen.included) == len(set(seen.included))
    for entry in seen.report["excluded"]:
        assert (entry["id"] in seen.included) <= (entry["reason"] in ("folded", "shortened"))


@LAWS
@given(tapes, anchor_lists, windows, profiles, st.sampled_from([1.0, 1.7, 0.5]))
def test_the_cuts_reproduce_the_view(tape, anchors, given_settings, profile, calibration):
    first = view(tape, anchors, given_settings, profile=profile, calibration=calibration)
    second = view(tape, [*anchors, *first.new_anchors], given_settings, profile=profile, calibration=calibration)
    assert second.messages == first.messages
    assert second.report == first.report
    assert second.new_anchors == []


@LAWS
@given(tapes, anchor_lists, windows)
def test_sums_hold_and_counts_are_those_of_a_fresh_count(tape, anchors, given_settings):
    seen = view(tape, anchors, given_settings)
    assert seen.report["used"] == sum(seen.report["segments"].values()) == count_tokens(seen.messages)
    assert seen.report["free"] == max(0, seen.report["window"] - seen.report["reserved"] - seen.report["used"])


@LAWS
@given(tapes, anchor_lists, windows)
def test_view_is_pure(tape, anchors, given_settings):
    copies = [message.model_copy(deep=True) for message in tape]
    before = [dict(anchor) for anchor in anchors]
    first, second = view(tape, anchors, given_settings), view(copies, anchors, given_settings)
    assert [dict(anchor) for anchor in anchors] == before
    assert repr(tape) == repr(copies)
    assert repr(first) == repr(second)


@LAWS
@given(tapes, anchor_lists)
def test_a_view_of_a_view_is_itself(tape, anchors):
    once = view(tape, anchors, TurnSettings()).messages
    again = view(once, [], TurnSettings(system_prompt=once[0].text)).messages
    assert [m.content for m in again] == [m.content for m in once]
    assert [getattr(m, "tool_calls", None) for m in again] == [getattr(m, "tool_calls", None) for m in once]


@LAWS
@given(tapes, anchor_lists, windows)
def test_planned_folds_come_to_an_end(tape, anchors, given_settings):
    anchors = list(anchors)
    for _ in range(20):
        planned = plan_fold(tape, anchors, ViewTerms(given_settings))
        if planned is None:
            return
        anchors.append(planned)
    raise AssertionError("folding does not end")
