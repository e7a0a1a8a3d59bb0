"""What of a request is too large for its window, from the report of its view."""

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from turngraph.context import view
from turngraph.nodes import texts
from turngraph.nodes.over_window import OverWindow, Part, over_window
from turngraph.state.settings import TurnSettings


def report(**segments: int) -> dict[str, Any]:
    return {"window": 1_000, "reserved": 200, "used": sum(segments.values()), "segments": segments}


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ({}, None),
        (report(system=100, tools=100, history=300, turn=300), None),
        (report(system=700, tools=101, turn=1), "instructions"),
        (report(system=100, tools=100, turn=601), "question"),
        (report(system=100, turn=600, notes=101, history=5), "question"),
        (report(system=100, turn=600, history=101), "conversation"),
        (report(turn=100, summary=701), "conversation"),
    ],
)
def test_the_part_that_is_too_large(said: dict[str, Any], part: Part | None) -> None:
    over = over_window(said)
    assert (None if over is None else over.part) == part
    if over is not None:
        assert (over.needed, over.room) == (said["used"], 800)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 50),
    st.integers(0, 3_000),
    st.integers(0, 3_000),
    st.lists(st.integers(0, 800), max_size=4),
    st.integers(512, 4_000),
)
def test_it_is_named_exactly_where_a_view_does_not_fit(
    tools: int, system: int, question: int, turns: list[int], window: int
) -> None:
    """A view cuts what it may; what is still too large is the question or the system prompt, unless all is small."""
    history = [
        message
        for at, words in enumerate(turns)
        for message in (HumanMessage("old " * words, id=f"h{at}"), AIMessage("said " * words or "x", id=f"a{at}"))
    ]
    offered = [{"type": "function", "function": {"name": f"t{n}", "parameters": {}}} for n in range(tools)]
    chosen = TurnSettings(context_window=window, system_prompt="rule " * system, max_output_tokens=100)
    seen = view([*history, HumanMessage("word " * question or "hi", id="q")], [], chosen, offered)
    over = over_window(seen.report)
    assert (over is None) == (seen.report["used"] <= window - seen.report["reserved"])
    if over is not None:
        assert over.needed > over.room >= 0
        segments = seen.report["segments"]
        fixed = segments["system"] + segments["tools"]
        assert (over.part == "instructions") == (fixed > over.room)
        assert over.part != "question" or fixed + segments["turn"] > over.room


def test_every_part_has_its_own_words() -> None:
    parts = [OverWindow(part, 6_067, 3_391) for part in get_args(Part)]
    for said in (texts.does_not_fit, texts.after_overflow):
        words = [said(over) for over in parts]
        assert len(set(words)) == len(words)
        assert all("6,067" in each and "3,391" in each for each in words)
    assert "larger context window" in texts.after_overflow(None)
