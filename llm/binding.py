"""What is inside LangChain's bindings and tools: the model, what is bound to it, names and schemas of tools."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.runnables import RunnableBinding, RunnableConfig
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from turngraph.llm.profile import model_name


def provider_of(model: BaseChatModel) -> str:
    """Who can read what this model seals: its kind of adapter and its name."""
    return f"{type(model).__name__}:{model_name(model)}"


def names_of(tools: Sequence[Any]) -> list[str]:
    """The names of tools in any provider's format; a tool that the provider runs itself has none."""
    found = []
    for tool in tools:
        if isinstance(tool, BaseTool):
            found.append(tool.name)
        elif isinstance(tool, Mapping):
            inner = tool.get("function")
            name = (inner if isinstance(inner, Mapping) else tool).get("name")
            if isinstance(name, str):
                found.append(name)
    return found


def streams(model: BaseChatModel, kwargs: Mapping[str, Any], *, async_api: bool = True) -> bool:
    """True where the model streams its answer to such a call."""
    return model._should_stream(async_api=async_api, **{**kwargs, "stream": True})


def unbound(runnable: Any) -> tuple[BaseChatModel, dict[str, Any], RunnableConfig]:
    """The model inside bindings, and what they bind. Raises NotImplementedError where it is no model."""
    kwargs: dict[str, Any] = {}
    config: RunnableConfig = {}
    while isinstance(runnable, RunnableBinding):
        kwargs = {**runnable.kwargs, **kwargs}
        config = {**runnable.config, **config}
        runnable = runnable.bound
    if not isinstance(runnable, BaseChatModel):
        raise NotImplementedError(f"tools cannot be bound through a {type(runnable).__name__}")
    return runnable, kwargs, config


def schemas_of(tools: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """The parameters of tools by name, in OpenAI's or Anthropic's format or still to be converted."""
    found: dict[str, dict[str, Any]] = {}
    for tool in tools:
        made = tool if isinstance(tool, Mapping) else convert_to_openai_tool(tool)
        described = made.get("function", made)
        schema = described.get("parameters") or described.get("input_schema")
        if isinstance(described.get("name"), str) and isinstance(schema, dict):
            found[described["name"]] = schema
    return found
