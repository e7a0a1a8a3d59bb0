"""prepare: a request under given terms, as what the model is called with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import BaseMessage, SystemMessage

from turngraph.llm.adapters import is_wired
from turngraph.llm.assemble import Reading, TextCalls
from turngraph.llm.binding import names_of, provider_of, schemas_of, streams, unbound
from turngraph.llm.profile import model_name
from turngraph.llm.request import ModelRequest, Terms, with_fields
from turngraph.llm.text_prompt import render_for_text, tools_prompt
from turngraph.state.settings import ModelProfile

if TYPE_CHECKING:
    from turngraph.llm.wire import TurnChatOpenAI, WireOptions


class ToolsNotBoundError(Exception):
    """The model's adapter has no tool calling."""


@dataclass(frozen=True)
class Prepared:
    """One attempt, ready to be made: the model's copy, its messages and keyword arguments, how it is read."""

    model: BaseChatModel
    messages: list[BaseMessage]
    kwargs: dict[str, Any]
    reading: Reading
    streamed: bool
    model_name: str


def prepare(model: BaseChatModel, request: ModelRequest, terms: Terms, profile: ModelProfile) -> Prepared:
    """Raises ToolsNotBoundError where the model takes no tools, else what its `bind_tools` raises."""
    wired = is_wired(model)
    name = model_name(model)
    provider = provider_of(model)
    model = with_fields(model, request, terms)
    if is_wired(model):
        model = model.with_options(_wire_options(model, request, terms))
    model, kwargs = _bound(model, request, terms)
    reading = Reading(
        offered=frozenset(names_of(request.tools)),
        text_calls=_text_calls(request, terms),
        opens_think=bool(profile.opens_think),
        openai_wire=wired,
        drop_calls=request.tool_choice == "none",
        taken_ids=request.taken_ids,
        provider=provider,
        schemas=schemas_of(kwargs.get("tools") or request.tools),
    )
    streamed = terms.stream and streams(model, kwargs)
    if not terms.stream:
        model = model.model_copy(update={"disable_streaming": True})
    return Prepared(model, _messages(request, terms), kwargs, reading, streamed, name)


def _text_calls(request: ModelRequest, terms: Terms) -> TextCalls:
    if terms.text_protocol:
        return "protocol"
    # Markup in place of the answer of a forced finish is no answer, whoever reads calls from text.
    return "rescue" if request.text_tools != "never" or request.tool_choice == "none" else "off"


def _bound(model: BaseChatModel, request: ModelRequest, terms: Terms) -> tuple[BaseChatModel, dict[str, Any]]:
    if not request.tools or terms.text_protocol:
        return model, {}
    choice: dict[str, Any] = {}
    if request.tool_choice == "none":
        if terms.none_mode == "bare":
            return model, {}
        if terms.none_mode == "choice":
            choice = {"tool_choice": _none_for(model)}
    elif request.only_tool is not None and "tool_choice" not in terms.dropped:
        choice = {"tool_choice": request.only_tool}
    try:
        bound = model.bind_tools(list(request.tools), **choice)
    except NotImplementedError as error:
        raise ToolsNotBoundError(f"{type(model).__name__} takes no tools") from error
    inner, kwargs, _ = unbound(bound)
    return inner, kwargs


def _none_for(model: BaseChatModel) -> Any:
    """Anthropic's adapters read a string as the name of a tool."""
    return {"type": "none"} if "Anthropic" in type(model).__name__ else "none"


def _wire_options(model: "TurnChatOpenAI", request: ModelRequest, terms: Terms) -> "WireOptions":
    from turngraph.llm.wire import WireOptions

    dropped = set(terms.dropped)
    if not terms.temperature:
        dropped.add("temperature")
    if terms.max_tokens_name is None:
        dropped |= {"max_completion_tokens", "max_output_tokens"}
    if not terms.stream_usage:
        dropped.add("stream_options")
    extra: dict[str, Any] = {}
    usable = bool(request.tools) and request.tool_choice == "auto"
    # Compatible servers hold calls to the schema too, so beside usable tools it is sent to OpenAI only.
    if request.response_format is not None and terms.schema and (not usable or model.openai_api_base is None):
        native = request.response_format.native()
        if model._use_responses_api({}):
            extra["text"] = {"format": {"type": native["type"], **native["json_schema"]}}
        else:
            extra["response_format"] = native
    return WireOptions(
        reasoning_back=terms.reasoning_back,
        stream_usage=False if not terms.stream_usage else (None if model.stream_usage is False else True),
        max_tokens_name=terms.max_tokens_name or "max_completion_tokens",
        drop=frozenset(dropped),
        extra=extra,
    )


def _messages(request: ModelRequest, terms: Terms) -> list[BaseMessage]:
    messages = list(request.messages)
    if terms.text_protocol:
        messages = render_for_text(messages)
        if request.tools and request.tool_choice == "auto":
            messages = _with_system(messages, tools_prompt(request.tools))
    if not terms.images:
        messages = [_without_images(each) for each in messages]
    return messages


def _with_system(messages: Sequence[BaseMessage], text: str) -> list[BaseMessage]:
    """The text at the end of the one system message, which is made where there is none."""
    if messages and isinstance(messages[0], SystemMessage):
        first = messages[0]
        return [first.model_copy(update={"content": f"{first.text}\n\n{text}".strip()}), *messages[1:]]
    return [SystemMessage(text), *messages]


_IMAGE_TYPES = frozenset({"image", "image_url", "input_image"})


def _without_images(message: BaseMessage) -> BaseMessage:
    """The message with a stated placeholder for each image."""
    content = message.content
    if not isinstance(content, list) or not any(_is_image(block) for block in content):
        return message
    placeholder = {"type": "text", "text": "[An image was here; this model takes none.]"}
    return message.model_copy(update={"content": [placeholder if _is_image(block) else block for block in content]})


def _is_image(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") in _IMAGE_TYPES
