"""Profiles: declared over learned over known, per model and place."""

import threading
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_openai import AzureChatOpenAI, ChatOpenAI

from turngraph.llm.profile import (
    PROFILE_FIELDS,
    PROFILES,
    Fact,
    ProfileStore,
    effective,
    effective_profile,
    known_facts,
    model_name,
    profile_key,
)
from turngraph.llm.scripted import ScriptedModel
from turngraph.state.settings import ModelProfile

VALUES = st.dictionaries(st.sampled_from(sorted(PROFILE_FIELDS)), st.none() | st.booleans())


@settings(max_examples=200, deadline=None)
@given(VALUES, VALUES)
def test_declared_is_never_overruled(declared: dict[str, Any], learned: dict[str, Any]) -> None:
    given_profile = ModelProfile(**declared)
    made = effective(given_profile, learned)
    for name in PROFILE_FIELDS:
        wanted = declared.get(name)
        assert getattr(made, name) == (wanted if wanted is not None else learned.get(name))
    assert effective(made, learned) == made


def test_every_profile_field_can_be_learned() -> None:
    assert set(get_args(Fact)) >= PROFILE_FIELDS


def test_other_facts_do_not_get_into_the_profile() -> None:
    assert effective(ModelProfile(), {"temperature": False, "images": False}) == ModelProfile()


class TestStore:
    def test_models_are_kept_apart(self) -> None:
        store = ProfileStore()
        store.learn(("a", "m"), "tool_choice", False)
        assert store.learned(("a", "m")) == {"tool_choice": False}
        assert store.learned(("b", "m")) == {}
        store.learn(("a", "m"), "tool_choice", None)
        assert store.learned(("a", "m")) == {}

    def test_what_is_given_out_is_a_copy(self) -> None:
        store = ProfileStore()
        store.learn(("a", "m"), "images", False)
        store.learned(("a", "m"))["images"] = True
        assert store.learned(("a", "m")) == {"images": False}
        store.forget(("a", "m"))
        assert store.learned(("a", "m")) == {}

    def test_many_threads(self) -> None:
        store = ProfileStore()

        def work(name: str) -> None:
            for _ in range(200):
                store.learn(("a", name), "images", False)
                assert store.learned(("a", name)) == {"images": False}

        threads = [threading.Thread(target=work, args=(str(at),)) for at in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class TestKeys:
    def test_place_and_name(self) -> None:
        here = ChatOpenAI(api_key="x", base_url="http://a.example/v1/", model="m")
        there = ChatOpenAI(api_key="x", base_url="http://b.example/v1", model="m")
        assert profile_key(here) == ("http://a.example/v1", "m")
        assert profile_key(here) != profile_key(there)
        assert profile_key(ChatOpenAI(api_key="x", model="m")) == ("openai", "m")

    def test_azure_and_others(self) -> None:
        azure = AzureChatOpenAI(api_key="x", azure_endpoint="https://x.example", api_version="1", model="m")
        assert profile_key(azure)[0] == "https://x.example"
        assert model_name(ScriptedModel([])) == "scripted"

    def test_no_secret_is_in_a_key(self) -> None:
        model = ChatOpenAI(api_key="sk-1", base_url="http://user:pw@a.example/v1?key=CANARY", model="m")
        assert profile_key(model) == ("http://a.example/v1", "m")


class TestKnown:
    @pytest.mark.parametrize(
        ("name", "facts"),
        [
            ("deepseek-reasoner", {"reasoning_back": True, "string_tool_content": True}),
            ("moonshotai/Kimi-K2-Thinking", {"reasoning_back": True}),
            ("gpt-5-mini", {}),
            ("google/gemma-2-9b-it", {"alternate_roles": True, "system_messages": False}),
            ("mistral-7b-instruct", {"alternate_roles": True}),
        ],
    )
    def test_by_name(self, name: str, facts: dict[str, Any]) -> None:
        assert known_facts(name) == facts
        assert set(facts) <= PROFILE_FIELDS

    def test_learned_wins_over_known_and_declared_over_both(self) -> None:
        model = ScriptedModel([], model_name="deepseek-reasoner")
        try:
            assert effective_profile(model, ModelProfile()).reasoning_back is True
            PROFILES.learn(profile_key(model), "reasoning_back", False)
            assert effective_profile(model, ModelProfile()).reasoning_back is False
            assert effective_profile(model, ModelProfile(reasoning_back=True)).reasoning_back is True
        finally:
            PROFILES.forget(profile_key(model))
