"""Counts tokens of messages and tool schemas; each text is counted once."""

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from threading import Lock
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from tiktoken.model import encoding_name_for_model

from turngraph.context.encoding import encoding, warm_up
from turngraph.context.estimate import estimate_text
from turngraph.context.memo import Memo

__all__ = [
    "ToolLike", "count_message", "count_text", "count_tokens", "message_tokens", "real_counts", "tool_tokens",
    "warm_up",
]  # fmt: skip

ToolLike: TypeAlias = BaseTool | Callable[..., Any] | dict[str, Any]

MESSAGE_OVERHEAD = 4
CALL_OVERHEAD = 8
TOOL_OVERHEAD = 12
IMAGE_TOKENS = 1_600
AUDIO_TOKENS = 3_200
FILE_TOKENS = 6_400
"""Flat costs of blocks whose tokens do not follow from their size: near the upper end of what providers bill."""

OTHER_VOCABULARY = 1.25
"""Factor for models that are known to use another vocabulary than o200k_base."""

RUN_CHARACTERS = 400
EXACT_CHARACTERS = 400_000
CACHED_TEXTS = 50_000

_LONG_RUN = re.compile(rf"\S{{{RUN_CHARACTERS + 1},}}|\s{{{RUN_CHARACTERS + 1},}}")
_MEDIA: Mapping[str, int] = {
    "image": IMAGE_TOKENS,
    "image_url": IMAGE_TOKENS,
    "input_image": IMAGE_TOKENS,
    "audio": AUDIO_TOKENS,
    "input_audio": AUDIO_TOKENS,
    "video": FILE_TOKENS,
    "file": FILE_TOKENS,
    "input_file": FILE_TOKENS,
    "document": FILE_TOKENS,
}
_CALL_BLOCKS = frozenset({"tool_use", "tool_call", "function_call", "tool_call_chunk", "invalid_tool_call"})


