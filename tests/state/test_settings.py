"""TurnSettings: defaults, bounds, and clear errors for what is not known."""

import json

import pytest
from pydantic import ValidationError

from turngraph.graph import ModelProfile, TurnSettings

CONTRACT = [
    "model",
    "system_prompt",
    "temperature",
    "max_output_tokens",
    "context_window",
    "max_rounds",
    "settlement_rounds",
    "max_continuations",
    "max_tool_calls",
    "max_tokens",
    "max_seconds",
    "max_parallel_tools",
    "tool_timeout",
    "max_tool_output_tokens",
    "permission_mode",
    "permissions",
    "protected_turns",
    "compact_at",
    "fold_at",
    "text_tools",
    "stream_interval_ms",
    "on_pending_input",
    "enabled_tools",
    "active_skills",
    "model_profile",
]

DEFAULTS = {
    "max_rounds": 25,
    "settlement_rounds": 0,
    "max_tool_calls": 128,
    "max_tokens": None,
    "max_seconds": None,
    "max_parallel_tools": 8,
    "tool_timeout": 60,
    "max_tool_output_tokens": 8_000,
    "permission_mode": "declared",
    "protected_turns": 2,
    "compact_at": 0.8,
    "fold_at": 0.6,
    "text_tools": "auto",
    "stream_interval_ms": 0,
    "on_pending_input": "yield",
    "max_continuations": 2,
    "max_retries": 2,
    "context_window": None,
    "enabled_tools": None,
}


def test_the_fields_and_defaults_are_the_contracts() -> None:
    assert set(CONTRACT) <= set(TurnSettings.model_fields)
    for name, default in DEFAULTS.items():
        assert getattr(TurnSettings(), name) == default, name


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_rounds": 0},
        {"max_rounds": 10_001},
        {"max_seconds": 0},
        {"fold_at": 1.5},
        {"permission_mode": "sometimes"},
        {"permissions": {"x": "maybe"}},
        {"stream_interval_ms": -1},
        {"context_window": 1},
    ],
)
def test_values_out_of_bounds_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TurnSettings.model_validate(wrong)


def test_an_unknown_field_is_refused_with_a_hint_and_the_list() -> None:
    with pytest.raises(ValidationError) as refused:
        TurnSettings.model_validate({"max_round": 3})
    assert "Did you mean 'max_rounds'?" in str(refused.value)
    assert "settlement_rounds" in str(refused.value)
    with pytest.raises(ValidationError, match="reasoning_back"):
        ModelProfile.model_validate({"reasoning": True})


def test_what_is_stored_is_plain_json_and_comes_back_the_same() -> None:
    settings = TurnSettings(max_rounds=3, permissions={"x": "deny"}, model_profile=ModelProfile(tool_choice=False))
    stored = settings.stored()
    assert set(stored) == {"max_rounds", "permissions", "model_profile"}
    assert TurnSettings.model_validate(json.loads(json.dumps(stored))) == settings
