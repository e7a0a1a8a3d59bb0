"""Results: one clean text for whatever a tool returned, cut to what it may take, readable to the end."""

import dataclasses
import datetime
import enum
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from pydantic import BaseModel

from turngraph.tools.policy import policy_of
from turngraph.tools.results import cap, page, page_within, read_tool_result_tool, share_caps, to_text

NO_OUTPUT = "(The tool finished and returned no output.)"


class Row(BaseModel):
    name: str
    when: datetime.date


@dataclasses.dataclass
class Point:
    x: int
    tags: set[str]


class Colour(enum.Enum):
    RED = "red"


class Plain:
    def __init__(self) -> None:
        self.size, self._secret = 3, "no"


class Named:
    def __str__(self) -> str:
        return "a named thing"


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("broken")


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, NO_OUTPUT),
        ("", NO_OUTPUT),
        (" \n", NO_OUTPUT),
        ([text_block("")], NO_OUTPUT),
        ("plain", "plain"),
        ("a\x00b\ud800c\ud83d\ude00", "ab\ufffdc😀"),
        (0, "0"),
        (False, "false"),
        (1.5, "1.5"),
        (float("nan"), "nan"),
        ({"a": [1, "é", None]}, '{"a": [1, "é", null]}'),
        ({1: {"x\x00": "\ud800"}}, '{"1": {"x": "\ufffd"}}'),
        ([], "[]"),
        (["a", "b"], '["a", "b"]'),
        ((1, 2), "[1, 2]"),
        ({3, 1, 2}, "[1, 2, 3]"),
        ([text_block("a"), text_block("b")], "a\nb"),
        (text_block("a"), "a"),
        (HumanMessage("said"), "said"),
        ({"type": "user", "id": 3}, '{"type": "user", "id": 3}'),
        (b"\x89PNG", "[4 bytes, not shown as text]"),
        ({"raw": b"ab"}, '{"raw": "[2 bytes, not shown as text]"}'),
        (Row(name="a", when=datetime.date(2024, 5, 1)), '{"name": "a", "when": "2024-05-01"}'),
        ([Row(name="a", when=datetime.date(2024, 5, 1))], '[{"name": "a", "when": "2024-05-01"}]'),
        (Point(1, {"b", "a"}), '{"x": 1, "tags": ["a", "b"]}'),
        (Colour.RED, '"red"'),
        (Path("/tmp/x"), "/tmp/x"),
        (datetime.datetime(2024, 5, 1, 3, 4), "2024-05-01 03:04:00"),
        (Plain(), '{"size": 3}'),
        (Named(), "a named thing"),
        (object(), "[object object, not shown as text]"),
        (Broken(), "[Broken object, not shown as text]"),
        ((x for x in "ab"), "[generator object, not shown as text]"),
        (ValueError("no such row"), "ValueError: no such row"),
        (Document("page", metadata={"p": 1}), None),
    ],
)
def test_whatever_a_tool_returns_becomes_one_text(value: Any, text: str | None) -> None:
    result = to_text(value, blocks_ok=False)
    assert isinstance(result, str)
    assert text is None or result == text
    result.encode()


IMAGE = {"type": "image", "base64": "aGVsbG8=", "mime_type": "image/png"}


def test_other_blocks_have_a_stated_placeholder_or_are_kept() -> None:
    value = [text_block("see"), IMAGE, text_block("")]
    assert to_text(value, blocks_ok=False) == "see\n[image: image/png, 5 bytes, not shown as text]"
    assert to_text(value, blocks_ok=True) == [text_block("see"), IMAGE]
    assert to_text([text_block("a"), text_block("b")], blocks_ok=True) == "a\nb"


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "image_url", "image_url": {"url": "https://x/y.png"}}, "[image: https://x/y.png, not shown as text]"),
        (
            {"type": "image_url", "image_url": "data:image/png;base64,aGk="},
            "[image: image/png, 2 bytes, not shown as text]",
        ),
        ({"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}}, "inside"),
        (
            {"type": "resource_link", "uri": "file:///a", "name": "a"},
            "[resource_link: a, file:///a, not shown as text]",
        ),
        ({"type": "file", "data": "aGk=", "filename": "a.pdf"}, "[file: a.pdf, 2 bytes, not shown as text]"),
        ({"type": "json", "json": {"a": 1}}, '{"a": 1}'),
    ],
)
def test_blocks_of_other_servers(block: dict[str, Any], text: str) -> None:
    assert to_text([block], blocks_ok=False) == text


def test_a_value_that_holds_itself_comes_to_an_end() -> None:
    loop: dict[str, Any] = {}
    loop["me"] = loop
    assert "nested too deeply" in str(to_text(loop, blocks_ok=False))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.builds(Plain) | st.dates(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text() | st.integers(), inner)
    | st.fixed_dictionaries({"type": st.sampled_from(["text", "image", "file", "x"]), "text": st.text() | inner}),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(anything, st.booleans())
