"""What one chunk or message of any LangChain model says, channel by channel; the only place that looks at its shape."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from langchain_core.messages import AIMessageChunk, BaseMessage, UsageMetadata
from langchain_core.outputs import ChatGeneration

from turngraph.llm.calls import CallFragment, RawCall, from_langchain

Part: TypeAlias = tuple[Literal["text", "reasoning"], str]

PROVIDER = "turngraph"
"""`model_provider` of our messages: under any other name LangChain reads blocks in that provider's own way, and with
`openai` it leaves reasoning out."""

CHOICE = "turngraph_choice"
"""Key of a chunk's generation info: the number of the choice that it is part of."""

_PRIVATE = frozenset({"tool_calls", "function_call", "reasoning_content", "reasoning", "thinking", "parsed"})
"""Additional kwargs that are read here and stored in another form."""

_SEALED = frozenset({"signature", "encrypted_content", "encrypted", "data", "thought_signature", "extras"})
"""Keys of blocks that only their provider can read, and wants back unchanged."""


_CALL_BLOCKS = frozenset(
    {"tool_use", "tool_call", "tool_call_chunk", "invalid_tool_call", "input_json_delta", "function_call"}
)

_LABELS = frozenset({"id", "type", "name", "role", "format", "signature"})
"""Keys whose text is repeated from chunk to chunk, never continued."""


@dataclass(frozen=True)
class Piece:
    """One chunk taken apart, its text as it came. `fragments` are parts of streamed calls, `calls` whole ones.

    `blocks` is the content as it came where it holds something sealed by its provider, else empty. `choice` numbers
    the answer where the provider writes several at once, None where it does not say.
    """

    parts: list[Part] = field(default_factory=list)
    fragments: list[CallFragment] = field(default_factory=list)
    calls: list[RawCall] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    usage: Mapping[str, Any] | None = None
    blocks: list[Any] = field(default_factory=list)
    choice: int | None = None


def read_piece(generation: ChatGeneration) -> Piece:
    """Takes a chunk (or a whole answer) apart. Never raises for what a provider put in it."""
    message = generation.message
    content = message.content
    kwargs = message.additional_kwargs
    parts: list[Part] = []
    blocks: list[Any] = []
    if isinstance(content, str):
        parts.append(("text", content))
    else:
        parts.extend(part for block in content for part in block_parts(block))
        blocks = content
    if not any(kind == "reasoning" and text for kind, text in parts):
        parts.insert(0, ("reasoning", _kwargs_reasoning(kwargs)))
    streamed = isinstance(message, AIMessageChunk)
    info = dict(generation.generation_info or {})
    choice = info.pop(CHOICE, None)
    return Piece(
        parts=[(kind, text) for kind, text in parts if text],
        fragments=_fragments(message) if streamed else [],
        calls=[] if streamed else from_langchain(message),  # type: ignore[arg-type]
        metadata=_plain({**message.response_metadata, **info}),
        extra=_plain({key: value for key, value in kwargs.items() if key not in _PRIVATE}),
        usage=getattr(message, "usage_metadata", None),
        blocks=blocks,
        choice=choice,
    )


def is_sealed(blocks: Iterable[Any]) -> bool:
    """True where a block holds something that its provider signed or encrypted."""
    return any(
        _SEALED & block.keys() or (block.get("type") == "reasoning" and block.get("id"))
        for block in blocks
        if isinstance(block, Mapping)
    )


def without_calls(blocks: Any) -> list[Any]:
    """The blocks without those of tool calls, which the message holds in a normalised form."""
    if not isinstance(blocks, list):
        return []
    return [block for block in blocks if not (isinstance(block, Mapping) and block.get("type") in _CALL_BLOCKS)]


def merge_plain(left: dict[str, Any], right: Mapping[str, Any]) -> dict[str, Any]:
    """Deltas of JSON values put together: texts and lists joined, objects merged, anything else replaced."""
    merged = dict(left)
    for key, value in right.items():
        held = merged.get(key)
        match held, value:
            case str(), str():
                merged[key] = value if key in _LABELS and held == value else held + value
            case list(), list():
                merged[key] = [*held, *value]
            case dict(), dict():
                merged[key] = merge_plain(held, value)
            case _:
                merged[key] = value
    return merged


def _fragments(message: BaseMessage) -> list[CallFragment]:
    chunks = getattr(message, "tool_call_chunks", [])
    return [CallFragment(each.get("index"), each.get("id"), each.get("name"), each.get("args")) for each in chunks]


def block_parts(block: Any) -> list[Part]:
    """The text and reasoning of one content block; blocks of calls, media and annotations have neither."""
    if isinstance(block, str):
        return [("text", block)]
    if not isinstance(block, Mapping):
        return []
    match block.get("type"):
        case "text" | "output_text" | "text_delta":
            return [("text", _text(block.get("text")))]
        case "refusal":
            return [("text", _text(block.get("refusal")))]
        case "thinking" | "reasoning" | "reasoning_content":
            return [("reasoning", _reasoning_text(block))]
        case None:
            # Bedrock's and Cohere's plain {"text": ...}.
            return [("text", _text(block.get("text")))]
        case _:
            return []


def _kwargs_reasoning(kwargs: Mapping[str, Any]) -> str:
    """Reasoning beside the content. Fields that repeat each other in one chunk count once."""
    for key in ("reasoning_content", "reasoning", "thinking"):
        text = _reasoning_text(kwargs.get(key))
        if text:
            return text
    return _reasoning_text(kwargs.get("reasoning_details"))


def _reasoning_text(value: Any) -> str:
    """The readable text of reasoning in any shape: text, a block, a list of blocks, a summary."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        for key in ("reasoning", "reasoning_content", "thinking", "text", "summary", "content"):
            if text := _reasoning_text(value.get(key)):
                return text
        return ""
    if isinstance(value, Iterable):
        return "".join(_reasoning_text(each) for each in value)
    return ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that are plain JSON."""
    plain: dict[str, Any] = {}
    for key, value in values.items():
        if value is None:
            continue
        if not isinstance(value, str | int):
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError, RecursionError):
                continue
        plain[key] = value
    return plain


def usage_metadata(usage: Mapping[str, Any]) -> UsageMetadata:
    """Our usage in LangChain's form."""
    made = UsageMetadata(
        input_tokens=usage["input_tokens"], output_tokens=usage["output_tokens"], total_tokens=usage["total_tokens"]
    )
    if "cached_tokens" in usage:
        made["input_token_details"] = {"cache_read": usage["cached_tokens"]}
    if "reasoning_tokens" in usage:
        made["output_token_details"] = {"reasoning": usage["reasoning_tokens"]}
    return made


def joined_details(details: Iterable[Any]) -> list[Any]:
    """OpenRouter's reasoning details, whose deltas continue the entry of the same type and index before them."""
    joined: list[Any] = []
    for each in details:
        last = joined[-1] if joined else None
        if (
            isinstance(each, Mapping)
            and isinstance(last, dict)
            and each.get("index") is not None
            and (each.get("type"), each["index"]) == (last.get("type"), last.get("index"))
        ):
            joined[-1] = merge_plain(last, {key: value for key, value in each.items() if value is not None})
        else:
            joined.append(dict(each) if isinstance(each, Mapping) else each)
    return joined
