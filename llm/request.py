"""What one model call is asked for, and the terms under which an attempt sends it: pure, but for the model's copy."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.tools import BaseTool

from turngraph.llm.profile import Fact
from turngraph.llm.structured import OutputFormat
from turngraph.state.errors import ProviderFault
from turngraph.state.settings import DEFAULT_CONTEXT_WINDOW, ModelProfile
from turngraph.state.words import TextTools

NoneMode: TypeAlias = Literal["choice", "bare", "tools"]
"""How tools are kept from being used: `tool_choice="none"`, no tools at all, or tools whose calls are dropped."""


def _no_estimate(_: Sequence[BaseMessage]) -> int:
    return 0


@dataclass(frozen=True)
class ModelRequest:
    """One logical model call.

    `messages` is the view in the shape that the model takes. `tool_choice` none: tools stay bound and cannot be used;
    `only_tool` is the one that has to be called, where the model can be made to.
    `profile` is what is declared of the model; learned facts are added. `taken_ids` are call ids on the tape.
    `idle_timeout` is seconds without a chunk, `window` tokens. `estimate` counts tokens where usage is missing.
    `reshape` gives the messages again once the profile has changed; without it a refused shape is an error.
    `hidden` keeps the call out of every stream. `trace` is metadata of the call's run, `run_name` its name in traces.
    In `hushed` the provider's errors pass before anybody, tracers included, is told of them.
    """

    messages: Sequence[BaseMessage]
    tools: Sequence[BaseTool | dict[str, Any]] = ()
    tool_choice: Literal["auto", "none"] = "auto"
    only_tool: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    profile: ModelProfile = field(default_factory=lambda: ModelProfile())
    text_tools: TextTools = "auto"
    taken_ids: frozenset[str] = frozenset()
    max_retries: int = 2
    idle_timeout: float = 120.0
    estimate: Callable[[Sequence[BaseMessage]], int] = _no_estimate
    window: int = DEFAULT_CONTEXT_WINDOW
    response_format: OutputFormat | None = None
    reshape: Callable[[ModelProfile], Sequence[BaseMessage]] | None = None
    hidden: bool = False
    trace: Mapping[str, Any] = field(default_factory=dict)
    run_name: str | None = None
    hushed: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True)
class Terms:
    """What an attempt sends and what it leaves out. Everything here only ever gets less, so adapting ends.

    `text_protocol`: tools are described in the prompt, never bound. `dropped`: parameters left out by name.
    """

    text_protocol: bool = False
    none_mode: NoneMode = "choice"
    stream: bool = True
    stream_usage: bool = True
    temperature: bool = True
    images: bool = True
    schema: bool = True
    max_tokens_name: str | None = "max_completion_tokens"
    reasoning_back: bool = False
    dropped: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Change:
    """New terms after a refusal, and the fact to remember. `reshape`: the messages themselves have to change."""

    terms: Terms
    fact: Fact | None = None
    value: Any = False
    reshape: bool = False


def first_terms(request: ModelRequest, profile: ModelProfile, facts: Mapping[str, Any]) -> Terms:
    """The terms of the first attempt, from what is declared, known and learned."""
    whole = facts.get("tool_streaming") is False
    speaks_text = request.text_tools == "always" or (request.text_tools == "auto" and profile.native_tools is False)
    return Terms(
        text_protocol=speaks_text,
        none_mode="bare" if profile.tool_choice is False else "choice",
        stream=facts.get("streaming") is not False and not (whole and request.tools and not speaks_text),
        stream_usage=profile.stream_usage is not False,
        temperature=facts.get("temperature") is not False,
        images=facts.get("images") is not False,
        schema=facts.get("json_schema") is not False,
        max_tokens_name=facts.get("max_tokens_name", "max_completion_tokens") or None,
        reasoning_back=bool(profile.reasoning_back),
        dropped=frozenset(facts.get("dropped", ())) | ({"tool_choice"} if profile.tool_choice is False else set()),
    )


_SHAPES: Mapping[str, tuple[Fact, bool]] = {
    "alternate_roles": ("alternate_roles", True),
    "system_messages": ("system_messages", False),
    "string_tool_content": ("string_tool_content", True),
}

_MAX_TOKENS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def adapted(terms: Terms, fault: ProviderFault, request: ModelRequest) -> Change | None:
    """How to ask again after a refusal, dropping only what was refused; None where nothing is left to drop."""
    change = _adapted(terms, fault, request)
    if change is None or (change.terms == terms and not change.reshape):
        return None
    return change


def _adapted(terms: Terms, fault: ProviderFault, request: ModelRequest) -> Change | None:
    if fault.kind == "tools_unsupported":
        return _without_native_tools(terms, fault, request)
    if fault.kind == "invalid_request":
        return _other_way_to_say_none(terms, request) or _without_schema(terms, request)
    if fault.kind != "parameter_unsupported":
        return None
    match fault.detail:
        case "tool_choice":
            none_mode: NoneMode = "bare" if terms.none_mode == "choice" else terms.none_mode
            dropped = terms.dropped | {"tool_choice"}
            return Change(replace(terms, none_mode=none_mode, dropped=dropped), "tool_choice")
        case "stream_options":
            return Change(replace(terms, stream_usage=False), "stream_usage")
        case "temperature":
            return Change(replace(terms, temperature=False), "temperature")
        case "images":
            return Change(replace(terms, images=False), "images")
        case "response_format":
            return Change(replace(terms, schema=False), "json_schema")
        case "stream":
            return Change(replace(terms, stream=False), "streaming")
        case "reasoning_content":
            return Change(replace(terms, reasoning_back=False), "reasoning_back", False)
        case "reasoning_content_required":
            reshape = request.reshape is not None
            return Change(replace(terms, reasoning_back=True), "reasoning_back", True, reshape=reshape)
        case name if name in _MAX_TOKENS:
            return _other_name(terms)
        case name if name in _SHAPES:
            fact, value = _SHAPES[name]
            return Change(terms, fact, value, reshape=True) if request.reshape is not None else None
        case name:
            return _dropped(terms, name)


def _without_native_tools(terms: Terms, fault: ProviderFault, request: ModelRequest) -> Change | None:
    if fault.detail == "stream" and terms.stream:
        return Change(replace(terms, stream=False), "tool_streaming")
    if terms.text_protocol or request.text_tools == "never":
        return None
    return Change(replace(terms, text_protocol=True), "native_tools")


def _other_way_to_say_none(terms: Terms, request: ModelRequest) -> Change | None:
    """A forced finish is the last resort: where a request with `none` is refused without a clear reason, the other
    ways are tried. Nothing is learned from it."""
    if request.tool_choice != "none" or terms.text_protocol or not request.tools or terms.none_mode == "tools":
        return None
    return Change(replace(terms, none_mode="bare" if terms.none_mode == "choice" else "tools"))


def _without_schema(terms: Terms, request: ModelRequest) -> Change | None:
    """Servers refuse a schema in many words (a grammar that does not compile, say); the value is checked anyway."""
    return Change(replace(terms, schema=False)) if request.response_format is not None and terms.schema else None


def _other_name(terms: Terms) -> Change:
    other = {"max_completion_tokens": "max_tokens", "max_tokens": None, None: None}[terms.max_tokens_name]
    return Change(replace(terms, max_tokens_name=other), "max_tokens_name", other or "")


def _dropped(terms: Terms, name: str) -> Change | None:
    """Any other parameter: left out, where it is known by name."""
    if not name or name in terms.dropped:
        return None
    return Change(replace(terms, dropped=terms.dropped | {name}), "dropped", sorted(terms.dropped | {name}))


def with_fields(model: BaseChatModel, request: ModelRequest, terms: Terms) -> BaseChatModel:
    """A copy of the model with the request's temperature and bound on output, by the names that its fields have."""
    fields = type(model).model_fields
    changes: dict[str, Any] = {}
    if "temperature" in fields and (request.temperature is not None or not terms.temperature):
        changes["temperature"] = request.temperature if terms.temperature else None
    if request.max_output_tokens is not None:
        names = ("max_tokens", "max_output_tokens", "num_predict", "max_new_tokens")
        name = next((each for each in names if each in fields), None)
        if name is not None:
            changes[name] = request.max_output_tokens
    return model.model_copy(update=changes) if changes else model
