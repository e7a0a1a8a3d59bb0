"""The think filter: what is reasoning, what is text, whatever pieces it arrives in."""

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngraph.llm.think import MAX_TAG, InlineThinkFilter, Kind, Piece, split_think


def joined(pieces: list[Piece], kind: Kind) -> str:
    return "".join(text for each, text in pieces if each == kind)


def read(chunks: list[str], *, opened: bool = False) -> tuple[str, str, bool, bool]:
    """Content, thinking, whether a stray closing tag came, whether a block is open; checks the laws of one call."""
    parser = InlineThinkFilter(opened=opened)
    pieces: list[Piece] = []
    fed = ""
    for chunk in chunks:
        fed += chunk
        made = parser.feed(chunk)
        assert all(text for _, text in made)
        assert all(one[0] != other[0] for one, other in pairwise(made))
        pieces += made
    pieces += parser.flush()
    assert parser.flush() == []
    return joined(pieces, "content"), joined(pieces, "thinking"), parser.saw_stray_close, parser.unclosed


EXAMPLES = [
    # text, content, thinking
    ("", "", ""),
    ("plain", "plain", ""),
    ("<think>why</think>answer", "answer", "why"),
    ("<thinking>why</thinking>answer", "answer", "why"),
    ("<think>why</thinking>answer", "answer", "why"),
    ("<THINK>why</Think>answer", "answer", "why"),
    ("<think>why</think>\n\nHi", "Hi", "why"),
    ("<think>why</think> \t\r\n Hi\n", "Hi\n", "why"),
    ("Hello <think>why</think>\n\nworld", "Hello \n\nworld", "why"),
    ("\n<think>why</think>\n\nHi", "\nHi", "why"),
    ("<think>a</think>\n<think>b</think>\nHi", "Hi", "ab"),
    ("<think>\n  why\n</think>Hi", "Hi", "\n  why\n"),
    ("<think >why</think >x", "x", "why"),
    ("<think\n>why</ think\t>x", "x", "why"),
    ('<think id="1">why</think>x', "x", "why"),
    ("<think a='1' b=2>w</think>x", "x", "w"),
    ("<think/>x", "x", ""),
    ("<think />\n\nx", "x", ""),
    ("< think>why</think>x", "< think>whyx", ""),
    ("a < b and b > c", "a < b and b > c", ""),
    ("a <b", "a <b", ""),
    ("1 <t and <th and <thin", "1 <t and <th and <thin", ""),
    ("<thinker>x</thinker>", "<thinker>x</thinker>", ""),
    ("<thinks>", "<thinks>", ""),
    ("<thought>x</thought>", "<thought>x</thought>", ""),
    ("<reasoning>x</reasoning>", "<reasoning>x</reasoning>", ""),
    ("<think and b > c", "<think and b > c", ""),
    ("<think", "<think", ""),
    ("<think>cut off", "", "cut off"),
    ("<think>cut off</thi", "", "cut off</thi"),
    ("<think>a < b </b> <think</think>c", "c", "a < b </b> <think"),
    ("<think>say `</think>` x", "` x", "say `"),
    ("<think>```\ncode</think>x", "x", "```\ncode"),
    ("<think>a<think>b</think>c", "c", "a<think>b"),
    ("<think>\n<think>a</think>b", "b", "\na"),
    ("<think>a<think>b</think>c</think>d", "cd", "a<think>b"),
    ("text</think>more", "textmore", ""),
    ("</think>\n\nmore", "more", ""),
    ("<think></think>", "", ""),
    ("x<think>a</think>y<think>b</think>z", "xyz", "ab"),
    ("`<think>` is a tag", "`<think>` is a tag", ""),
    ("`` ` <think>x</think> ``<think>y</think>", "`` ` <think>x</think> ``", "y"),
    ("a ` b\n<think>y</think>c", "a ` b\nc", "y"),
    ("``` <think> ``` <think>y</think>c", "``` <think> ``` c", "y"),
    ("```xml\n<think>x</think>\n```\n<think>y</think>z", "```xml\n<think>x</think>\n```\nz", "y"),
    ("~~~\n<think>x</think>\n~~~\n<think>y</think>z", "~~~\n<think>x</think>\n~~~\nz", "y"),
    ("~~struck~~ <think>y</think>z", "~~struck~~ z", "y"),
    ("a ~~~\n<think>y</think>z", "a ~~~\nz", "y"),
    ("````\n```\n<think>\n````\n<think>y</think>", "````\n```\n<think>\n````\n", "y"),
    ("```\n~~~\n<think>\n```\n<think>y</think>", "```\n~~~\n<think>\n```\n", "y"),
    ("```\n``` no end\n<think>x</think>", "```\n``` no end\n<think>x</think>", ""),
    ("```\n<think>x</think>", "```\n<think>x</think>", ""),
    ("- ```\n  <think>\n  ```\n<think>y</think>", "- ```\n  <think>\n  ```\n", "y"),
    ("> ```\n> <think>\n> ```\n<think>y</think>", "> ```\n> <think>\n> ```\n", "y"),
    ("<think>x</think>```\n<think>\n```", "```\n<think>\n```", "x"),
    ("<think>x</think>\n```\n</think>\n```\n", "```\n</think>\n```\n", "x"),
    ("日本<think>考え</think>語", "日本語", "考え"),
    ("<thin\u212a>x", "<thin\u212a>x", ""),
]


@pytest.mark.parametrize(("text", "content", "thinking"), EXAMPLES)
def test_examples(text: str, content: str, thinking: str) -> None:
    assert split_think(text) == (content, thinking)


