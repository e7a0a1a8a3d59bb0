"""stream_round: one logical model call, with its retries, its refusals and its broken streams."""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import uuid4

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.utils.utils import LC_ID_PREFIX

from turngraph.llm.assemble import Assembled, Delta, ResponseAssembler
from turngraph.llm.clean import CleanChatModel, Tap, clean_model
from turngraph.llm.faults import classify_provider_error, silent_overflow
from turngraph.llm.pieces import usage_metadata
from turngraph.llm.prepare import Prepared, ToolsNotBoundError, prepare
from turngraph.llm.profile import PROFILES, ProfileKey, effective, facts_of, profile_key
from turngraph.llm.request import Change, ModelRequest, Terms, adapted, first_terms
from turngraph.state.calls import CallProblem
from turngraph.state.errors import ProviderFault
from turngraph.state.receipt import Usage, add_usage, no_usage
from turngraph.state.words import FinishKind

__all__ = ["CallFailed", "ModelRequest", "RoundResult", "StreamProgress", "stream_round"]

MAX_RETRY_AFTER = 60.0
"""Seconds. A provider that asks for more is asked again as if it had named nothing."""

FIRST_DELAY, LONGEST_DELAY = 0.5, 8.0

CLOSING_SECONDS = 10.0
"""How long a stream may stay open after its finish reason, for usage to come."""

MAX_CHANGES = 12
"""Refusals that one call adapts to; real providers refuse one or two things."""

WHOLE_ANSWER_FACTOR = 5
"""A model that does not stream is silent for as long as it writes."""

_PROGRAMMING = (
    TypeError,
    AttributeError,
    NameError,
    AssertionError,
    ImportError,
    NotImplementedError,
    LookupError,
    ArithmeticError,
)
"""Faults of a program, which no repetition mends."""

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


class CallFailed(Exception):
    """A call that cannot be mended here; its `__cause__` is the provider's error.

    `partial`: the text that was already streamed when the stream broke, else None. `usage` is what the failed
    attempts are known to have cost.
    """

    def __init__(self, message: str, fault: ProviderFault, partial: RoundResult | None, usage: Usage) -> None:
        super().__init__(message)
        self.fault = fault
        self.partial = partial
        self.usage = usage


class StreamProgress:
    """What a running call has streamed so far, readable at any time, after a cancellation too."""

    def __init__(self) -> None:
        self._attempt: _Attempt | None = None

    def partial(self) -> RoundResult | None:
        """The text shown so far, without reasoning that was not closed and calls that are not whole; None where the
        model has said nothing."""
        if self._attempt is None or not self._attempt.assembler.began:
            return None
        return self._attempt.partial()


class IdleStreamError(Exception):
    """The provider sent nothing for too long."""


class EmptyStreamError(Exception):
    """The stream ended without a word and without a reason."""


class _ListenerError(Exception):
    """The caller's `on_delta` raised its `__cause__`, which is no failure of the model."""


class _Attempt:
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
                raise _ListenerError from error

        broken: list[Exception] = []

        def takes_break(error: Exception) -> bool:
            if self.assembler.visible and not isinstance(error, _ListenerError):
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

                tapped = self.model.tapped(Tap(self.assembler, self.message_id, show, seen, takes_break))
                await tapped.ainvoke(self.prepared.messages, config, **self.prepared.kwargs)
            if broken:
                raise broken[0]
        except _ListenerError:
            raise
        except Exception as error:  # noqa: BLE001 (adapters raise anything)
            silent = isinstance(error, TimeoutError) and watchdog.expired()
            failed = IdleStreamError(f"no chunk came for {idle:g} seconds") if silent else error
            if not self.assembler.finished or _fault_of(failed).kind != "transport":
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


async def stream_round(
    model: BaseChatModel, request: ModelRequest, on_delta: OnDelta, progress: StreamProgress | None = None
) -> RoundResult:
    """Makes the call until it gives a result, and streams clean deltas to `on_delta` while it runs.

    Laws: the `content` deltas joined are `message.text`; nothing is repeated once a `content` delta was given.
    Raises CallFailed; CancelledError passes through, and `progress.partial()` then says what was streamed.
    """
    return await _Call(model, request, on_delta, progress or StreamProgress()).result()


