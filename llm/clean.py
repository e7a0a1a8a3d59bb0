"""CleanChatModel: any chat model, with everything that leaves it as clean as a turn's own events."""

from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.base import LangSmithParams
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from pydantic import PrivateAttr

from turngraph.llm.adapters import adapted, is_wired
from turngraph.llm.announce import aannounced, announced
from turngraph.llm.assemble import Delta, Reading, ResponseAssembler
from turngraph.llm.binding import names_of, provider_of, streams, unbound
from turngraph.llm.clean_chunks import delta_chunk, last_chunk, whole_result
from turngraph.llm.pieces import Part, block_parts


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
    hushed: Callable[[], AbstractContextManager[None]] = nullcontext


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

    def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[ChatGenerationChunk]:
        return aannounced(self._achunks(self._new_tap(kwargs), messages, stop, kwargs), run_manager)

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
        return whole_result(tap.assembler.assembled(), tap.message_id)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Generator[ChatGenerationChunk]:
        return announced(self._chunks(self._new_tap(kwargs), messages, stop, kwargs), run_manager)

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
        return whole_result(tap.assembler.assembled(), tap.message_id)

    def _new_tap(self, kwargs: Mapping[str, Any]) -> Tap:
        if self._tap is not None:
            return self._tap
        offered = self.reading.offered or frozenset(names_of(kwargs.get("tools") or ()))
        return Tap(ResponseAssembler(replace(self.reading, offered=offered)))

    async def _achunks(
        self, tap: Tap, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> AsyncGenerator[ChatGenerationChunk]:
        broken = False
        try:
            async with aclosing(self._adeltas(tap, messages, stop, kwargs)) as deltas:
                async for delta in deltas:
                    yield delta_chunk(delta, tap.message_id)
        except Exception as error:
            if not tap.takes_break(error):
                raise
            broken = True
            for delta in tap.assembler.end():
                tap.on_delta(delta)
                yield delta_chunk(delta, tap.message_id)
        yield last_chunk(tap.assembler.assembled(broken=broken), tap.message_id, broken=broken)

    def _chunks(
        self, tap: Tap, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> Generator[ChatGenerationChunk]:
        for delta in self._deltas(tap, messages, stop, kwargs):
            yield delta_chunk(delta, tap.message_id)
        yield last_chunk(tap.assembler.assembled(), tap.message_id)

    async def _adeltas(
        self, tap: Tap, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> AsyncGenerator[Delta]:
        async with aclosing(self._apieces(tap, messages, stop, kwargs)) as pieces:
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
        self, tap: Tap, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> AsyncGenerator[ChatGeneration]:
        sent = self._sent(messages)
        with tap.hushed():
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
    inner = adapted(model)
    return CleanChatModel(
        inner=inner,
        reading=Reading(openai_wire=is_wired(inner), provider=provider_of(inner)),
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
