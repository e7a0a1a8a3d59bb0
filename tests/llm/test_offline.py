"""The offline model: what it reads, what it calls, how it answers, and that it always does the same."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from turngraph.context import texts as context_texts
from turngraph.llm import offline_reading
from turngraph.llm.offline import OfflineModel
from turngraph.llm.offline_plan import MAX_CALLS, expressions, plan, zones
from turngraph.nodes import texts as node_texts
from turngraph.state.words import StopReason
from turngraph.tools import texts as tool_texts
from turngraph.tools.ask import ask_user, parse_questions
from turngraph.tools.demo import demo_tools

NAMES = ("calculator", "clock", "search_docs", "save_note", "ask_user")


def schema(name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


def respond(messages: Any, names: Any = NAMES, **bound: Any) -> AIMessage:
    model = OfflineModel()
    return (
        model.bind_tools([schema(each) for each in names], **bound).invoke(messages)
        if names
        else model.invoke(messages)
    )


def asked(text: str, names: Any = NAMES) -> list[tuple[str, dict[str, Any]]]:
    return [(each.name, each.args) for each in plan(text, names)]


def with_results(text: str, *contents: str, status: str = "success") -> list[BaseMessage]:
    """A conversation in which each call for `text` got a result."""
    question = HumanMessage(text)
    message = respond([question])
    results = [
        ToolMessage(content, tool_call_id=each["id"], name=each["name"], status=status)
        for each, content in zip(message.tool_calls, contents, strict=True)
    ]
    return [question, message, *results]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("What is (3 + 4) * 12?", [("calculator", {"expression": "(3 + 4) * 12"})]),
        ("12 times 3 plus 1", [("calculator", {"expression": "12 * 3 + 1"})]),
        ("how much is 20% of 50", [("calculator", {"expression": "20 / 100 * 50"})]),
        ("1,000 * 3", [("calculator", {"expression": "1000 * 3"})]),
        ("6×7", [("calculator", {"expression": "6×7"})]),
        ("What time is it in Tokyo?", [("clock", {"timezone": "Asia/Tokyo"})]),
        ("today's date please", [("clock", {"timezone": "UTC"})]),
        (
            "time in Europe/Berlin and New York right now",
            [("clock", {"timezone": "Europe/Berlin"}), ("clock", {"timezone": "America/New_York"})],
        ),
        ("Remember that the key is under the mat", [("save_note", {"text": "the key is under the mat"})]),
        ("Save a note: buy milk", [("save_note", {"text": "buy milk"})]),
        ("How do I resume a paused turn?", [("search_docs", {"query": "How do I resume a paused turn?"})]),
        ("Tell me about elephants", [("search_docs", {"query": "Tell me about elephants"})]),
        ("Do you remember what a receipt is?", [("search_docs", {"query": "Do you remember what a receipt is?"})]),
        ("hello!", []),
        ("  ", []),
        ("thank you so much", []),
    ],
)
def test_what_a_message_asks_for(text: str, calls: list[Any]) -> None:
    assert asked(text) == calls


def test_several_things_at_once_are_one_batch() -> None:
    message = respond("What is 6*7, what time is it in Paris? Remember to call Ana, and how does turngraph stream?")
    assert [each["name"] for each in message.tool_calls] == ["calculator", "clock", "save_note", "search_docs"]
    assert message.tool_calls[2]["args"] == {"text": "call Ana"}
    assert len({each["id"] for each in message.tool_calls}) == 4
    assert message.text
    assert "6*7" in message.additional_kwargs["reasoning_content"]


def test_ask_me_gives_a_question_with_options() -> None:
    [(name, args)] = asked("Ask me which colour I want: red, green or blue")
    assert name == "ask_user"
    assert args["questions"][0]["question"] == "Which colour I want?"
    assert [each["label"] for each in args["questions"][0]["options"]] == ["red", "green", "blue"]
    assert asked("ask me something")[0][1]["questions"][0]["free_text"] is True


@pytest.mark.parametrize(
    "text", ["released 2026-12-01", "version 1.2.3", "see http://x.y/1/2", "12/24/2025", "a < b", "call 555-123-4567"]
)
def test_dates_versions_and_addresses_are_no_arithmetic(text: str) -> None:
    assert expressions(text) == []


@pytest.mark.parametrize("text", ["a sometimes slow timeout", "the time budget of a turn", "update the clockwork"])
def test_words_with_time_in_them_ask_for_no_clock(text: str) -> None:
    assert zones(text) == []


def test_a_call_written_out_runs_any_offered_tool() -> None:
    names = (*NAMES, "weather")
    assert asked('weather {"city": "Oslo", "days": 2}', names)[0] == ("weather", {"city": "Oslo", "days": 2})
    assert all(name != "weather" for name, _ in asked('weather {"city": "Oslo"}'))
    assert all(name != "weather" for name, _ in asked('weather {"city": ', names))


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=300), offered=st.sets(st.sampled_from(NAMES)))
def test_only_offered_tools_with_json_arguments_and_never_an_error(text: str, offered: set[str]) -> None:
    calls = plan(text, offered)
    assert calls == plan(text, offered)
    assert len(calls) <= MAX_CALLS
    assert {each.name for each in calls} <= offered
    for each in calls:
        json.dumps(each.args)


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=120))
def test_streamed_pieces_added_up_are_the_message(text: str) -> None:
    bound = OfflineModel().bind_tools([schema(each) for each in NAMES])
    whole = bound.invoke([HumanMessage(text or "x")])

    async def gather() -> list[AIMessageChunk]:
        return [chunk async for chunk in bound.astream([HumanMessage(text or "x")])]

    for chunks in (list(bound.stream([HumanMessage(text or "x")])), asyncio.run(gather())):
        total = chunks[0]
        for chunk in chunks[1:]:
            total = total + chunk
        assert len(chunks) > 3
        assert total.text == whole.text
        assert total.additional_kwargs == whole.additional_kwargs
        assert [(each["name"], each["args"], each["id"]) for each in total.tool_calls] == [
            (each["name"], each["args"], each["id"]) for each in whole.tool_calls
        ]
        assert total.response_metadata["finish_reason"] == whole.response_metadata["finish_reason"]


def test_it_answers_from_the_results_and_says_what_it_is() -> None:
    final = respond(with_results("What is 6*7 and what time is it?", "42", "2026-12-01 10:00:00 UTC+00:00"))
    assert not final.tool_calls
    assert "6*7 = 42" in final.text
    assert "2026-12-01 10:00:00" in final.text
    assert "not an LLM" in final.text
    assert final.response_metadata["finish_reason"] == "stop"


def test_it_tells_failures_and_refusals_as_such() -> None:
    failed = respond(with_results("1/0", "ValueError: Division by zero.", status="error"))
    assert "failed: ValueError: Division by zero." in failed.text
    refused = respond(with_results("remember the milk", tool_texts.rejected("not now"), status="error"))
    assert "was not done" in refused.text
    assert "not now" in refused.text
    answered = respond(with_results("ask me which one: a or b", "b"))
    assert "You answered: b" in answered.text


def test_a_greeting_is_answered_at_once_with_what_is_offered() -> None:
    message = respond("Hello!")
    assert not message.tool_calls
    assert "not an LLM" in message.text
    assert "arithmetic" in message.text
    assert "arithmetic" not in respond("Hello!", ("clock",)).text


@pytest.mark.parametrize("bound", [{"names": ()}, {"tool_choice": "none"}, {"names": ("unknown_tool",)}])
def test_without_usable_tools_it_answers_without_them(bound: dict[str, Any]) -> None:
    message = respond("What is 2+2?", **bound)
    assert not message.tool_calls
    assert "2+2" in message.text
    assert "not an LLM" in message.text


REASONS: list[StopReason] = ["max_rounds", "max_tokens", "no_progress", "provider_error"]


@pytest.mark.parametrize("reason", REASONS)
def test_an_order_to_finish_is_followed(reason: StopReason) -> None:
    note = HumanMessage(context_texts.note(node_texts.finish_now(reason)))
    messages = [*with_results("What is 6*7?", "42"), note]
    message = respond(messages)
    assert not message.tool_calls
    assert "6*7 = 42" in message.text
    assert node_texts.why(reason) in message.text
    alone = respond([HumanMessage("What is 6*7?"), note])
    assert not alone.tool_calls
    assert node_texts.why(reason) in alone.text


def test_only_the_users_own_words_count() -> None:
    messages: list[BaseMessage] = [
        SystemMessage("You know that 1+1 is 2."),
        HumanMessage(context_texts.summary("The user asked for 2+2.")),
        HumanMessage(f"What is 3*3?\n\n{context_texts.seed('It is 12:00, 4+4 apples.')}"),
        HumanMessage(context_texts.note("Do 5+5.")),
    ]
    assert [each["args"] for each in respond(messages).tool_calls] == [{"expression": "3*3"}]


def test_text_blocks_are_read_like_text() -> None:
    blocks = [
        {"type": "text", "text": "What is "},
        {"type": "image_url", "image_url": {"url": "data:,"}},
        {"type": "text", "text": "3*3"},
    ]
    assert respond([HumanMessage(blocks)]).tool_calls[0]["args"] == {"expression": "3*3"}


def test_the_next_message_starts_afresh() -> None:
    first = with_results("What is 6*7?", "42")
    conversation = [*first, respond(first), HumanMessage("What is 2*2?")]
    message = respond(conversation)
    assert [each["args"] for each in message.tool_calls] == [{"expression": "2*2"}]
    assert {each["id"] for each in message.tool_calls}.isdisjoint(each["id"] for each in first[1].tool_calls)  # type: ignore[attr-defined]
    final = respond([*conversation, message, ToolMessage("4", tool_call_id=message.tool_calls[0]["id"])])
    assert "2*2 = 4" in final.text
    assert "6*7" not in final.text


def test_a_steered_message_joins_the_turn() -> None:
    steered = [*with_results("What is 6*7?", "42"), HumanMessage("and 2*2?")]
    message = respond(steered)
    assert [each["args"] for each in message.tool_calls] == [{"expression": "2*2"}]
    final = respond([*steered, message, ToolMessage("4", tool_call_id=message.tool_calls[0]["id"])])
    assert "6*7 = 42" in final.text
    assert "2*2 = 4" in final.text


def test_the_same_request_gives_the_same_message() -> None:
    first, second = (respond([HumanMessage("What is 6*7 and the time?")]) for _ in range(2))
    assert first.tool_calls == second.tool_calls
    assert first.content == second.content


def test_the_labels_are_those_of_the_requests() -> None:
    assert offline_reading.NOTE_LABEL == context_texts.NOTE_LABEL
    assert offline_reading.SEED_LABEL == context_texts.SEED_LABEL
    rendered = (context_texts.summary("s"), context_texts.checkpoint("c", []))
    assert all(each.startswith(offline_reading.BLOCK_LABELS) for each in rendered)


@pytest.mark.parametrize(
    "text",
    [
        tool_texts.rejected(""),
        tool_texts.DENIED,
        tool_texts.ABANDONED,
        tool_texts.UNKNOWN_OUTCOME,
        node_texts.NOT_ANSWERED,
    ],
)
def test_every_way_of_not_running_is_recognised(text: str) -> None:
    assert "was not done" in respond(with_results("What is 6*7?", text)).text


def test_it_knows_the_real_demo_tools() -> None:
    names = {each.name for each in demo_tools()}
    message = OfflineModel().bind_tools(demo_tools()).invoke("2+2, the time? remember x")
    by_name = {each.name: each for each in demo_tools()}
    assert {each["name"] for each in message.tool_calls} <= names
    for each in message.tool_calls:
        by_name[each["name"]].get_input_schema().model_validate(each["args"])


def test_a_question_for_a_person_is_one_that_ask_user_takes() -> None:
    [(name, args)] = asked("ask me which one: a or b")
    assert name == ask_user.name
    assert parse_questions(args) == [
        {
            "id": "q1",
            "question": "Which one?",
            "options": [{"label": "a"}, {"label": "b"}],
            "multiple": False,
            "free_text": True,
        }
    ]
