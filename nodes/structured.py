"""The structured value of an answer: read from its text, else filled by a hidden call that can do nothing else."""

import asyncio
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel

from turngraph.context import count_tokens
from turngraph.llm.call import CallFailed, ModelRequest
from turngraph.llm.fill import Filled, fill_format
from turngraph.llm.profile import effective_profile
from turngraph.llm.structured import OutputFormat
from turngraph.nodes.belt import Belt
from turngraph.nodes.model_call import Tape, make_view
from turngraph.nodes.parts import Visit
from turngraph.nodes.trace import trace_of
from turngraph.state.receipt import Usage, add_usage, no_usage
from turngraph.state.settings import DEFAULT_CONTEXT_WINDOW
from turngraph.tools.redact import describe_error, hushed

FILL_SECONDS = 60.0


@dataclass(frozen=True)
class Structured:
    """The value as plain JSON, or None with the reason; `usage` is what the hidden calls cost."""

    value: Any
    error: str | None
    usage: Usage


async def structured_value(visit: Visit, tape: Tape, belt: Belt, answer: str) -> Structured | None:
    """The value of the turn's answer; None where no `response_format` was given.

    `tape` ends with the answer. The hidden calls are counted in usage and never appear in a stream; a model whose
    call fails is followed by the turn's fallback models.
    """
    fmt = visit.parts.response_format
    if fmt is None:
        return None
    value, error = fmt.read(answer)
    if error is None:
        return Structured(value, None, no_usage())
    usage = no_usage()
    for model, _ in [await visit.model(), *await visit.fallbacks()]:
        try:
            async with asyncio.timeout(FILL_SECONDS):
                filled = await _fill(visit, tape, belt, fmt, model)
        except CallFailed as failed:
            usage = add_usage(usage, failed.usage)
            error = f"The call to fill the schema failed: {describe_error(failed.__cause__ or failed)}"
        except TimeoutError:
            error = f"The call to fill the schema took longer than {FILL_SECONDS:g} seconds."
        else:
            return Structured(filled.value, filled.error, add_usage(usage, filled.usage))
    return Structured(None, error, usage)


async def _fill(visit: Visit, tape: Tape, belt: Belt, fmt: OutputFormat, model: BaseChatModel) -> Filled:
    """The value from one model. The tools stay in the request where they were, so that its prefix is cached."""
    settings = visit.windowed(model)
    profile = effective_profile(model, settings.model_profile)
    seen = make_view(visit, tape, belt, settings, profile)
    request = ModelRequest(
        messages=seen.messages,
        tools=belt.offered,
        temperature=settings.temperature,
        max_output_tokens=settings.max_output_tokens,
        profile=profile,
        text_tools=settings.text_tools,
        max_retries=settings.max_retries,
        estimate=count_tokens,
        window=settings.context_window or DEFAULT_CONTEXT_WINDOW,
        trace=trace_of(visit, "structured_answer", seen),
        run_name="turngraph structured answer",
        hushed=hushed,
    )
    return await fill_format(model, request, fmt)
