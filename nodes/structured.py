"""The structured value of an answer: read from its text, else filled by a hidden call that can do nothing else."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage

from turngraph.context import count_tokens
from turngraph.llm.call import CallFailed, ModelRequest, stream_round
from turngraph.llm.profile import effective_profile
from turngraph.llm.structured import OutputFormat
from turngraph.nodes import texts
from turngraph.nodes.belt import Belt
from turngraph.nodes.model_call import Tape, make_view
from turngraph.nodes.parts import Visit
from turngraph.state.receipt import Usage, add_usage, no_usage

MISMATCHES_NAMED = 2
"""How often what is wrong with a value is named to the model."""

FILL_SECONDS = 60.0


@dataclass(frozen=True)
class Structured:
    """The value as plain JSON, or None with the reason; `usage` is what the hidden calls cost."""

    value: Any
    error: str | None
    usage: Usage


async def structured_value(visit: Visit, tape: Tape, belt: Belt, answer: str) -> Structured | None:
    """The value of the turn's answer; None where no `response_format` was given.

    `tape` ends with the answer. The hidden calls are counted in usage and never appear in a stream.
    """
    fmt = visit.parts.response_format
    if fmt is None:
        return None
    value, error = fmt.read(answer)
    if error is None:
        return Structured(value, None, no_usage())
    try:
        async with asyncio.timeout(FILL_SECONDS):
            return await _fill(visit, tape, belt, fmt)
    except (CallFailed, TimeoutError) as failed:
        usage = failed.usage if isinstance(failed, CallFailed) else no_usage()
        return Structured(None, f"{error} The call to fill the schema failed.", usage)


async def _fill(visit: Visit, tape: Tape, belt: Belt, fmt: OutputFormat) -> Structured:
    """Asks for the value alone, and names what is wrong with it as often as is allowed."""
    model, _ = await visit.model()
    settings = visit.windowed(model)
    profile = effective_profile(model, settings.model_profile)
    seen = make_view(visit, tape, replace(belt, offered=()), settings, profile)
    asked: list[BaseMessage] = [HumanMessage(texts.fill_schema(fmt.asked_for()))]
    usage, error = no_usage(), ""
    for _ in range(1 + MISMATCHES_NAMED):
        request = ModelRequest(
            messages=[*seen.messages, *asked],
            temperature=settings.temperature,
            max_output_tokens=settings.max_output_tokens,
            profile=settings.model_profile,
            text_tools=settings.text_tools,
            max_retries=settings.max_retries,
            estimate=count_tokens,
            response_format=fmt,
            hidden=True,
        )
        result = await stream_round(model, request, lambda _kind, _text: None)
        usage = add_usage(usage, result.usage)
        value, wrong = fmt.read(result.message.text)
        if wrong is None:
            return Structured(value, None, usage)
        error = wrong
        asked += [result.message, HumanMessage(texts.schema_mismatch(wrong))]
    return Structured(None, error, usage)
