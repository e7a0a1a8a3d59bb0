"""What a cleaned model gives out, in LangChain's classes: a chunk per delta, a last chunk, or one whole result."""

import json
from typing import Any

from langchain_core.messages import AIMessageChunk, InvalidToolCall
from langchain_core.messages.tool import invalid_tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult

from turngraph.llm.assemble import Assembled, Delta
from turngraph.llm.pieces import PROVIDER, usage_metadata

_NOT_STREAMED = frozenset({"reasoning_content", "raw_text", "calls_in_text", "raw_blocks"})
"""Given out before, or for the model's eyes only."""


def delta_chunk(delta: Delta, message_id: str | None) -> ChatGenerationChunk:
    """A chunk that shows one delta."""
    kind, text = delta
    visible = kind == "content"
    chunk = AIMessageChunk(
        content=text if visible else "",
        additional_kwargs={} if visible else {"reasoning_content": text},
        response_metadata={"model_provider": PROVIDER},
        id=message_id,
    )
    return ChatGenerationChunk(message=chunk)


def last_chunk(assembled: Assembled, message_id: str | None, *, broken: bool = False) -> ChatGenerationChunk:
    """What is only known at the end: calls, usage, the finish reason. Text and reasoning were given out before.

    A `broken` message has no calls: none of them will run.
    """
    message = assembled.message
    kwargs = {key: value for key, value in message.additional_kwargs.items() if key not in _NOT_STREAMED}
    fragments = []
    for at, call in enumerate(() if broken else message.tool_calls):
        problem = assembled.problems.get(call["id"] or "")
        # Text that is no object makes LangChain read the call as invalid.
        args = json.dumps(call["args"] if problem is None else problem["text"], ensure_ascii=False)
        fragments.append(tool_call_chunk(name=call["name"], args=args, id=call["id"], index=at))
    chunk = AIMessageChunk(
        content="",
        additional_kwargs=kwargs,
        response_metadata=message.response_metadata,
        tool_call_chunks=fragments,
        usage_metadata=_reported(assembled),
        chunk_position="last",
        id=message_id,
    )
    return ChatGenerationChunk(message=chunk)


def whole_result(assembled: Assembled, message_id: str | None) -> ChatResult:
    """The whole response at once. A call with a problem is an invalid tool call here."""
    message = assembled.message
    invalid: list[InvalidToolCall] = []
    for call in message.tool_calls:
        if (problem := assembled.problems.get(call["id"] or "")) is not None:
            invalid.append(invalid_tool_call(name=call["name"], args="", id=call["id"], error=problem["text"]))
    changes = {
        "id": message_id,
        "tool_calls": [call for call in message.tool_calls if call["id"] not in assembled.problems],
        "invalid_tool_calls": invalid,
        "usage_metadata": _reported(assembled),
    }
    return ChatResult(generations=[ChatGeneration(message=message.model_copy(update=changes))])


def _reported(assembled: Assembled) -> Any:
    return usage_metadata(assembled.meter.result(lambda: (0, 0))) if assembled.meter.reported else None
