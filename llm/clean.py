"""CleanChatModel: any chat model, with everything that leaves it as clean as a turn's own events."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, InvalidToolCall
from langchain_core.messages.tool import invalid_tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import BaseChatOpenAI
from pydantic import PrivateAttr

from turngraph.llm.assemble import Assembled, Delta, Reading, ResponseAssembler
from turngraph.llm.binding import names_of, provider_of, streams, unbound
from turngraph.llm.loop_clients import with_loop_clients
from turngraph.llm.pieces import PROVIDER, Part, block_parts, usage_metadata
from turngraph.llm.wire import TurnChatOpenAI, from_chat_openai


def _ignore(*_: Any) -> None:
    """Nobody listens."""


def _refuse(_: Exception) -> bool:
    """The error is raised."""
    return False


@dataclass(frozen=True)
class Tap:
    """Where one call's response is read. `on_piece` is called for every raw chunk, once it is read and before it is
    shown. `message_id` None: the id that LangChain gives."""

    assembler: ResponseAssembler
    message_id: str | None = None
    on_delta: Callable[[Delta], None] = _ignore
    on_piece: Callable[[], None] = _ignore
    takes_break: Callable[[Exception], bool] = _refuse


class CleanChatModel(BaseChatModel):
    """A chat model around another one: reasoning told from text, calls normalised, usage counted once.

    The inner model never sees the callback manager, so every stream (LangGraph's `messages` and v3, `astream`)
    shows clean chunks only. Calls arrive in the last chunk, since they are not certain before. A call with a problem
    is an invalid tool call here. Whatever is bound (tools, config) is bound on the inner model's terms.
    """

    inner: BaseChatModel
    reading: Reading = Reading()
    _tap: Tap | None = PrivateAttr(None)

    @property
    def _llm_type(self) -> str:
        return self.inner._llm_type

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return self.inner._identifying_params

    @property
    def _serialized(self) -> dict[str, Any]:
        # The default is a repr of the whole model, made again for every call.
        name = type(self.inner).__name__
        return {"lc": 1, "type": "not_implemented", "id": ["turngraph", "llm", name], "name": name}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        return self.inner._get_ls_params(stop=stop, **kwargs)

    def _get_invocation_params(self, stop: list[str] | None = None, **kwargs: Any) -> dict[str, Any]:
        return self.inner._get_invocation_params(stop=stop, **kwargs)

    def tapped(self, tap: Tap) -> "CleanChatModel":
        """A copy for one call, whose response is read by the given tap."""
        copy = self.model_copy()
        copy._tap = tap
        return copy

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: Any = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        inner, bound, config = unbound(self.inner.bind_tools(tools, **kwargs))
        model = self if inner is self.inner else self.model_copy(update={"inner": inner})
        made = model.bind(**bound)
        return made.with_config(config) if config else made

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        tap = self._new_tap(kwargs)
        broken = False
        try:
            async with aclosing(self._adeltas(tap, messages, stop, kwargs)) as deltas:
                async for delta in deltas:
                    chunk = _chunk_of(delta, tap.message_id)
                    if run_manager:
                        await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                    yield chunk
        except Exception as error:
            if not tap.takes_break(error):
                raise
            broken = True
            for delta in tap.assembler.end():
                tap.on_delta(delta)
                chunk = _chunk_of(delta, tap.message_id)
                if run_manager:
                    await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
                yield chunk
        last = _last_chunk(tap, broken=broken)
        if run_manager:
            await run_manager.on_llm_new_token("", chunk=last)
        yield last

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        tap = self._new_tap(kwargs)
        async with aclosing(self._adeltas(tap, messages, stop, kwargs)) as deltas:
            async for _ in deltas:
                pass
        return _result(tap)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        tap = self._new_tap(kwargs)
        for delta in self._deltas(tap, messages, stop, kwargs):
            chunk = _chunk_of(delta, tap.message_id)
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk
        last = _last_chunk(tap)
        if run_manager:
            run_manager.on_llm_new_token("", chunk=last)
        yield last

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        tap = self._new_tap(kwargs)
        for _ in self._deltas(tap, messages, stop, kwargs):
            pass
        return _result(tap)

    def _new_tap(self, kwargs: Mapping[str, Any]) -> Tap:
        if self._tap is not None:
            return self._tap
        offered = self.reading.offered or frozenset(names_of(kwargs.get("tools") or ()))
        return Tap(ResponseAssembler(replace(self.reading, offered=offered)))

    async def _adeltas(
        self, tap: Tap, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> AsyncGenerator[Delta]:
        async with aclosing(self._apieces(messages, stop, kwargs)) as pieces:
            async for piece in pieces:
                deltas = tap.assembler.feed(piece)
                tap.on_piece()
                for delta in deltas:
                    tap.on_delta(delta)
                    yield delta
        for delta in tap.assembler.end():
            tap.on_delta(delta)
            yield delta

    def _deltas(
        self, tap: Tap, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> Iterator[Delta]:
        for piece in self._pieces(messages, stop, kwargs):
            deltas = tap.assembler.feed(piece)
            tap.on_piece()
            for delta in deltas:
                tap.on_delta(delta)
                yield delta
        for delta in tap.assembler.end():
            tap.on_delta(delta)
            yield delta

    async def _apieces(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> AsyncGenerator[ChatGeneration]:
        sent = self._sent(messages)
        if streams(self.inner, kwargs):
            async with aclosing(self.inner._astream(sent, stop=stop, **kwargs)) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    yield chunk
        else:
            yield _whole(await self.inner._agenerate(sent, stop=stop, **kwargs))

    def _pieces(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> Iterator[ChatGeneration]:
        sent = self._sent(messages)
        if streams(self.inner, kwargs, async_api=False):
            yield from self.inner._stream(sent, stop=stop, **kwargs)
        else:
            yield _whole(self.inner._generate(sent, stop=stop, **kwargs))

    def _sent(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        """The messages as the inner model wrote them, where it sealed parts of them."""
        provider = provider_of(self.inner)
        return [_with_blocks(each, provider) if isinstance(each, AIMessage) else each for each in messages]


def clean_model(model: BaseChatModel) -> CleanChatModel:
    """The model, cleaned. A plain ChatOpenAI is read as a TurnChatOpenAI, and the adapters derived from it work in
    every event loop too; the given object is never changed."""
    if isinstance(model, CleanChatModel):
        return model
    inner = model
    if type(model) is ChatOpenAI:
        inner = from_chat_openai(model)
    elif isinstance(model, BaseChatOpenAI) and not isinstance(model, TurnChatOpenAI):
        inner = with_loop_clients(model)
    return CleanChatModel(
        inner=inner,
        reading=Reading(openai_wire=isinstance(inner, TurnChatOpenAI), provider=provider_of(inner)),
        # A cached answer would never pass through here.
        cache=False,
        callbacks=model.callbacks,
        tags=model.tags,
        metadata=model.metadata,
        verbose=model.verbose,
        rate_limiter=model.rate_limiter,
        profile=model.profile,
        output_version=None,
    )


def _with_blocks(message: AIMessage, provider: str) -> AIMessage:
    blocks = message.additional_kwargs.get("raw_blocks")
    if not blocks or message.response_metadata.get("inner_provider") != provider:
        return message
    parts: list[Part] = [part for block in blocks for part in block_parts(block)]
    said = "".join(text for kind, text in parts if kind == "text")
    # A message that was shortened or edited since is sent as it stands.
    return message.model_copy(update={"content": blocks}) if said == message.text else message


def _whole(result: ChatResult) -> ChatGeneration:
    generation = result.generations[0]
    info = {**(result.llm_output or {}), **(generation.generation_info or {})}
    return ChatGeneration(message=generation.message, generation_info=info)


def _chunk_of(delta: Delta, message_id: str | None) -> ChatGenerationChunk:
    kind, text = delta
    visible = kind == "content"
    chunk = AIMessageChunk(
        content=text if visible else "",
        additional_kwargs={} if visible else {"reasoning_content": text},
        response_metadata={"model_provider": PROVIDER},
        id=message_id,
    )
    return ChatGenerationChunk(message=chunk)


_NOT_STREAMED = frozenset({"reasoning_content", "raw_text", "calls_in_text", "raw_blocks"})
"""Given out before, or for the model's eyes only."""


def _last_chunk(tap: Tap, *, broken: bool = False) -> ChatGenerationChunk:
    """What is only known at the end: calls, usage, the finish reason. Text and reasoning were given out before.

    A `broken` message has no calls: none of them will run.
    """
    assembled = tap.assembler.assembled(broken=broken)
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
        id=tap.message_id,
    )
    return ChatGenerationChunk(message=chunk)


def _result(tap: Tap) -> ChatResult:
    assembled = tap.assembler.assembled()
    message = assembled.message
    invalid: list[InvalidToolCall] = []
    for call in message.tool_calls:
        if (problem := assembled.problems.get(call["id"] or "")) is not None:
            invalid.append(invalid_tool_call(name=call["name"], args="", id=call["id"], error=problem["text"]))
    changes = {
        "id": tap.message_id,
        "tool_calls": [call for call in message.tool_calls if call["id"] not in assembled.problems],
        "invalid_tool_calls": invalid,
        "usage_metadata": _reported(assembled),
    }
    return ChatResult(generations=[ChatGeneration(message=message.model_copy(update=changes))])


def _reported(assembled: Assembled) -> Any:
    return usage_metadata(assembled.meter.result(lambda: (0, 0))) if assembled.meter.reported else None
