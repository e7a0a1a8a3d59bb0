"""fill_format: a call of its own that can only write the value of a structured answer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from turngraph.llm.adapters import is_wired
from turngraph.llm.call import CallFailed, ModelRequest, RoundResult, StreamProgress, stream_round
from turngraph.llm.clean import clean_model
from turngraph.llm.profile import facts_of
from turngraph.llm.structured import OutputFormat, Validated
from turngraph.state.receipt import Usage, add_usage, no_usage

MISMATCHES_NAMED = 2
"""How often a value that does not fit is sent back with what is wrong."""


@dataclass(frozen=True)
class Filled:
    """`value` is plain JSON that fits, or None with the last `error`."""

    value: Any
    error: str | None
    usage: Usage


async def fill_format(
    model: BaseChatModel,
    request: ModelRequest,
    fmt: OutputFormat,
    *,
    mismatches: int = MISMATCHES_NAMED,
    progress: StreamProgress | None = None,
) -> Filled:
    """Asks for the value on top of the request's messages, hidden from every stream.

    Providers that take a JSON schema are given one; others get one tool, the value being its arguments, and the
    instruction in words. A mismatch is named to the model at most `mismatches` times. Raises CallFailed.
    """
    usage = no_usage()
    messages = [*request.messages, HumanMessage(fmt.asked_for())]
    error: str | None = None
    for attempt in range(mismatches + 1):
        try:
            result = await stream_round(model, _asked(model, request, fmt, messages), _unseen, progress)
        except CallFailed as failed:
            failed.usage = add_usage(usage, failed.usage)
            raise
        usage = add_usage(usage, result.usage)
        value, error = _read(result, fmt)
        if error is None:
            return Filled(value, None, usage)
        if attempt < mismatches:
            messages = [*messages, *_named(result, error)]
    return Filled(None, error, usage)


def _unseen(*_: str) -> None:
    """Nobody is shown a call that only fills a schema."""


def _asked(
    model: BaseChatModel, request: ModelRequest, fmt: OutputFormat, messages: Sequence[BaseMessage]
) -> ModelRequest:
    asked = replace(request, messages=messages, response_format=fmt, reshape=None, hidden=True)
    inner = clean_model(model).inner
    if is_wired(inner) and facts_of(inner).get("json_schema") is not False:
        return replace(asked, tool_choice="none")
    return replace(asked, tools=[fmt.as_tool()], tool_choice="auto", only_tool=fmt.name)


def _read(result: RoundResult, fmt: OutputFormat) -> Validated:
    """The value in the one tool's arguments, else in the text."""
    for call in result.message.tool_calls:
        if call["name"] == fmt.name:
            problem = result.problems.get(call["id"] or "")
            return fmt.validate(call["args"]) if problem is None else (None, problem["text"])
    return fmt.read(result.message.text)


def _named(result: RoundResult, error: str) -> list[BaseMessage]:
    """What the model wrote, as text, and what is wrong with it."""
    written = [f"{call['name']}: {call['args']}" for call in result.message.tool_calls]
    said = result.message.text or "\n".join(written) or "(nothing)"
    return [AIMessage(said), HumanMessage(f"That does not fit: {error}\nWrite the whole value again, corrected.")]
