"""TurnChatOpenAI: ChatOpenAI that keeps what OpenAI-compatible servers say beyond OpenAI's own fields."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import openai
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, InvalidToolCall, ToolCall
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr, model_validator

from turngraph.llm.loop_clients import loop_clients
from turngraph.llm.pieces import CHOICE, PROVIDER, usage_metadata
from turngraph.llm.usage import UsageMeter

REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
"""Fields of a message that hold reasoning as text, in the order in which they are looked at."""


@dataclass(frozen=True)
class WireOptions:
    """How requests differ from ChatOpenAI's.

    `drop`: parameters that are never sent. `extra`: parameters sent as they are. `stream_usage` None: as the model
    says. `max_tokens_name`: what this server calls the bound on output.
    """

    reasoning_back: bool = False
    stream_usage: bool | None = None
    max_tokens_name: str = "max_completion_tokens"
    drop: frozenset[str] = frozenset()
    extra: Mapping[str, Any] = field(default_factory=dict)


class TurnChatOpenAI(ChatOpenAI):
    """A ChatOpenAI whose chunks hold all that came, as it came: a character may be split over two of them.

    Reasoning in any of its fields is in `additional_kwargs["reasoning_content"]`, OpenRouter's details beside it;
    fragments of calls come through without index, id or name; usage is read from every place where servers put it.
    One model object works in every event loop, and the OpenAI client's own retries are off.
    """

    _options: WireOptions = PrivateAttr(default_factory=WireOptions)

    @model_validator(mode="after")
    def _set_turn_clients(self) -> Self:
        for name, value in loop_clients(self).items():
            setattr(self, name, value)
        # The watchdog of a turn counts; this one would start a task for every chunk.
        self.stream_chunk_timeout = None
        return self

    def with_options(self, options: WireOptions) -> "TurnChatOpenAI":
        """A copy that sends requests in another way; it shares the connections."""
        copy = self.model_copy()
        copy._options = options
        return copy

    @classmethod
    def is_lc_serializable(cls) -> bool:
        return False

    def _should_stream_usage(self, stream_usage: bool | None = None, **kwargs: Any) -> bool:
        if self._options.stream_usage is not None:
            return self._options.stream_usage
        return super()._should_stream_usage(stream_usage, **kwargs)

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        options = self._options
        if "messages" in payload:
            if "max_completion_tokens" in payload:
                payload[options.max_tokens_name] = payload.pop("max_completion_tokens")
            if options.reasoning_back:
                sent = self._convert_input(input_).to_messages()
                for message, made in zip(sent, payload["messages"], strict=True):
                    if isinstance(message, AIMessage):
                        made.update(reasoning_fields(message))
        for name in options.drop:
            payload.pop(name, None)
        if options.extra:
            payload["extra_body"] = {**(payload.get("extra_body") or {}), **options.extra}
        return payload

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        if "choices" not in chunk and "usage" not in chunk:
            return super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        choice = _choice_of(chunk)
        info = dict(base_generation_info or {})
        if (index := choice.get("index")) is not None and isinstance(index, int):
            info[CHOICE] = index
        if finish := choice.get("finish_reason"):
            info["finish_reason"] = finish
            info.update({key: chunk[key] for key in ("system_fingerprint", "service_tier") if chunk.get(key)})
            if chunk.get("model"):
                info["model_name"] = chunk["model"]
        if choice.get("logprobs"):
            info["logprobs"] = choice["logprobs"]
        # Beside a delta, even an empty one, a message repeats what was streamed.
        said = choice["message"] if choice.get("delta") is None and "message" in choice else choice.get("delta")
        message = _chunk_of(said if isinstance(said, Mapping) else {})
        message.usage_metadata = usage_of(chunk)
        return ChatGenerationChunk(message=message, generation_info=info or None)

    def _create_chat_result(
        self, response: dict[str, Any] | openai.BaseModel, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        if not isinstance(response, dict | openai.BaseModel):
            return super()._create_chat_result(response, generation_info)
        body = response if isinstance(response, dict) else response.model_dump(warnings=False)
        choice = _choice_of(body)
        if body.get("error") or not choice:
            return super()._create_chat_result(response, generation_info)
        message = _message_of(choice.get("message") or {})
        message.usage_metadata = usage_of(body)
        info = {**(generation_info or {}), "finish_reason": choice.get("finish_reason")}
        if choice.get("logprobs"):
            info["logprobs"] = choice["logprobs"]
        output = {"model_name": body.get("model") or self.model_name, "token_usage": body.get("usage")}
        output.update({key: body[key] for key in ("system_fingerprint", "service_tier", "id") if body.get(key)})
        return ChatResult(generations=[ChatGeneration(message=message, generation_info=info)], llm_output=output)


def from_chat_openai(model: ChatOpenAI) -> TurnChatOpenAI:
    """A TurnChatOpenAI with the settings of a plain ChatOpenAI, which is not changed.

    Raises TypeError for a subclass: what it overrides would be lost.
    """
    if isinstance(model, TurnChatOpenAI):
        return model
    if type(model) is not ChatOpenAI:
        raise TypeError(f"only a plain ChatOpenAI can be read as one, not {type(model).__name__}")
    fields = {name: getattr(model, name) for name in type(model).model_fields}
    changes = {**loop_clients(model), "stream_chunk_timeout": None}
    return TurnChatOpenAI.model_construct(_fields_set=set(model.model_fields_set), **{**fields, **changes})


def reasoning_fields(message: AIMessage) -> dict[str, Any]:
    """What is sent back of a message's reasoning, in the field in which the provider wrote it."""
    kwargs = message.additional_kwargs
    fields: dict[str, Any] = {}
    if isinstance(text := kwargs.get("reasoning_content"), str) and text:
        names = kwargs.get("reasoning_fields")
        fields[next(iter(names)) if isinstance(names, dict) and names else REASONING_FIELDS[0]] = text
    if details := kwargs.get("reasoning_details"):
        fields["reasoning_details"] = details
    return fields


