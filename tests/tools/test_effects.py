"""Effects of a tool on the turn: what is accepted, and that nothing but plain JSON is kept."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from turngraph.state.errors import InputError
from turngraph.tools.effects import TurnEffects, split_artifact

names = st.lists(st.text(min_size=1, max_size=5), max_size=3).map(tuple)


@given(st.none() | st.text(), st.none() | st.text(), names, names)
def test_effects_come_back_from_json(checkpoint: Any, end: Any, skills: Any, tools: Any) -> None:
    effects = TurnEffects(checkpoint, end, skills, tools)
    stored = json.loads(json.dumps(effects.to_json()))
    assert TurnEffects.from_json(stored) == effects


def test_names_are_kept_once_and_a_single_one_may_stand_alone() -> None:
    assert TurnEffects(load_tools=["a", "b", "a"]).load_tools == ("a", "b")  # type: ignore[arg-type]
    assert TurnEffects(activate_skills="pdf").activate_skills == ("pdf",)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [{"terminate": 3}, {"terminate": True}, {"context_checkpoint": ["x"]}, {"load_tools": 1}, {"load_tools": [1]}],
)
def test_other_types_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        TurnEffects(**wrong)


def test_an_empty_final_answer_is_an_effect_too() -> None:
    assert TurnEffects(terminate="").to_json() == {"terminate": ""}
    assert TurnEffects().to_json() == {}


def test_effects_are_split_from_the_artifact_that_stays() -> None:
    effects, kept = split_artifact(TurnEffects(terminate="done", artifact={"rows": (1, 2)}))
    assert effects is not None
    assert effects.terminate == "done"
    assert kept == {"rows": [1, 2]}
    assert split_artifact({"a": 1}) == (None, {"a": 1})
    assert split_artifact(None) == (None, None)


class Odd:
    pass


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.builds(Odd) | st.dates(),
    lambda inner: st.lists(inner) | st.sets(st.integers()) | st.dictionaries(st.integers() | st.text(), inner),
    max_leaves=8,
)


@given(values)
def test_an_artifact_is_stored_as_plain_json(value: Any) -> None:
    _, stored = split_artifact(value)
    text = json.dumps(stored, allow_nan=False)
    text.encode()
    assert json.loads(text) == stored


def test_a_message_in_an_artifact_is_stored_as_its_content() -> None:
    assert split_artifact({"said": HumanMessage("hi")}) == (None, {"said": "hi"})