def test_a_result_is_never_empty_and_can_always_be_stored(value: Any, blocks_ok: bool) -> None:
    content = to_text(value, blocks_ok=blocks_ok)
    stored = json.dumps(content, ensure_ascii=False)
    stored.encode()
    assert "\x00" not in json.loads(stored)
    assert content
    assert isinstance(content, list) <= blocks_ok
    if isinstance(content, str):
        assert content.strip()


# --- cutting


def quarter(text: str) -> int:
    return -(-len(text) // 4)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=3_000), st.integers(64, 400))
def test_a_cut_result_is_its_head_and_tail_and_fits(text: str, limit: int) -> None:
    capped = cap(text, limit, "call_1", quarter)
    if quarter(text) <= limit:
        assert (capped.text, capped.full) == (text, None)
        return
    assert capped.full == text
    assert quarter(capped.text) <= limit
    head, notice, tail = capped.text.partition("[… ")[0], capped.text, capped.text.rpartition("…]")[2]
    assert text.startswith(head.removesuffix("\n\n"))
    assert text.endswith(tail.removeprefix("\n\n"))
    assert 'read_tool_result(call_id="call_1", offset=' in notice


def test_the_notice_says_how_much_is_missing_and_where_to_read_on() -> None:
    text = "".join(f"line {n}\n" for n in range(5_000))
    capped = cap(text, 500, "c7", quarter)
    offset = int(capped.text.split("offset=")[1].split(")")[0])
    missing = int(capped.text.split("[… ")[1].split(" ")[0].replace(",", ""))
    head, tail = text[:offset], text[offset + missing :]
    assert capped.text.startswith(head)
    assert head.endswith("\n")
    assert capped.text.endswith(tail)
    assert f"of {len(text):,} characters" in capped.text
    assert len(head) > len(tail) > 100
    assert quarter(capped.text) > 450


@pytest.mark.parametrize(
    "text", ["x" * 5_000_000, "word " * 1_000_000, "漢" * 2_000_000, " " * 5_000_000, "a\n" * 2_500_000]
)
def test_megabytes_are_cut_without_counting_them_all(text: str) -> None:
    counted = 0

    def count(piece: str) -> int:
        nonlocal counted
        counted += len(piece)
        return quarter(piece)

    started = time.perf_counter()
    capped = cap(text, 8_000, "c", count)
    assert time.perf_counter() - started < 0.5
    assert counted < 300_000
    assert quarter(capped.text) <= 8_000
    assert capped.full is text


def test_a_limit_below_the_notice_leaves_the_notice() -> None:
    capped = cap("x" * 10_000, 5, "c", quarter)
    assert "read_tool_result" in capped.text
    assert capped.full is not None


@given(st.lists(st.integers(0, 5_000), max_size=12), st.integers(-10, 20_000))
def test_shares_fit_the_room_and_small_results_stay_whole(sizes: list[int], room: int) -> None:
    caps = share_caps(sizes, room)
    assert sum(caps) <= max(0, room)
    assert all(0 <= share <= size for share, size in zip(caps, sizes, strict=True))
    if sum(sizes) <= max(0, room):
        assert caps == sizes
    else:
        assert sum(caps) > max(0, room) - len(sizes)
    for (size, share), (other, its) in zip(
        sorted(zip(sizes, caps, strict=True)), sorted(zip(sizes, caps, strict=True))[1:], strict=False
    ):
        assert size <= other
        assert share <= its


def test_many_medium_results_share_evenly() -> None:
    assert share_caps([100, 9_000, 9_000, 50], 6_150) == [100, 3_000, 3_000, 50]


# --- reading on


def test_pages_lead_to_the_end() -> None:
    full = "0123456789" * 30
    assert page(full, 0, 100) == full[:100] + "\n\n[characters 0-100 of 300; go on with offset=100]"
    assert page(full, 250, 100) == full[250:] + "\n\n[characters 250-300 of 300: this is the end]"
    for offset in (300, 301, -1):
        assert "nothing at offset" in page(full, offset, 10)
    assert "nothing at offset" in page("", 0, 10)


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1, max_size=4_000), st.integers(40, 300))
def test_pages_read_in_order_give_the_whole_text(full: str, tokens: int) -> None:
    read, offset = "", 0
    while offset < len(full):
        shown = page_within(full, offset, tokens, quarter)
        assert quarter(shown) <= tokens
        text, _, end = shown.rpartition("\n\n[characters ")
        read += text
        offset = int(end.split("offset=")[1].rstrip("]")) if "offset=" in end else len(full)
    assert read == full


def test_the_tool_is_a_schema() -> None:
    tool = read_tool_result_tool()
    assert tool.name == "read_tool_result"
    assert list(tool.args) == ["call_id", "offset"]
    assert policy_of(tool).effect == "read"
    with pytest.raises(NotImplementedError, match="build_turn_graph"):
        tool.invoke({"call_id": "c1"})