class _Counts:
    """Tokens by text, newest kept, safe for threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int, bool], int] = OrderedDict()
        self._lock = Lock()
        self.made = 0

    def of(self, text: str) -> int:
        """Tokens of a text, from memory where it was counted before."""
        exact = encoding() is not None
        key = (hash(text), len(text), exact)
        with self._lock:
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return known
        fresh = _count(text)
        with self._lock:
            self.made += 1
            self._known[key] = fresh
            if len(self._known) > CACHED_TEXTS:
                self._known.popitem(last=False)
        return fresh


_counts = _Counts()


def real_counts() -> int:
    """How many texts were really tokenised in this process, repeats excluded."""
    return _counts.made


def _count(text: str) -> int:
    """Tokens of a text by the vocabulary; of a huge text, or without vocabulary, by estimate.

    Runs without a break are cut before they are merged: merging takes more than linear time in the length of a run.
    Each cut counts as one token more, so that the result errs high.
    """
    vocabulary = encoding()
    if vocabulary is None or len(text) > EXACT_CHARACTERS:
        return estimate_text(text)
    if len(text) <= RUN_CHARACTERS or not _LONG_RUN.search(text):
        return len(vocabulary.encode_ordinary(text))
    total, at = 0, 0
    for run in _LONG_RUN.finditer(text):
        total += len(vocabulary.encode_ordinary(text[at : run.start()]))
        for start in range(run.start(), run.end(), RUN_CHARACTERS):
            total += len(vocabulary.encode_ordinary(text[start : min(start + RUN_CHARACTERS, run.end())])) + 1
        at = run.end()
    return total + len(vocabulary.encode_ordinary(text[at:]))


def count_text(text: str) -> int:
    """Tokens of one text by o200k_base, or an estimate that errs high. 0 for the empty text."""
    return _counts.of(text) if text else 0


def count_tokens(messages: Sequence[BaseMessage], tools: Sequence[ToolLike] = (), model: str | None = None) -> int:
    """Tokens that a request with these messages and tool schemas takes.

    Messages are counted as they are given: text, tool calls, reasoning that is still with its message, a flat cost
    for each image, audio or file, and an overhead for each message. `model` ("gpt-4" or "openai:gpt-4"): where it
    is known to use another vocabulary, the count is raised by a quarter.

    Law: `count_tokens(a + b, t) == count_tokens(a) + count_tokens(b, t)` for the same model None.
    """
    total = sum(message_tokens(message) for message in messages) + tool_tokens(tools)
    return ceil(total * _factor(model))


def _factor(model: str | None) -> float:
    if model is None:
        return 1.0
    try:
        name = encoding_name_for_model(model.rpartition(":")[2])
    except KeyError:
        return OTHER_VOCABULARY
    return 1.0 if name.startswith("o200k") else OTHER_VOCABULARY


_messages: Memo[tuple[Any, Any, Any, int]] = Memo()
"""By message: the fields that were counted, and their tokens."""


def message_tokens(message: BaseMessage) -> int:
    """Tokens of one message as it is given, its overhead included; counted again where a field was set anew."""
    content, kwargs = message.content, message.additional_kwargs
    calls = message.tool_calls if isinstance(message, AIMessage) else None
    known = _messages.get(message)
    if known is None or known[0] is not content or known[1] is not kwargs or known[2] is not calls:
        known = _messages.put(message, (content, kwargs, calls, count_message(message)))
    return known[3]


def count_message(message: BaseMessage) -> int:
    """`message_tokens`, counted now."""
    total = MESSAGE_OVERHEAD + _content_tokens(message.content)
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            total += CALL_OVERHEAD + count_text(call["name"]) + count_text(_json(call["args"]))
            total += count_text(call["id"] or "")
        reasoning = message.additional_kwargs.get("reasoning_content")
        if isinstance(reasoning, str):
            total += count_text(reasoning)
    elif isinstance(message, ToolMessage):
        total += count_text(message.tool_call_id)
    if message.name:
        total += count_text(message.name)
    return total


def _content_tokens(content: str | list[str | dict[str, Any]]) -> int:
    if isinstance(content, str):
        return count_text(content)
    return sum(count_text(block) if isinstance(block, str) else _block_tokens(block) for block in content)


def _block_tokens(block: Mapping[str, Any]) -> int:
    """Tokens of one content block. Blocks that repeat a tool call cost nothing: the call itself is counted."""
    kind = str(block.get("type", ""))
    if kind in _CALL_BLOCKS:
        return 0
    if (flat := _MEDIA.get(kind)) is not None:
        text = block.get("text")
        return flat + (count_text(text) if isinstance(text, str) else 0)
    for field in ("text", "thinking", "reasoning", "reasoning_content"):
        if isinstance(value := block.get(field), str):
            return count_text(value)
    return count_text(_json(block))


def tool_tokens(tools: Sequence[ToolLike]) -> int:
    """Tokens of tool schemas as they are sent: JSON of name, description and parameters."""
    return sum(_one_tool(tool) for tool in tools)


_tools: Memo[tuple[Any, Any, Any, int]] = Memo()
"""By tool: what its schema is made of, and its tokens."""


def _one_tool(tool: ToolLike) -> int:
    """Tokens of one tool's schema; drawn once for each tool, and again where its description or arguments changed."""
    if not isinstance(tool, BaseTool):
        return TOOL_OVERHEAD + count_text(_json(_schema(tool)))
    known = _tools.get(tool)
    if known is None or (known[0], known[1]) != (tool.name, tool.description) or known[2] is not tool.args_schema:
        tokens = TOOL_OVERHEAD + count_text(_json(_schema(tool)))
        known = _tools.put(tool, (tool.name, tool.description, tool.args_schema, tokens))
    return known[3]


def _schema(tool: ToolLike) -> dict[str, Any]:
    if isinstance(tool, dict):
        return tool
    try:
        return convert_to_openai_tool(tool)
    except Exception:  # noqa: BLE001 - a tool without a drawable schema still has a name and a description
        name = getattr(tool, "name", getattr(tool, "__name__", ""))
        return {"name": name, "description": getattr(tool, "description", "") or ""}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
