"""finish_kind and is_cut: every provider's finish reasons."""

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngraph.llm.finish import finish_kind, is_cut
from turngraph.state.words import FinishKind


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        ("stop", "stop"),
        ("STOP", "stop"),
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("eos", "stop"),
        ("COMPLETE", "stop"),
        ("FinishReason.STOP", "stop"),
        ("tool_calls", "tool_calls"),
        ("tool_use", "tool_calls"),
        ("function_call", "tool_calls"),
        ("tool-calls", "tool_calls"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("MAX_TOKENS", "length"),
        ("maxTokens", "length"),
        ("model_length", "length"),
        ("incomplete", "length"),
        (" length ", "length"),
        ("model_context_window_exceeded", "context_window"),
        ("content_filter", "content_filter"),
        ("SAFETY", "content_filter"),
        ("refusal", "content_filter"),
        (None, "missing"),
        ("", "missing"),
        ("null", "missing"),
        ("abort", "missing"),
        ("network_error", "missing"),
        ("insufficient_system_resource", "missing"),
        ("FINISH_REASON_UNSPECIFIED", "missing"),
        ("MALFORMED_FUNCTION_CALL", "other"),
        ("something_new", "other"),
        ("other", "other"),
    ],
)
def test_each_reason_has_its_kind(raw: str | None, kind: FinishKind) -> None:
    assert finish_kind(raw) == kind


@pytest.mark.parametrize("raw", [7, {"a": 1}, ["stop"], True])
def test_a_reason_that_is_no_text_is_other(raw: object) -> None:
    assert finish_kind(raw) == "other"  # type: ignore[arg-type]


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.none(), st.text()))
def test_any_reason_has_a_kind(raw: str | None) -> None:
    assert finish_kind(raw) in get_args(FinishKind)


def test_output_is_cut_where_the_reason_says_so() -> None:
    cut = {kind: (is_cut(kind, openai_wire=False), is_cut(kind, openai_wire=True)) for kind in get_args(FinishKind)}
    assert cut == {
        "stop": (False, False),
        "tool_calls": (False, False),
        "length": (True, True),
        "context_window": (True, True),
        "content_filter": (False, False),
        "missing": (False, True),
        "other": (False, False),
    }
