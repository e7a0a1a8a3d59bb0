"""From whatever a tool returned to the one text of its message; what is too long is cut, and can be read on."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool, StructuredTool

from turngraph.tools import texts
from turngraph.tools.clean import clean, clean_json
from turngraph.tools.plain import as_json
from turngraph.tools.policy import tool_policy

Content: TypeAlias = str | list[str | dict[str, Any]]

_TEXT_BLOCKS = frozenset({"text", "input_text", "output_text", "text-plain"})
_MEDIA_BLOCKS = frozenset({"image", "image_url", "input_image", "audio", "input_audio", "video", "file", "input_file"})
_OTHER_BLOCKS = frozenset(
    {"resource", "resource_link", "reasoning", "thinking", "non_standard", "json", "document", "search_result"}
)


def to_text(value: Any, *, blocks_ok: bool) -> Content:
    """The content of a tool message: one text, or content blocks where `blocks_ok` and there is more than text.

    None and blank texts say that there was no output; content blocks give their texts, one per line, other blocks a
    stated placeholder; bytes a placeholder; everything else its JSON, or a stated form. Never raises.
    Law: what is returned holds no NUL and no lone surrogate.
    """
    if isinstance(value, BaseMessage):
        value = value.content
    if isinstance(value, str):
        return clean(value) if value.strip() else texts.NO_OUTPUT
    blocks = [value] if _is_block(value) else value
    if isinstance(blocks, list | tuple) and blocks and all(_is_block(block) for block in blocks):
        return _from_blocks(list(blocks), blocks_ok)
    if value is None:
        return texts.NO_OUTPUT
    plain = as_json(value)
    return plain if isinstance(plain, str) and not isinstance(value, Enum) else json.dumps(plain, ensure_ascii=False)


def _is_block(value: Any) -> bool:
    """Whether a value is a content block of a known kind. A dict with another `type` is data."""
    if not isinstance(value, Mapping):
        return False
    kind = value.get("type")
    if kind in _TEXT_BLOCKS:
        return isinstance(value.get("text"), str)
    return isinstance(kind, str) and kind in _MEDIA_BLOCKS | _OTHER_BLOCKS and len(value) > 1


def _from_blocks(blocks: list[Any], blocks_ok: bool) -> Content:
    """Content blocks as one text, or kept as blocks where there are media that the model takes."""
    keep = blocks_ok and any(block["type"] in _MEDIA_BLOCKS for block in blocks)
    parts: list[str | dict[str, Any]] = []
    for block in blocks:
        if keep and block["type"] in _MEDIA_BLOCKS:
            parts.append(clean_json(as_json(dict(block))))
        elif text := _block_text(block).strip("\x00"):
            parts.append({"type": "text", "text": clean(text)} if keep else clean(text))
    if keep:
        return parts
    joined = "\n".join(part for part in parts if isinstance(part, str))
    return joined if joined.strip() else texts.NO_OUTPUT


def _block_text(block: Mapping[str, Any]) -> str:
    """The text of a text block, of a resource that holds text, or the placeholder of anything else."""
    kind = block["type"]
    if kind in _TEXT_BLOCKS:
        return str(block["text"])
    resource = block.get("resource")
    if isinstance(resource, Mapping) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    if kind in ("reasoning", "thinking"):
        return ""
    if kind == "json":
        return json.dumps(as_json(block.get("json", block)), ensure_ascii=False)
    return texts.placeholder(kind.removeprefix("input_").removesuffix("_url"), _block_detail(block))


def _block_detail(block: Mapping[str, Any]) -> str:
    """Kind, size and address of a block that is not text, as far as it states them."""
    details = [block.get("mime_type") or block.get("mimeType"), block.get("name") or block.get("filename")]
    data = block.get("base64") or block.get("data")
    url = block.get("url") or block.get("image_url") or block.get("uri")
    url = url.get("url") if isinstance(url, Mapping) else url
    if isinstance(url, str) and url.startswith("data:"):
        head, _, data = url.partition(",")
        details.append(head.removeprefix("data:").partition(";")[0])
        url = None
    details.append(url)
    if isinstance(data, str):
        details.append(f"{_decoded_size(data):,} bytes")
    return ", ".join(dict.fromkeys(str(detail) for detail in details if detail))


def _decoded_size(data: str) -> int:
    return len(data) * 3 // 4 - data[-2:].count("=")


# --- cutting

_SLICE = 2_048
"""Characters that are counted at once: a text of megabytes is never tokenised whole."""
_HEAD_SHARE = 0.7


@dataclass(frozen=True)
class Capped:
    """`text` is what the model is sent; `full` the whole text where that is less, else None."""

    text: str
    full: str | None = None


def cap(text: str, max_tokens: int, call_id: str, count: Callable[[str], int]) -> Capped:
    """A text of at most `max_tokens`: whole where it fits, else head and tail, how much is missing and how to read it.

    `count`: tokens of a text. It is only given pieces of what is kept, so megabytes cost no more than `max_tokens`.
    Laws: `full` is None or the given text; head and tail are its beginning and its end.
    """
    if _fitting(text, max_tokens, count) >= len(text):
        return Capped(text)
    notice = texts.left_out(len(text), len(text), call_id, len(text))
    room = max_tokens - count(notice)
    while room > 0:
        head = _at_line(text[: _fitting(text, int(room * _HEAD_SHARE), count)])
        tail_chars = _fitting(text, room - int(room * _HEAD_SHARE), count, backwards=True)
        tail = text[len(text) - min(tail_chars, len(text) - len(head)) :]
        missing = len(text) - len(head) - len(tail)
        cut = head + texts.left_out(missing, len(text), call_id, len(head)) + tail
        if missing > 0 and count(cut) <= max_tokens:
            return Capped(cut, text)
        room = int(room * 0.9)
    return Capped(texts.left_out(len(text), len(text), call_id, 0).strip(), text)


def _fitting(text: str, tokens: int, count: Callable[[str], int], *, backwards: bool = False) -> int:
    """How many characters from the beginning (or the end) surely fit into a number of tokens."""
    used, kept, step = 0, 0, _SLICE
    while kept < len(text) and step:
        size = min(step, len(text) - kept)
        cost = count(text[len(text) - kept - size : len(text) - kept] if backwards else text[kept : kept + size])
        if used + cost <= tokens:
            used, kept = used + cost, kept + size
        else:
            step = size // 2
    return kept


def _at_line(head: str) -> str:
    """The head up to its last line break, where that is near its end."""
    at = head.rfind("\n", max(0, len(head) - 200))
    return head[: at + 1] if at > 0 else head


def share_caps(sizes: Sequence[int], room: int) -> list[int]:
    """How much each of several results may take where together they must fit into `room` tokens.

    Small ones stay whole, the large ones share the rest evenly. Laws: the caps' sum is at most `room` (or each is 0);
    no cap is above its size; where all fit, caps == sizes; a larger size never has a smaller cap.
    """
    left, caps = max(0, room), [0] * len(sizes)
    order = sorted(range(len(sizes)), key=lambda at: sizes[at])
    for done, at in enumerate(order):
        caps[at] = min(max(0, sizes[at]), left // (len(sizes) - done))
        left -= caps[at]
    return caps


# --- reading on


def page(full: str, offset: int, size: int) -> str:
    """`size` characters of a whole result from `offset` on, and where to go on; or that there is nothing there."""
    if not 0 <= offset < len(full):
        return texts.past_end(offset, len(full))
    end = min(len(full), offset + max(1, size))
    return full[offset:end] + texts.page_end(offset, end, len(full))


def page_within(full: str, offset: int, max_tokens: int, count: Callable[[str], int]) -> str:
    """The longest page from `offset` on that fits into `max_tokens`, its last line included."""
    if not 0 <= offset < len(full):
        return texts.past_end(offset, len(full))
    room = max_tokens - count(texts.page_end(len(full), len(full) - 1, len(full)))
    return page(full, offset, _fitting(full[offset : offset + room * 32], room, count))


@cache
def read_tool_result_tool() -> BaseTool:
    """The schema of `read_tool_result(call_id, offset)`. A turn graph reads the thread's own originals for it."""

    def read_tool_result(call_id: str, offset: int = 0) -> str:
        raise NotImplementedError(
            f"read_tool_result({call_id!r}, {offset}) is answered by a graph of build_turn_graph."
        )

    tool = StructuredTool.from_function(
        read_tool_result,
        name="read_tool_result",
        description=(
            "Read on in a tool result that was shortened or folded. call_id: the id named where it was shortened. "
            "offset: the character to start from."
        ),
    )
    return tool_policy(tool, effect="read")