def usage_of(frame: Mapping[str, Any]) -> Any:
    """The usage that a frame or a whole answer names, at any of the places known; None where it names none."""
    meter = UsageMeter()
    groq = frame.get("x_groq")
    for found in (
        frame.get("usage"),
        _choice_of(frame).get("usage"),
        groq.get("usage") if isinstance(groq, Mapping) else None,
    ):
        meter.observe(found if isinstance(found, Mapping) else None)
    return usage_metadata(meter.result(lambda: (0, 0))) if meter.reported else None


def _choice_of(frame: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first choice of a frame by its index, however they are ordered; empty where there is none."""
    found = frame.get("choices")
    choices = [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
    numbered = [each for each in choices if isinstance(each.get("index"), int)]
    return min(numbered, key=lambda each: int(each["index"])) if numbered else choices[0] if choices else {}


def _reasoning_kwargs(said: Mapping[str, Any]) -> dict[str, Any]:
    kwargs: dict[str, Any] = {}
    for name in REASONING_FIELDS:
        if isinstance(value := said.get(name), str) and value:
            kwargs["reasoning_content"] = value
            if name != REASONING_FIELDS[0]:
                # An object, because LangChain joins the texts of chunks.
                kwargs["reasoning_fields"] = {name: True}
            break
    if isinstance(details := said.get("reasoning_details"), list) and details:
        kwargs["reasoning_details"] = details
    return kwargs


def _content_of(said: Mapping[str, Any]) -> str | list[Any]:
    """The content as text or blocks; a refusal is what the model says instead."""
    content = said.get("content")
    if isinstance(content, list):
        return [each for each in content if isinstance(each, str) or _is_block(each)]
    text = content if isinstance(content, str) else ""
    refusal = said.get("refusal")
    return text or (refusal if isinstance(refusal, str) else "")


def _is_block(value: Any) -> bool:
    """False for what LangChain cannot take as a content block: its text has to be text."""
    return isinstance(value, dict) and isinstance(value.get("text", ""), str)


def _chunk_of(said: Mapping[str, Any]) -> AIMessageChunk:
    return AIMessageChunk(
        content=_content_of(said),
        additional_kwargs=_reasoning_kwargs(said),
        response_metadata={"model_provider": PROVIDER},
        tool_call_chunks=[
            tool_call_chunk(name=name, args=args, id=call_id, index=index)
            for index, call_id, name, args in _raw_calls(said)
        ],
    )


def _message_of(said: Mapping[str, Any]) -> AIMessage:
    calls: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for _, call_id, name, arguments in _raw_calls(said):
        try:
            args = json.loads(arguments) if arguments and arguments.strip() else {}
        except ValueError:
            args = None
        if isinstance(args, dict) and name:
            calls.append(tool_call(name=name, args=args, id=call_id))
        else:
            invalid.append(invalid_tool_call(name=name, args=arguments, id=call_id, error="not a JSON object"))
    kwargs = _reasoning_kwargs(said)
    if invalid:
        # Keeps the order in which the model made them.
        kwargs["tool_calls"] = said.get("tool_calls")
    return AIMessage(
        content=_content_of(said),
        additional_kwargs=kwargs,
        response_metadata={"model_provider": PROVIDER},
        tool_calls=calls,
        invalid_tool_calls=invalid,
    )


def _raw_calls(said: Mapping[str, Any]) -> list[tuple[Any, str | None, str | None, str | None]]:
    """Index, id, name and arguments (as text) of each call or fragment, the old `function_call` included."""
    entries = said.get("tool_calls")
    found: list[tuple[Any, str | None, str | None, str | None]] = []
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, Mapping):
            found.append((_index(entry.get("index")), _str(entry.get("id")), *_function(entry.get("function"))))
    if not found and isinstance(old := said.get("function_call"), Mapping):
        found.append((0, None, *_function(old)))
    return found


def _function(function: Any) -> tuple[str | None, str | None]:
    if not isinstance(function, Mapping):
        return None, None
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    return _str(function.get("name")), arguments


def _index(value: Any) -> int | str | None:
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) else None