class _Call:
    """The loop around attempts: adapts to refusals, repeats what may pass, gives up on the rest."""

    def __init__(
        self, model: BaseChatModel, request: ModelRequest, on_delta: OnDelta, progress: StreamProgress
    ) -> None:
        self.model = clean_model(model)
        self.request = request
        self.on_delta = on_delta
        self.progress = progress
        self.key: ProfileKey = profile_key(self.model.inner)
        self.facts = facts_of(self.model.inner)
        self.profile = effective(request.profile, self.facts)
        self.terms: Terms = first_terms(request, self.profile, self.facts)
        self.usage = no_usage()
        self.retries = 0
        self.changes = 0

    async def result(self) -> RoundResult:
        while True:
            attempt: _Attempt | None = None
            try:
                prepared = prepare(self.model.inner, self.request, self.terms, self.profile)
                attempt = _Attempt(self.request, prepared, self.model.model_copy(update={"inner": prepared.model}))
                self.progress._attempt = attempt
                made = await attempt.run(self.on_delta)
            except _ListenerError as error:
                raise error.__cause__ or error from None
            except Exception as error:  # noqa: BLE001 (adapters raise anything; _mend raises what stays)
                await self._mend(error, attempt)
            else:
                self._learn_from(attempt, made)
                return made

    async def _mend(self, error: Exception, attempt: _Attempt | None) -> None:
        """Returns where the call is to be made again; raises CallFailed where it is not."""
        fault = _fault_of(error)
        if attempt is not None and attempt.assembler.visible:
            for delta in attempt.assembler.end():
                self.on_delta(*delta)
            partial = attempt.partial()
            raise CallFailed(_said(error), fault, partial, add_usage(self.usage, partial.usage)) from error
        if attempt is not None:
            self.usage = add_usage(self.usage, attempt.reported)
        change = adapted(self.terms, fault, self.request)
        if change is not None and self.changes < MAX_CHANGES:
            self.changes += 1
            self._adapt(change)
            return
        if not fault.retryable or isinstance(error, _PROGRAMMING) or self.retries >= self.request.max_retries:
            raise CallFailed(_said(error), fault, None, self.usage) from error
        if isinstance(error, EmptyStreamError) and attempt is not None and not attempt.assembler.pieces:
            # A server that answers a request for a stream with one JSON body.
            self.terms = replace(self.terms, stream=False)
        await asyncio.sleep(delay(self.retries, fault.retry_after))
        self.retries += 1

    def _adapt(self, change: Change) -> None:
        self.terms = change.terms
        if change.fact is not None:
            PROFILES.learn(self.key, change.fact, change.value)
        if change.reshape and self.request.reshape is not None and change.fact is not None:
            self.profile = self.profile.model_copy(update={change.fact: change.value})
            self.request = replace(self.request, messages=self.request.reshape(self.profile))

    def _learn_from(self, attempt: _Attempt, made: RoundResult) -> None:
        """Whether the chat template opens the thinking block shows in the text alone."""
        if self.profile.opens_think is None and attempt.assembler.assembled().stray_close:
            PROFILES.learn(self.key, "opens_think", True)
        assumed = attempt.prepared.reading.opens_think and self.facts.get("opens_think") is True
        if assumed and made.finish == "stop" and not made.message.text and not made.message.tool_calls:
            PROFILES.learn(self.key, "opens_think", None)


def delay(retries: int, retry_after: float | None) -> float:
    """Seconds to wait before the next attempt: what the provider asked for, else longer each time, with jitter."""
    if retry_after is not None and 0 <= retry_after <= MAX_RETRY_AFTER:
        return retry_after
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0**retries) * random.uniform(0.5, 1.0)


def _fault_of(error: Exception) -> ProviderFault:
    match error:
        case IdleStreamError() | EmptyStreamError():
            return ProviderFault("transport")
        case ToolsNotBoundError():
            return ProviderFault("tools_unsupported")
        case _:
            return classify_provider_error(error)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
