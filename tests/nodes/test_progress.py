"""Progress as it is stored: small, and nothing lost."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from turngraph.nodes.progress import DEFAULTS, lean, whole

fields = st.fixed_dictionaries(
    {"turn_id": st.just("t")},
    optional={
        "rounds": st.integers(0, 3),
        "nudges": st.integers(0, 2),
        "phase": st.sampled_from(["running", "closed"]),
        "skills": st.lists(st.just("poet"), max_size=1),
        "calibration": st.sampled_from([1.0, 1.5]),
        "reason": st.just("finish"),
        "usage": st.sampled_from([DEFAULTS["usage"], {"input_tokens": 1, "output_tokens": 0, "total_tokens": 1}]),
    },
)


@given(progress=fields)
def test_what_is_stored_reads_back_the_same(progress: Any) -> None:
    assert whole(lean(progress)) == whole(progress)
    assert lean(whole(progress)) == lean(progress)


def test_a_turn_that_just_started_stores_its_id_only() -> None:
    assert lean(whole({"turn_id": "t"})) == {"turn_id": "t"}
    assert whole({}) == {}
