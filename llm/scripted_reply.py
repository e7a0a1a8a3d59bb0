"""Replies of a scripted model: how one arrives in pieces, and the whole message that the pieces make."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import ToolCallChunk, invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult


@dataclass(frozen=True)
class ScriptedReply:
    """One reply, and how it arrives.

    `calls` are `(name, args)` (ids are given by the model, the same on every run) or raw tool call chunks as dicts
    `{name, args, id, index}` with `args` as text, however broken. `chunks` is the size of text pieces in
    characters, or the pieces themselves (then `text` may be left out); None cuts at words. `fault` is raised
    after the last chunk. `delay` and `chunk_delay` are seconds before the first and before each later chunk.
    """

    text: str = ""
    calls: Sequence[tuple[str, Mapping[str, Any]] | Mapping[str, Any]] = ()
    reasoning: str = ""
    chunks: int | Sequence[str] | None = None
    finish: str | None = ""
    usage: UsageMetadata | None = None
    fault: BaseException | None = None
    delay: float = 0.0
    chunk_delay: float = 0.0
    additional_kwargs: Mapping[str, Any] = field(default_factory=dict)
    response_metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Arrival:
    """A step made ready: the pieces of its message, the whole message, and how both arrive."""

    pieces: list[AIMessageChunk]
    whole: AIMessage
    reply: ScriptedReply

    @property
    def chunks(self) -> list[ChatGenerationChunk]:
        return [ChatGenerationChunk(message=piece) for piece in self.pieces]

    @property
    def result(self) -> ChatResult:
        if self.reply.fault is not None:
            raise self.reply.fault
        return ChatResult(generations=[ChatGeneration(message=self.whole)])


def arrival(step: Any, number: int) -> Arrival:
    match step:
        case str():
            return arrival(ScriptedReply(step), number)
        case ScriptedReply():
            pieces = _pieces(step, number)
            return Arrival(pieces, _whole(pieces), step)
        case AIMessage():
            return Arrival(_pieces_of(step), step.model_copy(), ScriptedReply())
        case _:
            raise TypeError(f"a script step is a str, AIMessage, ScriptedReply, exception or callable, not {step!r}")


def _pieces(reply: ScriptedReply, number: int) -> list[AIMessageChunk]:
    pieces = [
        AIMessageChunk(content="", additional_kwargs={"reasoning_content": each})
        for each in _cut(reply.reasoning, reply.chunks if isinstance(reply.chunks, int) else None)
    ]
    pieces += [AIMessageChunk(content=each) for each in _cut(reply.text, reply.chunks)]
    size = reply.chunks if isinstance(reply.chunks, int) else None
    for at, call in enumerate(reply.calls):
        fragments = [_raw(call)] if isinstance(call, Mapping) else _fragments(call, f"call_{number}_{at}", at, size)
        pieces += [AIMessageChunk(content="", tool_call_chunks=[each]) for each in fragments]
    finish = ("tool_calls" if reply.calls else "stop") if reply.finish == "" else reply.finish
    return [*pieces, _closing(reply, finish)] if reply.fault is None else pieces


def _closing(reply: ScriptedReply, finish: str | None) -> AIMessageChunk:
    metadata = dict(reply.response_metadata)
    if finish is not None:
        metadata["finish_reason"] = finish
    return AIMessageChunk(
        content="",
        additional_kwargs=dict(reply.additional_kwargs),
        response_metadata=metadata,
        usage_metadata=reply.usage,
        chunk_position="last",
    )


def _pieces_of(message: AIMessage) -> list[AIMessageChunk]:
    """A whole message in pieces; content blocks stay together, in one piece."""
    extra = dict(message.additional_kwargs)
    reasoning = extra.pop("reasoning_content", "")
    pieces = [AIMessageChunk(content="", additional_kwargs={"reasoning_content": each}) for each in _cut(reasoning)]
    if isinstance(message.content, str):
        pieces += [AIMessageChunk(content=each) for each in _cut(message.content)]
    else:
        pieces.append(AIMessageChunk(content=message.content))
    made: list[Any] = [*message.tool_calls, *message.invalid_tool_calls]
    for at, call in enumerate(made):
        args = call["args"] if isinstance(call["args"], str) else json.dumps(call["args"])
        fragment = tool_call_chunk(name=call["name"], args=args, id=call["id"], index=at)
        pieces.append(AIMessageChunk(content="", tool_call_chunks=[fragment]))
    closing = AIMessageChunk(
        content="",
        additional_kwargs=extra,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        chunk_position="last",
    )
    pieces.append(closing)
    return [each.model_copy(update={"id": message.id}) for each in pieces]


def _cut(text: str, chunks: int | Sequence[str] | None = None) -> list[str]:
    """Pieces that join to the text: given, of that size, or words with the space after them."""
    if chunks is None:
        return re.findall(r"\S+\s*|\s+", text)
    if isinstance(chunks, int):
        return [text[at : at + chunks] for at in range(0, len(text), chunks)]
    return list(chunks)


def _fragments(call: tuple[str, Mapping[str, Any]], call_id: str, index: int, size: int | None) -> list[ToolCallChunk]:
    name, args = call
    text = json.dumps(args)
    head = tool_call_chunk(name=name, args="", id=call_id, index=index)
    pieces = [text] if size is None else _cut(text, size)
    return [head, *(tool_call_chunk(name=None, args=each, id=None, index=index) for each in pieces)]


def _raw(call: Mapping[str, Any]) -> ToolCallChunk:
    return tool_call_chunk(name=call.get("name"), args=call.get("args"), id=call.get("id"), index=call.get("index"))


def _whole(pieces: list[AIMessageChunk]) -> AIMessage:
    """The pieces as one message. Arguments count only where they are a whole JSON object, as without streaming."""
    total = AIMessageChunk(content="")
    for piece in pieces:
        total = total + piece
    calls, invalid = [], []
    for each in total.tool_call_chunks:
        try:
            args = json.loads(each["args"] or "")
        except ValueError:
            args = None
        if isinstance(args, dict) and each["name"]:
            calls.append(tool_call(name=each["name"], args=args, id=each["id"]))
        else:
            made = invalid_tool_call(name=each["name"], args=each["args"], id=each["id"], error="not a JSON object")
            invalid.append(made)
    return AIMessage(
        content=total.content,
        additional_kwargs=total.additional_kwargs,
        response_metadata=total.response_metadata,
        usage_metadata=total.usage_metadata,
        tool_calls=calls,
        invalid_tool_calls=invalid,
    )