@pytest.mark.parametrize(
    ("text", "content", "thinking"),
    [
        ("why</think>answer", "answer", "why"),
        ("why</think>\n\nanswer", "answer", "why"),
        ("</think>answer", "answer", ""),
        ("<think>why</think>answer", "answer", "why"),
        ("<think>\nwhy</think>answer", "answer", "\nwhy"),
        ("why, never closed", "", "why, never closed"),
        ("use `</think>", "", "use `"),
        ("a</think>b<think>c</think>d", "bd", "ac"),
    ],
)
def test_a_block_that_the_template_opened(text: str, content: str, thinking: str) -> None:
    assert split_think(text, opened=True) == (content, thinking)
    assert read(list(text), opened=True)[:2] == (content, thinking)


def test_the_caller_can_see_what_happened() -> None:
    assert read(["reasoning</think>answer"]) == ("reasoninganswer", "", True, False)
    assert read(["<think>a</think>answer"])[2:] == (False, False)
    assert read(["`</think>`"])[2:] == (False, False)
    assert read(["<think>abc"]) == ("", "abc", False, True)
    assert read(["abc"], opened=True) == ("", "abc", False, True)
    assert read(["abc</think>x</think>y"], opened=True) == ("xy", "abc", True, False)


def test_plain_text_is_never_held_back() -> None:
    parser = InlineThinkFilter()
    for chunk in ["a", " ", "<", " b", "\n", "```", "\n", "~", "`", "<=", "<<", " [", "<div>", "<table"]:
        out = joined(parser.feed(chunk), "content")
        if not chunk.endswith("<"):
            assert out.endswith(chunk[-1:])
    assert parser.flush() == []


def test_only_the_tag_sought_is_held_back() -> None:
    parser = InlineThinkFilter()
    assert parser.feed("a<thi") == [("content", "a")]
    assert parser.feed("s") == [("content", "<this")]
    assert parser.feed("<think>b<th") == [("thinking", "b<th")]
    assert parser.feed("</thi") == []
    assert parser.feed("n ") == [("thinking", "</thin ")]
    assert parser.feed("</think") == []
    assert parser.feed(">c") == [("content", "c")]


@pytest.mark.parametrize("spaces", range(30))
def test_a_tag_longer_than_the_bound_is_text(spaces: int) -> None:
    tag = "<think" + " " * spaces + ">"
    expected = ("", "x") if len(tag) <= MAX_TAG else (tag + "x", "")
    assert split_think(tag + "x") == expected
    assert read(list(tag + "x"))[:2] == expected


def test_first_piece_of_an_answer_comes_at_once() -> None:
    parser = InlineThinkFilter()
    assert parser.feed("<think>") == []
    assert parser.feed("so") == [("thinking", "so")]
    assert parser.feed("</think>\n") == []
    assert parser.feed("\nYes") == [("content", "Yes")]
    assert parser.feed(" and\n") == [("content", " and\n")]


PARTS = ["<think>", "</think>", "<thinking a='b'>", "a < b", "`x`", "```\n", "\n\n", "<th", "</thin", "text ", "~~~\n"]
CORPUS = [text for text, _, _ in EXAMPLES] + ["".join(parts) for parts in product(PARTS[:6], PARTS[3:], PARTS[:4])]


def test_every_split_of_every_text_gives_the_same() -> None:
    assert len(CORPUS) >= 200
    for text, opened in product(CORPUS, (False, True)):
        whole = read([text], opened=opened)
        assert read(list(text), opened=opened) == whole
        for at in range(1, len(text)):
            assert read([text[:at], text[at:]], opened=opened) == whole


FRAGMENTS = [*PARTS, *"<>/`\n é", "``", "````", "- ", "> ", "<think/>", "</THINK >", "<think x=", "1."]
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.lists(st.integers(1, 9), min_size=1, max_size=40), st.booleans())
def test_chunks_change_nothing(text: str, sizes: list[int], opened: bool) -> None:
    chunks, at = [], 0
    for size in sizes:
        chunks.append(text[at : at + size])
        at += size
    chunks.append(text[at:])
    assert read(chunks, opened=opened) == read([text], opened=opened)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
def test_what_is_held_back_is_short_and_may_be_a_tag(text: str) -> None:
    parser = InlineThinkFilter()
    given_out = taken_in = 0
    for character in text:
        before = parser.feed(character)
        taken_in += 1
        given_out += sum(len(piece) for _, piece in before)
        if parser._held:
            assert len(parser._held) < MAX_TAG
            assert parser._held[0] == "<"
            name = parser._held.lstrip("</").lower()
            assert "thinking".startswith(name[:8].rstrip()) or name.startswith("think")
    assert given_out <= taken_in


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab <>/`~\n\r\t-", max_size=60))
def test_text_without_tags_is_lossless(text: str) -> None:
    assert split_think(text) == (text, "")


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="abc <>/`\n", max_size=40), st.text(alphabet="abc <>/\n", max_size=40))
def test_a_block_is_found_whatever_it_holds(reason: str, answer: str) -> None:
    assert split_think(f"<think>{reason}</think>{answer}") == (answer.lstrip(), reason)


@pytest.mark.parametrize(
    "unit", ["<", "`", "<think", "<think>", "</think>", "~~~\n", "` a\n", "<think></think> ", "\n", '<think a="']
)
def test_work_grows_linearly(unit: str) -> None:
    def steps(size: int) -> int:
        """Characters that the filter looks at again because they were held."""
        parser = InlineThinkFilter()
        text, looked = (unit * size)[:size], 0
        for at in range(0, size, 4):
            looked += len(parser._held) + 4
            parser.feed(text[at : at + 4])
        return looked

    assert steps(8_000) <= 2.2 * steps(4_000)
