"""ScriptedModel: every way of calling it, what it records, and its drift check."""

import asyncio
import copy
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.tools import tool

from turngraph.llm.scripted import ScriptedModel, ScriptedReply, ScriptExhaustedError


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def streamed(model: Any, text: str = "hi") -> AIMessageChunk:
    total: AIMessageChunk | None = None
    for chunk in model.stream(text):
        total = chunk if total is None else total + chunk
    assert total is not None
    return total


async def astreamed(model: Any, text: str = "hi") -> AIMessageChunk:
    total: AIMessageChunk | None = None
    async for chunk in model.astream(text):
        total = chunk if total is None else total + chunk
    assert total is not None
    return total


def seen(message: AIMessage) -> tuple[Any, ...]:
    calls = [(each["name"], each["args"], each["id"]) for each in message.tool_calls]
    reasoning = message.additional_kwargs.get("reasoning_content", "")
    return message.text, calls, reasoning, message.response_metadata.get("finish_reason"), message.usage_metadata


json_values = st.dictionaries(
    st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=8), st.booleans()), max_size=3
)
replies = st.builds(
    ScriptedReply,
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    calls=st.lists(st.tuples(st.sampled_from(["add", "find"]), json_values), max_size=3),
    reasoning=st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
    chunks=st.one_of(st.none(), st.integers(1, 7)),
    usage=st.one_of(st.none(), st.just({"input_tokens": 3, "output_tokens": 4, "total_tokens": 7})),
)


@settings(max_examples=150, deadline=None)
@given(reply=replies)
def test_streamed_chunks_added_up_are_the_whole_message(reply: ScriptedReply) -> None:
    whole = ScriptedModel([reply]).invoke("hi")
    assert seen(streamed(ScriptedModel([reply]))) == seen(whole)
    assert seen(asyncio.run(astreamed(ScriptedModel([reply])))) == seen(whole)
    assert whole.text == reply.text
    assert [(each["name"], each["args"]) for each in whole.tool_calls] == [(name, args) for name, args in reply.calls]


def test_text_arrives_in_the_given_pieces() -> None:
    pieces = [chunk.text for chunk in ScriptedModel([ScriptedReply(chunks=["Hel", "", "lo"])]).stream("hi")]
    assert [each for each in pieces if each] == ["Hel", "lo"]


def test_every_kind_of_step() -> None:
    message = AIMessage("m", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "own"}])
    model = ScriptedModel(["text", message, lambda messages: messages[-1].text.upper(), ValueError("no"), TimeoutError])
    assert model.invoke("x").text == "text"
    assert streamed(model).tool_calls[0]["id"] == "own"
    assert model.invoke("shout").text == "SHOUT"
    with pytest.raises(ValueError, match="no"):
        model.invoke("x")
    with pytest.raises(TimeoutError):
        streamed(model)
    model.assert_done()


async def test_an_async_callable_is_awaited() -> None:
    async def step(messages: list[Any]) -> ScriptedReply:
        await asyncio.sleep(0)
        return ScriptedReply(f"{len(messages)} seen")

    model = ScriptedModel([step, step, step])
    assert (await model.ainvoke("x")).text == "1 seen"
    assert (await astreamed(model)).text == "1 seen"
    with pytest.raises(TypeError, match="ainvoke"):
        model.invoke("x")


def test_a_fault_comes_after_the_text_and_without_an_end() -> None:
    model = ScriptedModel([ScriptedReply("part of it", fault=ConnectionError("gone"))] * 2)
    got: list[AIMessageChunk] = []
    with pytest.raises(ConnectionError, match="gone"):
        got.extend(each for each in model.stream("hi"))
    assert "".join(each.text for each in got) == "part of it"
    assert not any(each.response_metadata.get("finish_reason") for each in got)
    with pytest.raises(ConnectionError):
        model.invoke("hi")


def test_broken_arguments_are_not_made_whole() -> None:
    reply = ScriptedReply(calls=[{"name": "add", "args": '{"a": 1', "id": "c", "index": 0}], finish="length")
    whole = ScriptedModel([reply]).invoke("hi")
    assert not whole.tool_calls
    assert whole.invalid_tool_calls[0]["args"] == '{"a": 1'
    assert streamed(ScriptedModel([reply])).tool_call_chunks[0]["args"] == '{"a": 1'


def test_call_ids_are_unique_and_the_same_on_every_run() -> None:
    def ids() -> list[str | None]:
        model = ScriptedModel([ScriptedReply(calls=[("add", {}), ("add", {})])] * 2)
        return [each["id"] for _ in range(2) for each in model.invoke("x").tool_calls]

    assert ids() == ids()
    assert len(set(ids())) == 4


def test_requests_are_recorded_with_tools_and_choice() -> None:
    model = ScriptedModel(["a", "b"])
    model.bind_tools([add], tool_choice="none").invoke([HumanMessage("one")], stop=["x"], temperature=0.5)
    model.invoke("two")
    first, second = model.requests
    assert first.tool_names == ["add"]
    assert (first.tool_choice, first.stop, first.streamed, first.kwargs) == ("none", ["x"], False, {"temperature": 0.5})
    assert second.tools == []
    assert second.messages[-1].text == "two"


def test_copies_share_the_script() -> None:
    model = ScriptedModel(["1", "2", "3", "4", "5"])
    copies = [model, copy.copy(model), copy.deepcopy(model), model.model_copy(deep=True), model.with_config(tags=["t"])]
    assert [each.invoke("x").text for each in copies] == ["1", "2", "3", "4", "5"]
    model.assert_done()
    assert len(model.requests) == 5


def test_drift_is_reported_in_both_directions() -> None:
    model = ScriptedModel(["used", "left over"])
    model.invoke("x")
    with pytest.raises(AssertionError, match=r"1 step.*left over"):
        model.assert_done()
    model.invoke("x")
    with pytest.raises(ScriptExhaustedError, match=r"2 step\(s\), this is request 3.*'too much'"):
        model.invoke("too much")
    with pytest.raises(ScriptExhaustedError, match="1 request"):
        model.assert_done()
    model.add("more")
    assert model.invoke("x").text == "more"


def test_one_callable_answers_every_request() -> None:
    model = ScriptedModel(lambda messages: f"echo {messages[-1].text}")
    assert [model.invoke(each).text for each in ("a", "b")] == ["echo a", "echo b"]
    model.assert_done()


async def test_delays_do_not_block_the_loop() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    task = asyncio.create_task(tick())
    await astreamed(ScriptedModel([ScriptedReply("a b c", delay=0.05, chunk_delay=0.02)]))
    task.cancel()
    assert ticks >= 5


def test_something_else_is_no_step() -> None:
    with pytest.raises(TypeError, match="script step"):
        ScriptedModel([3]).invoke("x")  # type: ignore[list-item]


def test_arguments_are_streamed_as_json_text() -> None:
    chunks = list(ScriptedModel([ScriptedReply(calls=[("add", {"a": 1, "b": 2})], chunks=3)]).stream("x"))
    fragments = [each["args"] or "" for chunk in chunks for each in chunk.tool_call_chunks]
    assert len(fragments) > 3
    assert json.loads("".join(fragments)) == {"a": 1, "b": 2}


async def test_a_plain_step_that_sleeps_holds_up_nobody_on_the_loop() -> None:
    ticks = 0

    def slow(_messages: list[BaseMessage]) -> str:
        time.sleep(0.3)
        return "late"

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    answer = await ScriptedModel([slow]).ainvoke("x")
    ticking.cancel()
    assert answer.text == "late"
    assert ticks > 2
