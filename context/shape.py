"""The shape in which one message is sent, by the model's profile. Works on copies; the tape is never changed."""

import json
import math
import re
from typing import Any, TypeAlias, TypeVar

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from turngraph.context import texts
from turngraph.state.settings import ModelProfile

ShapeKey: TypeAlias = tuple[bool | None, bool | None]
"""What of a profile decides the shape of one message."""

_M = TypeVar("_M", bound=BaseMessage)
_UNSENDABLE = re.compile("[\x00\ud800-\udfff]")
_REASONING = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
_NEVER_SENT = frozenset({"turngraph", "raw_text", "calls_in_text", "tool_calls", "function_call"})
"""Ours, and the raw calls that some integrations keep beside the parsed ones and would send instead of them."""


def clean(text: str) -> str:
    """The text without characters that no provider takes: NUL and lone surrogates become U+FFFD."""
    if "\x00" not in text and (text.isascii() or not _UNSENDABLE.search(text)):
        return text
    return _UNSENDABLE.sub("\ufffd", text)


def clean_json(value: Any) -> Any:
    """A JSON value whose strings and numbers can be sent: texts cleaned, NaN and infinities null."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): clean_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [clean_json(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def shape_key(profile: ModelProfile) -> ShapeKey:
    """Law: profiles of one key give one shape to every message."""
    return profile.reasoning_back, profile.string_tool_content


def shape_message(message: BaseMessage, profile: ModelProfile) -> BaseMessage | None:
    """The message as it is sent; None for an assistant message of which nothing is left.

    Removes what is not for the model; an assistant message is sent with its raw text and its reasoning where the
    profile says so; a tool message gets one string unless the profile takes blocks.
    """
    match message:
        case AIMessage():
            return _assistant(message, profile)
        case ToolMessage():
            return _with(message, {"content": tool_content(message.content, profile)})
        case HumanMessage():
            content = _blocks(message.content)
            empty = not content or (isinstance(content, str) and not content.strip())
            return _with(message, {"content": texts.EMPTY_USER if empty else content})
        case _:
            return message


def _with(message: _M, update: dict[str, Any], never_sent: frozenset[str] = _NEVER_SENT) -> _M:
    """A copy with what changes, without what is never sent; the message itself where nothing changes."""
    kwargs = message.additional_kwargs
    dropped = never_sent.intersection(kwargs)
    if dropped:
        update["additional_kwargs"] = {key: value for key, value in kwargs.items() if key not in dropped}
    changed = {key: value for key, value in update.items() if getattr(message, key) is not value}
    return message.model_copy(update=changed) if changed else message


def _assistant(message: AIMessage, profile: ModelProfile) -> AIMessage | None:
    kwargs = message.additional_kwargs
    # Calls that were read from the text are sent as calls: with the raw text the model would read each of them twice.
    raw = None if kwargs.get("calls_in_text") else kwargs.get("raw_text")
    content: str | list[str | dict[Any, Any]] = message.content
    if isinstance(raw, str) and profile.reasoning_back is not False:
        content = raw
    if not isinstance(content, str) and profile.reasoning_back is False:
        content = [each for each in content if isinstance(each, str) or each.get("type") not in _REASONING]
    content = _if_only_text(_blocks(content))
    if isinstance(content, str) and not content.strip():
        if not message.tool_calls:
            return None
        content = ""
    update: dict[str, Any] = {"content": content}
    if message.invalid_tool_calls:
        update["invalid_tool_calls"] = []
    if not all(_sendable(call["args"]) for call in message.tool_calls):
        update["tool_calls"] = [{**call, "args": clean_json(call["args"])} for call in message.tool_calls]
    return _with(
        message, update, _NEVER_SENT if profile.reasoning_back is True else _NEVER_SENT | {"reasoning_content"}
    )


def _sendable(value: Any) -> bool:
    """Whether a JSON value needs no cleaning."""
    if isinstance(value, str):
        return clean(value) is value
    if isinstance(value, dict):
        return all(isinstance(key, str) and clean(key) is key and _sendable(each) for key, each in value.items())
    if isinstance(value, list):
        return all(_sendable(each) for each in value)
    return not isinstance(value, tuple) and not (isinstance(value, float) and not math.isfinite(value))


def _blocks(content: str | list[str | dict[Any, Any]]) -> str | list[str | dict[Any, Any]]:
    """Content without empty text blocks, its texts cleaned."""
    if isinstance(content, str):
        return clean(content)
    kept: list[str | dict[Any, Any]] = []
    for block in content:
        if isinstance(block, str):
            block = {"type": "text", "text": block}
        text = block.get("text")
        if block.get("type") == "text" and not str(text or "").strip():
            continue
        kept.append({**block, "text": clean(text)} if isinstance(text, str) and clean(text) is not text else block)
    return kept


def _if_only_text(content: str | list[str | dict[Any, Any]]) -> str | list[str | dict[Any, Any]]:
    """Blocks that are nothing but text as one string; anything else as it is."""
    if isinstance(content, str):
        return content
    parts = [block["text"] for block in content if isinstance(block, dict) and block.get("type") == "text"]
    return "".join(parts) if len(parts) == len(content) else content


def tool_content(content: str | list[str | dict[Any, Any]], profile: ModelProfile) -> str | list[str | dict[Any, Any]]:
    """A result's content: never empty, and one string unless the profile takes blocks."""
    cleaned = _blocks(content)
    if isinstance(cleaned, list) and profile.string_tool_content is not False:
        cleaned = one_string(cleaned)
    if isinstance(cleaned, str) and not cleaned.strip():
        return texts.NO_OUTPUT
    return cleaned or texts.NO_OUTPUT


def one_string(content: str | list[str | dict[Any, Any]]) -> str:
    """Content as one string: texts in lines, other blocks as stated placeholders."""
    return content if isinstance(content, str) else "\n".join(_as_text(block) for block in content)


def _as_text(block: str | dict[Any, Any]) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block.get("text"), str):
        return str(block["text"])
    if "type" in block and block["type"] != "json":
        return texts.placeholder(str(block["type"]))
    return clean(json.dumps(block, ensure_ascii=False, default=str))
