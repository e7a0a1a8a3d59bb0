"""Characters of two code units that a provider cuts in the middle come out whole, in every channel of a response."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk

from turngraph.llm.assemble import Assembled, Delta, Reading, ResponseAssembler
from turngraph.llm.storable import PairJoiner, clean_text, clean_value

TEXTS = st.text(st.sampled_from("a <>`\n{é漢😀𝒳🇩👍"), max_size=20)
ANY = st.text(st.sampled_from("ab\x00é😀\ud83d\ude00\ud800\udfff"), max_size=12)
CUTS = st.sets(st.integers(0, 60), max_size=12)


def units(text: str) -> str:
    """The text as its UTF-16 code units, one character each."""
    data = text.encode("utf-16-le", "surrogatepass")
    return "".join(chr(int.from_bytes(data[at : at + 2], "little")) for at in range(0, len(data), 2))


def cut(text: str, at: set[int]) -> list[str]:
    """The text cut at those code units."""
    whole = units(text)
    edges = sorted({0, len(whole), *(each for each in at if each < len(whole))})
    return [whole[a:b] for a, b in pairwise(edges)]


def read(chunks: list[AIMessageChunk], **reading: Any) -> tuple[Assembled, list[Delta]]:
    assembler = ResponseAssembler(Reading(offered=frozenset({"say"}), **reading))
    shown = [delta for each in chunks for delta in assembler.feed(ChatGenerationChunk(message=each))]
    shown += assembler.end()
    return assembler.assembled(), shown


def joined(shown: list[Delta], kind: str) -> str:
    return "".join(text for each, text in shown if each == kind)


@given(ANY, CUTS)
def test_pieces_join_to_the_clean_whole(text: str, at: set[int]) -> None:
    joiner = PairJoiner()
    assert "".join(joiner.feed(piece) for piece in cut(text, at)) == clean_text(text)


@given(ANY)
def test_clean_text_is_storable_and_clean_already(text: str) -> None:
    made = clean_text(text)
    assert made == clean_text(made)
    assert "\x00" not in made.encode().decode()
    assert [char for char in made if char < "\uffff"] == [char for char in text if char in "abé"]


@given(st.recursive(ANY | st.none() | st.integers(), lambda each: st.lists(each) | st.dictionaries(ANY, each)))
def test_every_text_in_a_value_is_clean(value: Any) -> None:
    json.dumps(clean_value(value), ensure_ascii=False).encode()


@settings(max_examples=200, deadline=None)
@given(TEXTS, CUTS)
def test_content_comes_out_whole(text: str, at: set[int]) -> None:
    made, shown = read([AIMessageChunk(content=piece) for piece in cut(text, at)])
    whole, _ = read([AIMessageChunk(content=text)])
    assert made.message.text == whole.message.text == joined(shown, "content")
    assert made.message.additional_kwargs == whole.message.additional_kwargs
    assert made.message.additional_kwargs.get("raw_text", made.message.text) == text
    assert all(clean_text(piece) == piece for _, piece in shown)


BLOCKS: list[Callable[[str], AIMessageChunk]] = [
    lambda piece: AIMessageChunk(content="", additional_kwargs={"reasoning_content": piece}),
    lambda piece: AIMessageChunk(content=[{"type": "thinking", "thinking": piece, "index": 0}]),
    lambda piece: AIMessageChunk(
        content="",
        additional_kwargs={"reasoning_details": [{"type": "reasoning.text", "text": piece, "index": 0}]},
    ),
]


@pytest.mark.parametrize("block", BLOCKS, ids=["field", "block", "details"])
@given(text=TEXTS, at=CUTS)
def test_reasoning_comes_out_whole(block: Any, text: str, at: set[int]) -> None:
    made, shown = read([*map(block, cut(text, at)), AIMessageChunk(content="Yes.")])
    assert made.message.additional_kwargs.get("reasoning_content", "") == joined(shown, "thinking") == text
    details = made.message.additional_kwargs.get("reasoning_details", [])
    assert "".join(each["text"] for each in details) in ("", text)


def test_sealed_blocks_come_out_whole() -> None:
    pieces = [[{"type": "thinking", "thinking": piece, "index": 0}] for piece in "\ud83d\ude00"]
    sealed = [{"type": "thinking", "signature": "s\ud83d", "index": 0}]
    made, _ = read([AIMessageChunk(content=each) for each in [*pieces, sealed]])
    (block,) = made.message.additional_kwargs["raw_blocks"]
    assert (block["thinking"], block["signature"]) == ("😀", "s")


@given(text=TEXTS, at=CUTS, escaped=st.booleans())
def test_arguments_come_out_whole(text: str, at: set[int], escaped: bool) -> None:
    pieces = cut(json.dumps({text: [text]}, ensure_ascii=escaped), at)
    chunks = [
        AIMessageChunk(
            content="",
            tool_call_chunks=[tool_call_chunk(name=None if n else "say", args=piece, id=None if n else "c", index=0)],
        )
        for n, piece in enumerate(pieces)
    ]
    made, _ = read(chunks)
    assert made.problems == {}
    assert [call["args"] for call in made.message.tool_calls] == [{text: [text]}]


@pytest.mark.parametrize("half", ["\ud83d", "\ude00", "\x00"], ids=["high", "low", "nul"])  # noqa: PT014
def test_half_a_character_is_no_text(half: str) -> None:
    made, shown = read([AIMessageChunk(content="Yes."), AIMessageChunk(content=half)])
    assert made.message == AIMessage(
        content="Yes.", response_metadata={"model_provider": "turngraph", "inner_provider": ""}
    )
    assert shown == [("content", "Yes.")]


def test_halves_of_two_channels_are_no_character() -> None:
    made, shown = read(
        [
            AIMessageChunk(content="a\ud83d"),
            AIMessageChunk(content="", additional_kwargs={"reasoning_content": "\ude00b"}),
            AIMessageChunk(content="\ude00c"),
        ]
    )
    assert (made.message.text, joined(shown, "thinking")) == ("a😀c", "b")


def test_what_a_response_says_of_itself_is_clean() -> None:
    made, _ = read([AIMessageChunk(content="Yes.", response_metadata={"model_name": "m\ud800", "x": ["\x00y"]})])
    assert (made.message.response_metadata["model_name"], made.message.response_metadata["x"]) == ("m", ["y"])
