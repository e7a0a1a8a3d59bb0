"""UsageMeter: one response's usage from reports that repeat, contradict or miss."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngraph.llm.usage import UsageMeter
from turngraph.state.receipt import Usage


def metered(*reports: Any, estimate: tuple[int, int] = (11, 7)) -> Usage:
    meter = UsageMeter()
    for report in reports:
        meter.observe(report)
    return meter.result(lambda: estimate)


def test_running_totals_are_not_summed() -> None:
    totals = [{"prompt_tokens": 35, "completion_tokens": made, "total_tokens": 35 + made} for made in (0, 1, 2)]
    expected = {"input_tokens": 35, "output_tokens": 2, "total_tokens": 37, "estimated": False}
    assert metered(*totals) == expected
    assert metered(*totals, totals[-1]) == expected
    assert metered(*reversed(totals)) == expected
    as_langchain = [{"input_tokens": 35, "output_tokens": made, "total_tokens": 35 + made} for made in (0, 1, 2)]
    assert metered(*as_langchain) == expected


def test_a_stream_without_usage_is_estimated_and_says_so() -> None:
    for reports in ((), (None,), ({},), ({"prompt_tokens": None},), ({"prompt_tokens": 0, "completion_tokens": 0},)):
        assert metered(*reports) == {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18, "estimated": True}


def test_the_estimate_is_not_asked_for_where_usage_is_known() -> None:
    meter = UsageMeter()
    meter.observe({"prompt_tokens": 3, "completion_tokens": 4})

    def never() -> tuple[int, int]:
        raise AssertionError("asked")

    assert meter.result(never)["total_tokens"] == 7


@pytest.mark.parametrize(
    ("report", "taken", "made", "estimated"),
    [
        ({"prompt_tokens": 35}, 35, 7, True),
        ({"completion_tokens": 5}, 11, 5, True),
        ({"prompt_tokens": 35, "total_tokens": 40}, 35, 5, False),
        ({"completion_tokens": 5, "total_tokens": 40}, 35, 5, False),
        ({"total_tokens": 40}, 33, 7, True),
        ({"total_tokens": 4}, 0, 4, True),
        ({"prompt_tokens": 35, "completion_tokens": 0}, 35, 7, True),
        ({"prompt_tokens": 10, "completion_tokens": 12, "total_tokens": 522}, 10, 512, False),
        ({"prompt_tokens": 10, "completion_tokens": 12, "total_tokens": 3}, 10, 12, False),
        ({"prompt_tokens": 10, "completion_tokens": 12, "input_tokens": 0, "output_tokens": 0}, 10, 12, False),
        ({"prompt_tokens": "35", "completion_tokens": 2.0}, 35, 2, False),
        ({"prompt_tokens": 35.9, "completion_tokens": 2}, 35, 2, False),
        ({"prompt_tokens": math.nan, "completion_tokens": math.inf}, 11, 7, True),
        ({"prompt_tokens": -3, "completion_tokens": "many"}, 11, 7, True),
        ({"prompt_tokens": True, "completion_tokens": [2]}, 11, 7, True),
        ({"prompt_tokens": 1e30, "completion_tokens": 2}, 11, 2, True),
    ],
)
def test_what_is_missing_is_filled(report: dict[str, Any], taken: int, made: int, estimated: bool) -> None:
    usage = metered(report)
    assert (usage["input_tokens"], usage["output_tokens"], usage["estimated"]) == (taken, made, estimated)
    assert usage["total_tokens"] == taken + made


def test_an_empty_output_is_no_estimate() -> None:
    usage = metered({"prompt_tokens": 35, "completion_tokens": 0}, estimate=(30, 0))
    assert usage == {"input_tokens": 35, "output_tokens": 0, "total_tokens": 35, "estimated": False}


@pytest.mark.parametrize(
    ("report", "reasoning", "cached"),
    [
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 60,
                "prompt_tokens_details": {"cached_tokens": 64},
                "completion_tokens_details": {"reasoning_tokens": 40},
            },
            40,
            64,
        ),
        (
            {
                "input_tokens": 100,
                "output_tokens": 60,
                "input_token_details": {"cache_read": 64},
                "output_token_details": {"reasoning": 40},
            },
            40,
            64,
        ),
        ({"prompt_tokens": 100, "completion_tokens": 60, "prompt_cache_hit_tokens": 64}, None, 64),
        ({"prompt_tokens": 100, "completion_tokens": 60, "prompt_tokens_details": None}, None, None),
        ({"prompt_tokens": 100, "completion_tokens": 60, "completion_tokens_details": "x"}, None, None),
        ({"prompt_tokens": 100, "completion_tokens": 60, "cached_tokens": 900}, None, 100),
    ],
)
def test_reasoning_and_cached_tokens_are_kept(
    report: dict[str, Any], reasoning: int | None, cached: int | None
) -> None:
    usage = metered(report)
    assert (usage.get("reasoning_tokens"), usage.get("cached_tokens")) == (reasoning, cached)
    assert usage["total_tokens"] == 160


def test_reasoning_that_the_output_left_out_is_counted() -> None:
    usage = metered(
        {"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 200}}
    )
    assert (usage["output_tokens"], usage["reasoning_tokens"], usage["total_tokens"]) == (205, 200, 215)


COUNTS = st.one_of(
    st.none(),
    st.integers(-5, 5000),
    st.floats(),
    st.text(max_size=4),
    st.booleans(),
    st.lists(st.integers(), max_size=1),
)
FIELDS = ["prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens", "reasoning_tokens"]
DETAILS = ["cached_tokens", "prompt_tokens_details", "completion_tokens_details", "output_token_details"]
REPORTS = st.one_of(
    st.none(),
    st.dictionaries(
        st.sampled_from([*FIELDS, *DETAILS]),
        st.one_of(COUNTS, st.dictionaries(st.sampled_from(["cached_tokens", "reasoning_tokens", "reasoning"]), COUNTS)),
        max_size=6,
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(REPORTS, max_size=5), st.tuples(st.integers(0, 50), st.integers(0, 50)), st.randoms())
def test_laws(reports: list[Any], estimate: tuple[int, int], random: Any) -> None:
    usage = metered(*reports, estimate=estimate)
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert min(usage["input_tokens"], usage["output_tokens"]) >= 0
    assert usage.get("cached_tokens", 0) <= usage["input_tokens"]
    assert usage.get("reasoning_tokens", 0) <= usage["output_tokens"]
    shuffled = [*reports, *reports]
    random.shuffle(shuffled)
    assert metered(*shuffled, estimate=estimate) == usage
