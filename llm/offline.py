"""OfflineModel: the built-in model that needs no key and no network. Fixed rules, not an LLM, and it says so.

It reads the user's message, calls the tools that fit it, all in one batch, and answers from their results. The same
request always gives the same message, ids included.
"""

import hashlib
import json
import re
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from turngraph.llm.announce import aannounced, announced
from turngraph.llm.offline_answer import answer, greeting
from turngraph.llm.offline_plan import PlannedCall, plan
from turngraph.llm.offline_reading import read


class OfflineModel(BaseChatModel):
    """Answers by fixed rules. Streams reasoning, text and calls in pieces like a provider; asks nothing of a network.

    Offered tools that it knows: `calculator`, `clock`, `search_docs`, `save_note`, `ask_user`. Any other offered tool
    runs when the user writes its call out: `name {"argument": "value"}`. With `tool_choice="none"`, without tools,
    or told to finish, it answers from what is there.
    """

    model_name: str = "offline"

    @property
    def _llm_type(self) -> str:
        return "offline"

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

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=_respond(messages, kwargs))])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages, stop, None, **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Generator[ChatGenerationChunk]:
        return announced(_pieces(_respond(messages, kwargs)), run_manager)

    def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[ChatGenerationChunk]:
        return aannounced(_at_once(_pieces(_respond(messages, kwargs))), run_manager)


async def _at_once(chunks: Generator[ChatGenerationChunk]) -> AsyncGenerator[ChatGenerationChunk]:
    for chunk in chunks:
        yield chunk


def _respond(messages: Sequence[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
    """The whole message: calls where the user's words ask for some that were not made yet, else the answer."""
    reading = read(messages)
    offered = [] if kwargs.get("tool_choice") == "none" else _names(kwargs.get("tools") or [])
    calls = plan(reading.pending, offered) if reading.pending and not reading.finish_reason else []
    if calls:
        return _calling(calls, len(messages), reading.pending)
    if reading.results or reading.finish_reason:
        thought = f"{len(reading.results)} result(s) are there; I write the answer from them."
        return _saying(answer(reading), thought)
    return _saying(greeting(reading, offered), "Nothing in the message needs a tool that I was offered.")


def _names(tools: Sequence[dict[str, Any]]) -> list[str]:
    return [str(each.get("function", each).get("name", "")) for each in tools]


def _calling(calls: Sequence[PlannedCall], position: int, text: str) -> AIMessage:
    seen = ", ".join(dict.fromkeys(f"{each.name} ({each.why})" for each in calls))
    made = [
        tool_call(name=each.name, args=each.args, id=_call_id(position, at, each, text))
        for at, each in enumerate(calls)
    ]
    names = list(dict.fromkeys(each.name for each in calls))
    listed = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
    return AIMessage(
        content=f"I use {listed}.",
        tool_calls=made,
        additional_kwargs={"reasoning_content": f"By my rules the message asks for: {seen}. I call them at once."},
        response_metadata={"finish_reason": "tool_calls", "model_name": "offline"},
    )


def _call_id(position: int, at: int, call: PlannedCall, text: str) -> str:
    """The same for the same request; different for each call of a conversation."""
    source = json.dumps([position, at, call.name, call.args, text], sort_keys=True)
    return f"offline_{hashlib.sha256(source.encode('utf-8', 'replace')).hexdigest()[:12]}"


def _saying(text: str, thought: str) -> AIMessage:
    return AIMessage(
        content=text,
        additional_kwargs={"reasoning_content": thought},
        response_metadata={"finish_reason": "stop", "model_name": "offline"},
    )


def _pieces(message: AIMessage) -> Generator[ChatGenerationChunk]:
    """The message word by word. Law: the pieces, added up, are the message."""
    for each in _words(message.additional_kwargs["reasoning_content"]):
        yield _chunk(content="", additional_kwargs={"reasoning_content": each})
    for each in _words(message.text):
        yield _chunk(content=each)
    for at, call in enumerate(message.tool_calls):
        head = tool_call_chunk(name=call["name"], args="", id=call["id"], index=at)
        body = tool_call_chunk(name=None, args=json.dumps(call["args"]), id=None, index=at)
        for fragment in (head, body):
            yield _chunk(content="", tool_call_chunks=[fragment])
    yield _chunk(content="", response_metadata=message.response_metadata, chunk_position="last")


def _chunk(**fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(**fields))


def _words(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)
