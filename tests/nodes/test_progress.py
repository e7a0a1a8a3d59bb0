"""Progress as it is stored: small, and nothing lost."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from turngraph.nodes.progress import DEFAULTS, lean, whole

edges = st.fixed_dictionaries(
    {"count": st.integers(1, 3), "first_id": st.just("first"), "last_id": st.sampled_from(["first", "last"])}
)
reports = st.fixed_dictionaries(
    {},
    optional={
        "window": st.just(4_096),
        "reserved": st.integers(0, 2_000),
        "used": st.integers(0, 30),
        "free": st.integers(0, 4_096),
        "segments": st.dictionaries(st.sampled_from(["system", "turn"]), st.integers(0, 3_000)),
        "excluded": st.lists(st.just({"id": "first", "reason": "folded"}), max_size=2),
        "excluded_counts": st.dictionaries(st.sampled_from(["folded", "shortened"]), edges),
    },
)
fields = st.fixed_dictionaries(
    {"turn_id": st.just("t")},
    optional={
        "rounds": st.integers(0, 3),
        "nudges": st.integers(0, 2),
        "phase": st.sampled_from(["running", "closed"]),
        "skills": st.lists(st.just("poet"), max_size=1),
        "calibration": st.sampled_from([1.0, 1.5]),
        "reason": st.just("finish"),
        "usage": st.sampled_from(
            [
                DEFAULTS["usage"],
                {"input_tokens": 1, "output_tokens": 0, "total_tokens": 1},
                {"input_tokens": 3, "output_tokens": 2, "total_tokens": 9, "estimated": True, "cached_tokens": 1},
            ]
        ),
        "context": reports,
    },
)


@given(progress=fields)
def test_what_is_stored_reads_back_the_same(progress: Any) -> None:
    assert whole(lean(progress)) == whole(progress)
    assert lean(whole(progress)) == lean(progress)


def test_a_turn_that_just_started_stores_its_id_only() -> None:
    assert lean(whole({"turn_id": "t"})) == {"turn_id": "t"}
    assert whole({}) == {}


def test_what_the_rest_of_a_report_implies_is_not_stored() -> None:
    left_out = {"folded": {"count": 9, "first_id": "a", "last_id": "b"}, "empty": {"count": 1, "first_id": "c"}}
    report: Any = {
        "window": 100,
        "reserved": 40,
        "used": 35,
        "free": 25,
        "segments": {"system": 5, "turn": 30},
        "excluded": [
            {"id": "a", "reason": "folded"},
            {"id": "b", "reason": "folded"},
            {"id": "c", "reason": "empty"},
        ],
        "excluded_counts": left_out,
    }
    progress: Any = {"turn_id": "t", "context": report}
    stored = lean(progress)
    assert set(stored["context"]) == {"window", "reserved", "segments", "excluded_counts"}
    assert whole(stored)["context"] == report
