"""One attempt of a model call: the request as it is sent, a watchdog over its stream, and what came back so far."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import uuid4

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.utils import LC_ID_PREFIX

from turngraph.llm.assemble import Assembled, Delta, ResponseAssembler
from turngraph.llm.clean import CleanChatModel, Tap
from turngraph.llm.faults import classify_provider_error, silent_overflow
from turngraph.llm.pieces import usage_metadata
from turngraph.llm.prepare import Prepared, ToolsNotBoundError
from turngraph.llm.request import ModelRequest
from turngraph.state.calls import CallProblem
from turngraph.state.errors import ProviderFault
from turngraph.state.receipt import Usage, no_usage
from turngraph.state.words import FinishKind

CLOSING_SECONDS = 10.0
"""How long a stream may stay open after its finish reason, for usage to come."""

WHOLE_ANSWER_FACTOR = 5
"""A model that does not stream is silent for as long as it writes."""

OnDelta = Callable[[Literal["content", "thinking"], str], None]


@dataclass(frozen=True)
class RoundResult:
    """What one call gave.

    `message`: visible text as plain str; valid calls with unique ids, those in `problems` not to be run; the id
    under which it was streamed. `problems`: call id to what is wrong. `cut`: the output stops before its own end.
    `overflow`: the input did not fit, though the provider raised no error.
    """

    message: AIMessage
    problems: dict[str, CallProblem]
    finish: FinishKind
    cut: bool
    overflow: bool
    usage: Usage
    model_name: str


class IdleStreamError(Exception):
    """The provider sent nothing for too long."""


class EmptyStreamError(Exception):
    """The stream ended without a word and without a reason."""


class ListenerError(Exception):
    """The caller's `on_delta` raised its `__cause__`, which is no failure of the model."""


class Attempt:
    """One attempt of a call: what was sent, and what came back so far."""

    def __init__(self, request: ModelRequest, prepared: Prepared, model: CleanChatModel) -> None:
        self.request = request
        self.prepared = prepared
        self.model = model
        self.assembler = ResponseAssembler(prepared.reading)
        self.run_id = uuid4()

    @property
    def message_id(self) -> str:
        """The id that LangChain itself gives to what this run streams, so that no stream shows the message twice."""
        return f"{LC_ID_PREFIX}-{self.run_id}"

    async def run(self, on_delta: OnDelta) -> RoundResult:
        """Streams the response. Raises what the model raises, IdleStreamError and EmptyStreamError."""

        def show(delta: Delta) -> None:
            try:
                on_delta(*delta)
            except Exception as error:
                raise ListenerError from error

        broken: list[Exception] = []

        def takes_break(error: Exception) -> bool:
            if self.assembler.visible and not isinstance(error, ListenerError):
                broken.append(error)
            return bool(broken)

        loop = asyncio.get_running_loop()
        idle = self.request.idle_timeout * (1 if self.prepared.streamed else WHOLE_ANSWER_FACTOR)
        config: RunnableConfig = {"run_id": self.run_id, "metadata": dict(self.request.trace), "tags": ["turngraph"]}
        if self.request.run_name is not None:
            config["run_name"] = self.request.run_name
        if self.request.hidden:
            config["tags"] = ["turngraph", "nostream"]
        try:
            async with asyncio.timeout(idle) as watchdog:

                def seen() -> None:
                    watchdog.reschedule(loop.time() + (min(idle, CLOSING_SECONDS) if self.assembler.finished else idle))

                tapped = self.model.tapped(
                    Tap(self.assembler, self.message_id, show, seen, takes_break, self.request.hushed)
                )
                await tapped.ainvoke(self.prepared.messages, config, **self.prepared.kwargs)
            if broken:
                raise broken[0]
        except ListenerError:
            raise
        except Exception as error:  # noqa: BLE001 (adapters raise anything)
            silent = isinstance(error, TimeoutError) and watchdog.expired()
            failed = IdleStreamError(f"no chunk came for {idle:g} seconds") if silent else error
            if not self.assembler.finished or fault_of(failed).kind != "transport":
                raise failed from (error if silent else error.__cause__)
            # Only the way the connection was closed went wrong; the response is whole.
            for delta in self.assembler.end():
                show(delta)
        assembled = self.assembler.assembled()
        if assembled.finish == "missing" and self.prepared.reading.openai_wire and not self.assembler.began:
            raise EmptyStreamError("the stream ended without a word and without a finish reason")
        return self._result(assembled)

    def partial(self) -> RoundResult:
        """What is there of the response, complete calls only."""
        made = self.assembler.assembled(broken=True)
        kept = [call for call in made.message.tool_calls if call["id"] not in made.problems]
        kwargs = {key: value for key, value in made.message.additional_kwargs.items() if key != "raw_text"}
        message = made.message.model_copy(update={"tool_calls": kept, "additional_kwargs": kwargs})
        return self._result(replace(made, message=message, problems={}))

    def _result(self, assembled: Assembled) -> RoundResult:
        message = assembled.message
        usage = assembled.meter.result(lambda: self._estimate(message))
        changes = {"id": self.message_id, "usage_metadata": usage_metadata(usage)}
        finish_reason = message.response_metadata.get("finish_reason")
        return RoundResult(
            message=message.model_copy(update=changes),
            problems=assembled.problems,
            finish=assembled.finish,
            cut=assembled.cut,
            overflow=silent_overflow(finish_reason, self.reported, self.request.window),
            usage=usage,
            model_name=assembled.model_name or self.prepared.model_name,
        )

    def _estimate(self, message: AIMessage) -> tuple[int, int]:
        said = str(message.additional_kwargs.get("reasoning_content", ""))
        if not (said or message.text or message.tool_calls):
            return self.request.estimate(self.prepared.messages), 0
        thought: Sequence[BaseMessage] = [AIMessage(said)] if said else []
        return self.request.estimate(self.prepared.messages), self.request.estimate([message, *thought])

    @property
    def reported(self) -> Usage:
        """What the provider said the attempt cost so far; nothing where it said nothing."""
        meter = self.assembler.assembled(broken=True).meter
        return meter.result(lambda: (0, 0)) if meter.reported else no_usage()


def fault_of(error: Exception) -> ProviderFault:
    """What a failed attempt means, our own errors included."""
    match error:
        case IdleStreamError() | EmptyStreamError():
            return ProviderFault("transport")
        case ToolsNotBoundError():
            return ProviderFault("tools_unsupported")
        case _:
            return classify_provider_error(error)
