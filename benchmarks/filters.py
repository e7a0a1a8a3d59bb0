"""Throughput of the streaming text filters, and whether the time per character stays flat as the text grows.

Run: python benchmarks/filters.py [--megabytes 4] [--chunk 4] [--largest 1000000] [--only NAME]
Prints millions of characters per second of processor time, in chunks of a few characters as models stream them, for
each filter and for both in a row; then nanoseconds per character from 1 KB to `--largest`, in chunks and in one piece,
for ordinary texts and for texts made to be slow. `--only` leaves the texts whose names hold NAME.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from turngraph.llm.text_tools import TextCallParser
from turngraph.llm.think import InlineThinkFilter


class Filter(Protocol):
    def feed(self, text: str, /) -> Any: ...

    def flush(self) -> Any: ...


class Both:
    """The two filters as a response goes through them."""

    def __init__(self) -> None:
        self._think = InlineThinkFilter()
        self._calls = TextCallParser(["search"], protocol=True)

    def feed(self, text: str) -> None:
        for kind, piece in self._think.feed(text):
            if kind == "content":
                self._calls.feed(piece)

    def flush(self) -> None:
        for kind, piece in self._think.flush():
            if kind == "content":
                self._calls.feed(piece)
        self._calls.flush()


FILTERS: dict[str, Callable[[], Filter]] = {
    "think": InlineThinkFilter,
    "calls": lambda: TextCallParser(["search"], protocol=True),
    "both": Both,
}

PROSE = "The filters read what a model writes while it streams, and most of what it writes is plain.\n"

TEXTS: dict[str, tuple[str, str]] = {
    "prose": ("", PROSE),
    "one line": ("", PROSE.replace("\n", " ")),
    "chinese": ("", "过滤器在模型输出的同时读取文本，大部分内容只是普通文字而已。\n"),
    "code": ("```python\n", "    if a < b and c[0] > d:\n        total += values[index]\n"),
    "block": ("<think>", PROSE),
}
"""Beginning of the text, and what is repeated after it."""

SLOW: dict[str, tuple[str, str]] = {
    "all <": ("", "<"),
    "all `": ("", "`"),
    "all ~": ("", "~"),
    "` and text": ("", "` a "),
    "line breaks": ("", "\n"),
    "spaces": ("", " "),
    "space after a tag": ("<think></think>", " "),
    "open block": ("<think>", "a <"),
    "<think repeated": ("", "<think"),
    "<think> repeated": ("", "<think>"),
    "</think repeated": ("<think>", "</think"),
    "think pairs": ("", "<think>a</think>b"),
    "attributes": ("", '<think a="b" c='),
    "quotes": ("", '"'),
    "quoted markers": ("", '"<tool_call>'),
    "<tool_call> repeated": ("", "<tool_call>"),
    "closing in JSON text": ('<tool_call>{"name": "search", "arguments": {"a": "', "</tool_call>"),
    "open JSON text": ("", '<tool_call>{"a": "</tool_call>'),
    "brackets": ("<tool_call>", "["),
    "< in JSON": ("<tool_call>{", "<"),
    "backslashes": ('<tool_call>{"', "\\"),
    "closing in a value": ("<function=search><parameter=q>", "</parameter>"),
    "space in a value": ("<function=search><parameter=q></parameter>", " "),
    "space in a block": ("<tool_call>", " "),
    "calls": ("", '<tool_call>{"name": "search", "arguments": {}}</tool_call>\n'),
    "other calls": ("", '<tool_call>{"name": "other", "arguments": {}}</tool_call>\n'),
    "[TOOL_CALLS] repeated": ("", "[TOOL_CALLS]"),
    "fenced call": ('```json\n{"name": "search", "arguments": {"a": "', "a"),
    "< in a fenced call": ('```json\n{"name": "search", "arguments": {"a": ', "<"),
}


def made(parts: tuple[str, str], size: int) -> str:
    begin, again = parts
    return (begin + again * (size // len(again) + 1))[:size]


def chunks(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def seconds(new: Callable[[], Filter], pieces: list[str]) -> float:
    parser = new()
    feed = parser.feed
    started = time.process_time()
    for piece in pieces:
        feed(piece)
    parser.flush()
    return time.process_time() - started


def throughput(characters: int, chunk: int) -> None:
    print(f"million characters per second, in chunks of {chunk} (best of 3)")
    print(f"{'':10}" + "".join(f"{name:>10}" for name in FILTERS))
    for name, parts in TEXTS.items():
        pieces = list(chunks(made(parts, characters), chunk))
        best = [min(seconds(new, pieces) for _ in range(3)) for new in FILTERS.values()]
        print(f"{name:10}" + "".join(f"{characters / each / 1e6:10.1f}" for each in best), flush=True)


def growth(largest: int, chunk: int, only: str) -> None:
    sizes = [size for size in (1_000, 10_000, 100_000, 1_000_000, 10_000_000) if size <= largest]
    print(f"\nnanoseconds per character, both filters in a row, in chunks of {chunk} / in one piece")
    print(f"{'':24}" + "".join(f"{size:>18,}" for size in sizes))
    for name, parts in (TEXTS | SLOW).items():
        if only not in name:
            continue
        row = []
        for size in sizes:
            text = made(parts, size)
            each = [seconds(Both, list(chunks(text, length))) / size * 1e9 for length in (chunk, size)]
            row.append(f"{each[0]:9.0f} /{each[1]:6.0f}")
        print(f"{name:24}" + "".join(f"{cell:>18}" for cell in row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--megabytes", type=float, default=4.0, help="characters (millions) for the throughput")
    parser.add_argument("--chunk", type=int, default=4, help="characters in a chunk")
    parser.add_argument("--largest", type=int, default=1_000_000, help="largest text for the growth, characters")
    parser.add_argument("--only", default="", help="part of the name of a text, for the growth")
    options = parser.parse_args()
    throughput(int(options.megabytes * 1e6), options.chunk)
    growth(options.largest, options.chunk, options.only)


if __name__ == "__main__":
    main()
