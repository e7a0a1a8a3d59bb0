"""Server-sent events: legal streams give the same events however they are cut, and damaged ones lose nothing whole."""

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngraph.llm.sse import SseDecoder


def events(data: bytes, at: set[int] | None = None) -> list[tuple[str | None, str]]:
    edges = sorted({0, len(data), *(each for each in at or () if each < len(data))})
    chunks = [data[a:b] for a, b in pairwise(edges)]
    return [(event.event, event.data) for event in SseDecoder().iter_bytes(iter(chunks))]


LINES = st.lists(
    st.sampled_from(
        [
            *("data: a", "data:b", "data", "data:", "data: ", 'data: {"é漢😀": 1}', "data: [DONE]", "data:  two"),
            *("data: x:y", ": c", ":", "id: 7", "id", "retry: 9", "event: ping", "event:", "odd", "odd: x", "", "", ""),
        ]
    ),
    max_size=20,
)


def expected(lines: list[str]) -> list[tuple[str | None, str]]:
    """The standard's own steps, for whole lines."""
    found: list[tuple[str | None, str]] = []
    data: list[str] = []
    name: str | None = None
    for line in lines:
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if not line:
            if "\n".join(data).strip():
                found.append((name or None, "\n".join(data)))
            data, name = [], None
        elif field == "data":
            data.append(value)
        elif field == "event":
            name = value
    return found


@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.sets(st.integers(0, 200), max_size=12), st.booleans())
def test_events_are_the_standards_however_the_bytes_are_cut(
    lines: list[str], ending: str, at: set[int], mark: bool
) -> None:
    lines = [*lines, "", ""]
    data = b"\xef\xbb\xbf" * mark + "".join(line + ending for line in lines).encode()
    assert events(data, at) == expected(lines)


def test_async_and_sync_are_one_reader() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for each in (b"data: a\n", b"\nda", b"ta: {}"):
            yield each

    async def gather() -> list[str]:
        return [event.data async for event in SseDecoder().aiter_bytes(chunks())]

    assert asyncio.run(gather()) == ["a", "{}"]


@pytest.mark.parametrize(
    ("tail", "data"),
    [
        ('data: {"a": 1}', ['{"a": 1}']),
        ('data: {"a":\ndata: 1}\n', ['{"a":\n1}']),
        ('data: {"a": ', []),
        ("data: [DONE]", []),
        ("data: ", []),
        ("id: 7", []),
        ("data: " + "[" * 100_000, []),
    ],
)
def test_the_last_event_counts_without_its_blank_line_where_it_is_whole(tail: str, data: list[str]) -> None:
    assert events(b"data: first\n\n" + tail.encode()) == [(None, "first"), *((None, each) for each in data)]


def test_bytes_that_are_no_utf8_do_not_take_their_neighbours_with_them() -> None:
    found = events(b'data: {"a": "x\xff\xfey"}\n\ndata: {"a": "b"}\n\ndata: {"a": "\xc3')
    assert [json.loads(data)["a"] for _, data in found] == ["x\ufffd\ufffdy", "b"]


def test_a_long_line_in_many_chunks() -> None:
    text = "x" * 2_000_000
    data = f"data: {text}\n\n".encode()
    found: list[Any] = events(data, set(range(0, len(data), 1_000)))
    assert found == [(None, text)]
