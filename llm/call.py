"""stream_round: one logical model call, with its retries, its refusals and its broken streams."""

import asyncio
import random
from dataclasses import replace

from langchain_core.language_models.chat_models import BaseChatModel

from turngraph.llm.attempt import Attempt, EmptyStreamError, ListenerError, OnDelta, RoundResult, fault_of
from turngraph.llm.clean import clean_model
from turngraph.llm.prepare import prepare
from turngraph.llm.profile import PROFILES, ProfileKey, effective, facts_of, profile_key
from turngraph.llm.request import Change, ModelRequest, Terms, adapted, first_terms
from turngraph.state.errors import ProviderFault
from turngraph.state.receipt import Usage, add_usage, no_usage

__all__ = ["CallFailed", "ModelRequest", "RoundResult", "StreamProgress", "stream_round"]

MAX_RETRY_AFTER = 60.0
"""Seconds. A provider that asks for more is asked again as if it had named nothing."""

FIRST_DELAY, LONGEST_DELAY = 0.5, 8.0

MAX_CHANGES = 12
"""Refusals that one call adapts to; real providers refuse one or two things."""

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
        self._attempt: Attempt | None = None

    def partial(self) -> RoundResult | None:
        """The text shown so far, without reasoning that was not closed and calls that are not whole; None where the
        model has said nothing."""
        if self._attempt is None or not self._attempt.assembler.began:
            return None
        return self._attempt.partial()


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
            attempt: Attempt | None = None
            try:
                prepared = prepare(self.model.inner, self.request, self.terms, self.profile)
                attempt = Attempt(self.request, prepared, self.model.model_copy(update={"inner": prepared.model}))
                self.progress._attempt = attempt
                made = await attempt.run(self.on_delta)
            except ListenerError as error:
                raise error.__cause__ or error from None
            except Exception as error:  # noqa: BLE001 (adapters raise anything; _mend raises what stays)
                await self._mend(error, attempt)
            else:
                self._learn_from(attempt, made)
                return made

    async def _mend(self, error: Exception, attempt: Attempt | None) -> None:
        """Returns where the call is to be made again; raises CallFailed where it is not."""
        fault = fault_of(error)
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

    def _learn_from(self, attempt: Attempt, made: RoundResult) -> None:
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


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
