"""ScriptedModel: a chat model that answers from a script, for tests of turns without a provider.

model = ScriptedModel([ScriptedReply(calls=[("add", {"a": 1, "b": 2})]), "The sum is 3."])
build_turn_graph(model=model, tools=[add]).invoke({"messages": [("user", "1 + 2?")]})
model.assert_done()
"""

import asyncio
import inspect
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr

from turngraph.llm.announce import aannounced, announced
from turngraph.llm.scripted_reply import ScriptedReply, arrival

__all__ = ["ScriptExhaustedError", "ScriptedModel", "ScriptedReply", "ScriptedRequest"]


Step: TypeAlias = (
    str | AIMessage | ScriptedReply | BaseException | type[BaseException] | Callable[[list[BaseMessage]], Any]
)
"""One entry of a script. A callable gets the messages and returns a step, or (for async calls) awaits one."""


@dataclass(frozen=True)
class ScriptedRequest:
    """What one call of the model was given. `tools` are in OpenAI's format, as they were bound."""

    messages: list[BaseMessage]
    tools: list[dict[str, Any]]
    tool_choice: Any
    stop: list[str] | None
    streamed: bool
    kwargs: dict[str, Any]

    @property
    def tool_names(self) -> list[str]:
        return [str(each.get("function", each).get("name")) for each in self.tools]


class ScriptExhaustedError(AssertionError):
    """The model was called more often than its script has steps."""


class _Progress:
    """Where a script stands. Shared by every copy of its model, however it was copied or bound."""

    def __init__(self, script: Sequence[Step] | Callable[[list[BaseMessage]], Any]) -> None:
        self.every = script if callable(script) else None
        self.left: list[Step] = [] if callable(script) else list(script)
        self.requests: list[ScriptedRequest] = []
        self.excess = 0
        self.lock = threading.Lock()

    def __deepcopy__(self, _memo: dict[int, Any]) -> "_Progress":
        return self

    def take(self, request: ScriptedRequest) -> tuple[int, Step]:
        """The number of this request, from 1, and its step."""
        with self.lock:
            self.requests.append(request)
            number = len(self.requests)
            if self.every is not None:
                return number, self.every
            if not self.left:
                self.excess += 1
                used = number - self.excess
                raise ScriptExhaustedError(
                    f"the script has {used} step(s), this is request {number}; "
                    f"its last message: {_shown(request.messages)}"
                )
            return number, self.left.pop(0)


def _shown(messages: Sequence[BaseMessage]) -> str:
    return f"{messages[-1].type}: {messages[-1].text[:200]!r}" if messages else "none"


class ScriptedModel(BaseChatModel):
    """Answers each request with the next step of its script, streamed or whole, sync or async.

    A script is a list of steps (text, `AIMessage`, `ScriptedReply`, an exception to raise, a callable from messages to
    a step) or one callable that answers every request. Law: the streamed chunks, added up, are the whole message.
    Copies (`bind_tools`, `with_config`, `model_copy`, `deepcopy`) share the script and the recorded `requests`.
    """

    model_name: str = "scripted"
    _progress: _Progress = PrivateAttr()

    def __init__(self, script: Sequence[Step] | Callable[[list[BaseMessage]], Any] = (), **fields: Any) -> None:
        super().__init__(**fields)
        self._progress = _Progress([script] if isinstance(script, str) else script)

    @property
    def requests(self) -> list[ScriptedRequest]:
        """What the model was asked so far, in order."""
        return self._progress.requests

    @property
    def left(self) -> int:
        """Steps that were not used yet."""
        return len(self._progress.left)

    def add(self, *steps: Step) -> None:
        """More steps at the end of the script."""
        with self._progress.lock:
            self._progress.left.extend(steps)

    def assert_done(self) -> None:
        """Raises AssertionError where the script was not used up, or was asked for more than it has."""
        if self._progress.excess:
            raise ScriptExhaustedError(f"{self._progress.excess} request(s) came past the end of the script")
        if self._progress.left:
            raise AssertionError(
                f"{self.left} step(s) of the script were not used; the next is {self._progress.left[0]!r}"
            )

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: Any = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        if tool_choice is not None:
            kwargs["tool_choice"] = tool_choice
        return self.bind(tools=[convert_to_openai_tool(each) for each in tools], **kwargs)

    def _ask(
        self, messages: list[BaseMessage], stop: list[str] | None, streamed: bool, kwargs: dict[str, Any]
    ) -> tuple[int, Step]:
        rest = {key: value for key, value in kwargs.items() if key not in ("tools", "tool_choice")}
        return self._progress.take(
            ScriptedRequest(
                list(messages), list(kwargs.get("tools") or []), kwargs.get("tool_choice"), stop, streamed, rest
            )
        )

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        number, step = self._ask(messages, stop, False, kwargs)
        made = arrival(_resolved(step, messages), number)
        time.sleep(made.reply.delay)
        return made.result

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        number, step = self._ask(messages, stop, False, kwargs)
        made = arrival(await _aresolved(step, messages), number)
        await asyncio.sleep(made.reply.delay)
        return made.result

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Generator[ChatGenerationChunk]:
        return announced(self._chunks(messages, stop, kwargs), run_manager)

    def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[ChatGenerationChunk]:
        return aannounced(self._achunks(messages, stop, kwargs), run_manager)

    def _chunks(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> Generator[ChatGenerationChunk]:
        number, step = self._ask(messages, stop, True, kwargs)
        made = arrival(_resolved(step, messages), number)
        reply = made.reply
        for at, chunk in enumerate(made.chunks):
            time.sleep(reply.chunk_delay if at else reply.delay)
            yield chunk
        if reply.fault is not None:
            raise reply.fault

    async def _achunks(
        self, messages: list[BaseMessage], stop: list[str] | None, kwargs: dict[str, Any]
    ) -> AsyncGenerator[ChatGenerationChunk]:
        number, step = self._ask(messages, stop, True, kwargs)
        made = arrival(await _aresolved(step, messages), number)
        reply = made.reply
        for at, chunk in enumerate(made.chunks):
            await asyncio.sleep(reply.chunk_delay if at else reply.delay)
            yield chunk
        if reply.fault is not None:
            raise reply.fault


def _resolved(step: Step, messages: list[BaseMessage]) -> Any:
    """The step behind callables; raises a step that is an exception."""
    while callable(step) and not _is_fault(step):
        step = step(messages)
        if isinstance(step, Awaitable):
            if inspect.iscoroutine(step):
                step.close()
            raise TypeError("this script has an async step: call the model with ainvoke or astream")
    if _is_fault(step):
        raise step  # type: ignore[misc]
    return step


async def _aresolved(step: Step, messages: list[BaseMessage]) -> Any:
    """As `_resolved`; a plain callable runs in a thread, so that one that sleeps holds up no other turn."""
    while callable(step) and not _is_fault(step):
        made: Any = step(messages) if inspect.iscoroutinefunction(step) else await asyncio.to_thread(step, messages)
        step = await made if isinstance(made, Awaitable) else made
    return _resolved(step, messages)


def _is_fault(step: Any) -> bool:
    return isinstance(step, BaseException) or (isinstance(step, type) and issubclass(step, BaseException))
