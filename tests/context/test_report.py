"""The report in full and as it is stored."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.context.tapes import long_thread
from turngraph.context import view
from turngraph.context.report import strip_for_receipt
from turngraph.state.settings import TurnSettings

reports = st.lists(
    st.fixed_dictionaries({"id": st.uuids().map(str), "reason": st.sampled_from(["folded", "shortened", "empty"])}),
    max_size=30,
).map(lambda excluded: {"used": 3, "segments": {"turn": 3}, "excluded": excluded})


@given(reports)
@settings(max_examples=100, deadline=None)
def test_the_stored_form_has_a_bounded_size_and_true_counts(report):
    short = strip_for_receipt(report)
    assert len(short["excluded"]) <= 6
    assert sum(entry["count"] for entry in short["excluded_counts"].values()) == len(report["excluded"])
    for reason, entry in short["excluded_counts"].items():
        ids = [each["id"] for each in report["excluded"] if each["reason"] == reason]
        assert (entry["count"], entry["first_id"], entry["last_id"]) == (len(ids), ids[0], ids[-1])
        assert [each["id"] for each in short["excluded"] if each["reason"] == reason] == list(
            dict.fromkeys([ids[0], ids[-1]])
        )
    assert strip_for_receipt(short) == short
    assert "excluded_counts" not in report


def test_it_is_small_json_for_a_long_thread():
    messages, anchors = long_thread(400)
    report = view(messages, anchors, TurnSettings(context_window=3_000)).report
    assert len(report["excluded"]) > 1_000
    assert len(json.dumps(strip_for_receipt(report))) < 1_000


def test_defaults_of_the_window():
    report = view([], [], TurnSettings()).report
    assert report["window"] == 32_768
    assert report["reserved"] == 1_639 + 4_096
    assert view([], [], TurnSettings(context_window=1_000)).report["reserved"] == 50 + 500
    assert view([], [], TurnSettings(context_window=1_000, max_output_tokens=10)).report["reserved"] == 60
