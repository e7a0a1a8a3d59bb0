"""ResponseAssembler: one parser for what is shown and what is stored, whatever the shape and the chunks."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk

from turngraph.llm.assemble import Assembled, Delta, Reading, ResponseAssembler

OFFERED = frozenset({"add", "search"})


def chunk(content: Any = "", *, info: dict[str, Any] | None = None, **fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(content=content, **fields), generation_info=info)


def fragment(name: str | None, args: str | None, call_id: str | None, index: int | None) -> ChatGenerationChunk:
    return chunk(tool_call_chunks=[tool_call_chunk(name=name, args=args, id=call_id, index=index)])


def read(pieces: list[ChatGeneration], **reading: Any) -> tuple[Assembled, list[Delta]]:
    reading.setdefault("offered", OFFERED)
    assembler = ResponseAssembler(Reading(**reading))
    shown = [delta for piece in pieces for delta in assembler.feed(piece)]
    shown += assembler.end()
    return assembler.assembled(), shown


def joined(shown: list[Delta], kind: str) -> str:
    return "".join(text for each, text in shown if each == kind)


def cut(text: str, at: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(each % (len(text) + 1) for each in at)})
    return [text[a:b] for a, b in pairwise(edges)]


TEXTS = st.lists(
    st.sampled_from(
        ["a", " b\n", "<think>", "</think>", "<thinking>", "<", "< think", "```", "`", "<tool_call>", "é", "🙂", "\n\n"]
    ),
    max_size=14,
).map("".join)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.lists(st.integers(0, 200), max_size=8), st.booleans())
def test_shown_is_stored_whatever_the_chunks(text: str, at: list[int], opened: bool) -> None:
    made, shown = read([chunk(each) for each in cut(text, at)], opens_think=opened)
    whole, _ = read([ChatGeneration(message=AIMessage(text))], opens_think=opened)
    assert joined(shown, "content") == made.message.content == made.message.text
    assert joined(shown, "thinking") == made.message.additional_kwargs.get("reasoning_content", "")
    assert made.message.content == whole.message.content
    assert made.message.additional_kwargs == whole.message.additional_kwargs
    assert made.message.additional_kwargs.get("raw_text", made.message.content) == text


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=8) | st.booleans(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["type", "text", "thinking", "reasoning", "id", "summary"]), inner)
        ),
        max_leaves=12,
    )
)
def test_no_content_block_is_an_exception(block: Any) -> None:
    content = [each for each in (block if isinstance(block, list) else [block]) if isinstance(each, str | dict)]
    try:
        piece = chunk(content)
    except TypeError:
        reject()  # LangChain itself refuses it
    made, shown = read([piece])
    assert joined(shown, "content") == made.message.content


class TestChannels:
    @pytest.mark.parametrize(
        "piece",
        [
            chunk(additional_kwargs={"reasoning_content": "why"}),
            chunk(additional_kwargs={"reasoning": "why"}),
            chunk(additional_kwargs={"reasoning": {"summary": [{"type": "summary_text", "text": "why"}]}}),
            chunk(additional_kwargs={"thinking": "why"}),
            chunk(additional_kwargs={"reasoning_details": [{"type": "reasoning.text", "text": "why"}]}),
            chunk([{"type": "thinking", "thinking": "why", "index": 0}]),
            chunk([{"type": "thinking", "thinking": [{"type": "text", "text": "why"}]}]),
            chunk([{"type": "reasoning", "reasoning": "why"}]),
            chunk([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "why"}]}]),
            chunk([{"type": "reasoning_content", "reasoning_content": {"text": "why"}}]),
            chunk("<think>why</think>"),
        ],
    )
    def test_every_place_of_reasoning(self, piece: ChatGenerationChunk) -> None:
        made, shown = read([piece, chunk("Answer.")])
        assert made.message.content == "Answer."
        assert joined(shown, "thinking") == made.message.additional_kwargs["reasoning_content"] == "why"

    def test_the_same_reasoning_in_two_fields_counts_once(self) -> None:
        details = [{"type": "reasoning.text", "text": "a", "index": 0}]
        made, _ = read([chunk(additional_kwargs={"reasoning_content": "a", "reasoning_details": details})] * 2)
        assert made.message.additional_kwargs["reasoning_content"] == "aa"
        assert made.message.additional_kwargs["reasoning_details"] == [{**details[0], "text": "aa"}]

    @pytest.mark.parametrize(
        "block",
        [
            {"type": "text", "text": "Hi"},
            {"type": "output_text", "text": "Hi"},
            {"type": "refusal", "refusal": "Hi"},
            "Hi",
        ],
    )
    def test_text_blocks_become_plain_text(self, block: Any) -> None:
        made, _ = read([chunk([block]), chunk([{"type": "tool_use", "id": "x", "name": "n", "input": {}}])])
        assert made.message.content == "Hi"

    def test_sealed_blocks_are_kept_without_their_calls(self) -> None:
        made, _ = read(
            [
                chunk([{"type": "thinking", "thinking": "wh", "index": 0}]),
                chunk([{"type": "thinking", "thinking": "y", "index": 0}]),
                chunk([{"type": "thinking", "signature": "s1", "index": 0}]),
                chunk([{"type": "text", "text": "Hi", "index": 1}]),
                chunk([{"type": "tool_use", "id": "c", "name": "add", "input": {}, "index": 2}]),
            ]
        )
        blocks = made.message.additional_kwargs["raw_blocks"]
        assert [each["type"] for each in blocks] == ["thinking", "text"]
        assert (blocks[0]["thinking"], blocks[0]["signature"], blocks[1]["text"]) == ("why", "s1", "Hi")

    def test_extras_of_other_providers_are_kept_as_json(self) -> None:
        made, _ = read([chunk(additional_kwargs={"sig": {"c1": "AA"}, "odd": object(), "nan": float("nan")})])
        assert made.message.additional_kwargs == {"sig": {"c1": "AA"}}
        json.dumps(made.message.additional_kwargs, allow_nan=False)


class TestCalls:
    def test_streamed_calls(self) -> None:
        made, _ = read(
            [fragment("add", '{"a":', "c1", 0), fragment(None, " 1}", None, 0), chunk(info={"finish_reason": "stop"})]
        )
        assert made.message.tool_calls == [{"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}]
        assert made.problems == {}

    def test_one_index_for_all_and_no_ids(self) -> None:
        made, _ = read([fragment("add", '{"a": 1}', None, 0), fragment("add", '{"a": 2}', None, 0)])
        assert [each["args"] for each in made.message.tool_calls] == [{"a": 1}, {"a": 2}]
        assert len({each["id"] for each in made.message.tool_calls}) == 2

    def test_ids_that_are_made_up_stay_the_same(self) -> None:
        assembler = ResponseAssembler(Reading(offered=OFFERED))
        assembler.feed(fragment("add", "{}", None, 0))
        first, second = assembler.assembled(), assembler.assembled()
        assert first.message.tool_calls == second.message.tool_calls

    def test_whole_messages_with_invalid_calls(self) -> None:
        message = AIMessage(
            "",
            tool_calls=[{"name": "add", "args": {}, "id": "c1"}],
            invalid_tool_calls=[
                {"name": "add", "args": '{"q": "tru', "id": "c2", "error": None, "type": "invalid_tool_call"}
            ],
        )
        made, _ = read([ChatGeneration(message=message)])
        assert [each["id"] for each in made.message.tool_calls] == ["c1", "c2"]
        assert made.problems["c2"]["code"] == "bad_arguments"
        assert made.message.invalid_tool_calls == []

    def test_taken_ids_are_replaced(self) -> None:
        made, _ = read([fragment("add", "{}", "c1", 0)], taken_ids=frozenset({"c1"}))
        assert made.message.tool_calls[0]["id"] not in ("c1", "")

    @pytest.mark.parametrize("wire", [True, False])
    def test_a_stream_without_a_reason_is_cut_on_the_openai_wire_only(self, wire: bool) -> None:
        made, _ = read([fragment("add", '{"a": "hal', "c1", 0)], openai_wire=wire)
        assert (made.finish, made.cut) == ("missing", wire)
        assert made.problems["c1"]["code"] == ("cut_off" if wire else "bad_arguments")

    def test_calls_that_were_not_allowed_are_dropped(self) -> None:
        made, _ = read([chunk("Text"), fragment("add", "{}", "c1", 0)], drop_calls=True)
        assert (made.message.content, made.message.tool_calls, made.problems) == ("Text", [], {})

    def test_native_calls_win_over_calls_in_text(self) -> None:
        markup = '<tool_call>{"name": "search", "arguments": {}}</tool_call>'
        made, shown = read([chunk(markup), fragment("add", "{}", "c1", 0)], text_calls="rescue")
        assert [each["name"] for each in made.message.tool_calls] == ["add"]
        assert "tool_call" not in joined(shown, "content")

    def test_calls_in_text_are_found_after_reasoning_only(self) -> None:
        markup = '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'
        made, shown = read([chunk(f"<think>maybe {markup}</think>{markup}")], text_calls="rescue")
        assert [each["args"] for each in made.message.tool_calls] == [{"a": 1}]
        assert made.message.content.strip() == ""
        assert markup in joined(shown, "thinking")
        assert made.message.additional_kwargs["raw_text"].count(markup) == 2


class TestUsage:
    @staticmethod
    def report(given: int, made: int) -> ChatGenerationChunk:
        usage = {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}
        return chunk("x", usage_metadata=usage)

    def counted(self, pairs: list[tuple[int, int]], **reading: Any) -> tuple[int, int]:
        made, _ = read([self.report(*pair) for pair in pairs], **reading)
        usage = made.meter.result(lambda: (0, 0))
        return usage["input_tokens"], usage["output_tokens"]

    @pytest.mark.parametrize("wire", [True, False])
    def test_running_totals_are_not_added(self, wire: bool) -> None:
        assert self.counted([(35, 0), (35, 1), (35, 2)], openai_wire=wire) == (35, 2)
        assert self.counted([(35, 2), (35, 2)], openai_wire=wire) == (35, 2)

    def test_differences_of_other_adapters_are_added(self) -> None:
        assert self.counted([(35, 3), (0, 4), (0, 2)]) == (35, 9)

    def test_nothing_reported(self) -> None:
        made, _ = read([chunk("x")])
        assert not made.meter.reported


class TestEnd:
    @pytest.mark.parametrize(
        ("info", "kind", "is_cut"),
        [
            ({"finish_reason": "stop"}, "stop", False),
            ({"finish_reason": "length"}, "length", True),
            ({"stop_reason": "max_tokens"}, "length", True),
            ({"stopReason": "end_turn"}, "stop", False),
            ({"done_reason": "length"}, "length", True),
            ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter", False),
            ({"status": "completed"}, "stop", False),
        ],
    )
    def test_finish_reasons_of_any_provider(self, info: dict[str, Any], kind: str, is_cut: bool) -> None:
        made, _ = read([chunk("x", info=info)])
        assert (made.finish, made.cut) == (kind, is_cut)

    def test_repeated_metadata_is_not_joined(self) -> None:
        made, _ = read([chunk("x", info={"finish_reason": "stop", "model_name": "m"})] * 3)
        assert made.message.response_metadata["finish_reason"] == "stop"
        assert made.model_name == "m"

    def test_a_broken_response_keeps_what_was_shown(self) -> None:
        assembler = ResponseAssembler(Reading(offered=OFFERED))
        shown = assembler.feed(chunk("Half a sentence <thi"))
        assembler.feed(fragment("add", '{"a', "c1", 0))
        made = assembler.assembled(broken=True)
        assert made.message.content == joined(shown, "content")
        assert "<thi" not in made.message.content
        assert (made.cut, made.problems["c1"]["code"]) == (True, "cut_off")

    @pytest.mark.parametrize("finish", ["length", "stop", None])
    def test_an_unclosed_block_is_reasoning(self, finish: str | None) -> None:
        made, _ = read([chunk("<think>abc", info={"finish_reason": finish} if finish else None)])
        assert (made.message.content, made.message.additional_kwargs["reasoning_content"]) == ("", "abc")

    def test_a_block_that_the_template_opened_shows_itself(self) -> None:
        assert read([chunk("thought</think>Answer")])[0].stray_close
        assert not read([chunk("<think>thought</think>Answer")])[0].stray_close
