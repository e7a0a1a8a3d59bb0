"""What a tool declares of itself: permission, effect, limits. Stored with the tool as plain JSON."""

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast, get_args, get_type_hints

from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from turngraph.state.errors import InputError
from turngraph.state.words import Effect, Permission

METADATA_KEY = "turngraph"
_MCP_ADAPTER = "langchain_mcp_adapters."


@dataclass(frozen=True)
class ToolPolicy:
    """What a tool declared. `timeout` in seconds, `max_output_tokens` in tokens; None: the turn's setting holds."""

    permission: Permission = "allow"
    effect: Effect | None = None
    timeout: float | None = None
    max_output_tokens: int | None = None
    deferred: bool = False
    polling: bool = False


def tool_policy(
    tool: BaseTool | Callable[..., Any],
    *,
    permission: Permission = "allow",
    effect: Effect | None = None,
    timeout: float | None = None,
    max_output_tokens: int | None = None,
    deferred: bool = False,
    polling: bool = False,
) -> BaseTool:
    """A copy of the tool that carries this policy; a plain callable, sync or async, becomes a tool first.

    permission: `allow`, `ask` a person before each call, or `deny`. effect: `read` (may be repeated, runs with other
    reads), `write` (runs in call order among writes), None (an effect that may run in parallel). timeout: seconds.
    deferred: the model sees one line until it loads the tool. polling: repeating a call with the same result is fine.
    The given tool is not changed; an earlier policy of it is replaced. Raises InputError for anything else.
    """
    made = as_tool_object(tool)
    if isinstance(made, dict):
        raise InputError(
            "A provider-side tool runs at the provider, where no policy reaches it; leave its dict as it is."
        )
    policy = _checked(made.name, ToolPolicy(permission, effect, timeout, max_output_tokens, deferred, polling))
    return made.model_copy(update={"metadata": {**(made.metadata or {}), METADATA_KEY: asdict(policy)}})


def _checked(name: str, policy: ToolPolicy) -> ToolPolicy:
    """The same policy with plain types; raises InputError that names tool, field and what would be right."""

    def refuse(field: str, right: str) -> InputError:
        return InputError(f"tool_policy({name!r}): {field}={getattr(policy, field)!r} is not possible; use {right}.")

    if policy.permission not in get_args(Permission):
        raise refuse("permission", "'allow', 'ask' or 'deny'")
    if policy.effect is not None and policy.effect not in get_args(Effect):
        raise refuse("effect", "'read', 'write' or None")
    timeout = policy.timeout
    if timeout is not None:
        if (
            isinstance(timeout, bool)
            or not isinstance(timeout, int | float)
            or not math.isfinite(timeout)
            or timeout <= 0
        ):
            raise refuse("timeout", "seconds above 0, or None for the turn's own")
        timeout = float(timeout)
    tokens = policy.max_output_tokens
    if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1):
        raise refuse("max_output_tokens", "a whole number of tokens above 0, or None for the turn's own")
    for field in ("deferred", "polling"):
        if not isinstance(getattr(policy, field), bool):
            raise refuse(field, "True or False")
    return ToolPolicy(policy.permission, policy.effect, timeout, tokens, policy.deferred, policy.polling)


def policy_of(tool: BaseTool | Mapping[str, Any]) -> ToolPolicy:
    """The declared policy of a tool.

    Undeclared: allow. A tool of an MCP server, undeclared: what its read-only hint says, `ask` where it has none (the
    hint is the server's own claim; the annotations are where `langchain-mcp-adapters` puts them, in `metadata`).
    """
    if not isinstance(tool, BaseTool):
        return ToolPolicy()
    metadata = tool.metadata or {}
    declared = metadata.get(METADATA_KEY)
    if isinstance(declared, Mapping):
        known = {key: value for key, value in declared.items() if key in ToolPolicy.__dataclass_fields__}
        return _checked(tool.name, ToolPolicy(**known))
    if _is_mcp(tool):
        return ToolPolicy(effect="read") if metadata.get("readOnlyHint") is True else ToolPolicy(permission="ask")
    return ToolPolicy()


def _is_mcp(tool: BaseTool) -> bool:
    """Whether an MCP server runs this tool. Annotations may be missing altogether, the adapter's function never is."""
    function = getattr(tool, "coroutine", None) or getattr(tool, "func", None)
    module = getattr(inspect.unwrap(function), "__module__", None) if callable(function) else None
    return (module or "").startswith(_MCP_ADAPTER) or "readOnlyHint" in (tool.metadata or {})


def as_tool_object(obj: Any) -> BaseTool | dict[str, Any]:
    """A tool as LangChain knows it: a BaseTool as it is, a callable made into one, a provider-side dict kept.

    Raises InputError for a class, a callable without a name, one whose arguments cannot be described, or anything else.
    """
    if isinstance(obj, BaseTool):
        return obj
    if isinstance(obj, Mapping):
        return _provider_side(obj)
    if inspect.isclass(obj) or not callable(obj):
        raise InputError(
            f"{obj!r} is not a tool: give a BaseTool, a function (sync or async) or a provider's tool dict."
        )
    name, function = _named(obj)
    description = inspect.cleandoc(_docstring(obj)) or name.replace("_", " ")
    way: dict[str, Any] = {"coroutine" if inspect.iscoroutinefunction(function) else "func": function}
    try:
        tool = StructuredTool.from_function(**way, name=name, description=description)
        schema_of(tool)
        return tool
    except Exception as error:  # whatever pydantic makes of the signature, it is the caller's function that is unusable
        raise InputError(f"The arguments of {name!r} cannot be described as a tool schema: {error}") from error


def _provider_side(obj: Mapping[str, Any]) -> dict[str, Any]:
    """A provider's own tool, such as {"type": "web_search"}."""
    if not obj.get("type") and not obj.get("name"):
        raise InputError(f"A provider-side tool dict needs a 'type' or a 'name'; got the keys {sorted(map(str, obj))}.")
    return dict(obj)


def _named(obj: Callable[..., Any]) -> tuple[str, Callable[..., Any]]:
    """The name that the model sees, and a function with a readable signature, also for a partial or an instance."""
    inner = _inner(obj)
    name = getattr(inner, "__name__", type(inner).__name__)
    if name == "<lambda>":
        raise InputError("A lambda has no name that a model could call; use a named function.")
    if isinstance(obj, functools.partial):
        return name, _around(obj, _function(inner), name)
    return name, _function(obj)


def _inner(obj: Any) -> Any:
    """What a partial of a partial finally calls."""
    while isinstance(obj, functools.partial):
        obj = obj.func
    return obj


def _function(obj: Any) -> Callable[..., Any]:
    """A function or method as it is; of an instance with `__call__` that method."""
    return cast(Callable[..., Any], obj if hasattr(obj, "__name__") else obj.__call__)


def _around(bound: functools.partial[Any], inner: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function around a partial; the arguments that it binds are not the model's to give."""

    async def call_async(**kwargs: Any) -> Any:
        return await bound(**kwargs)

    def call(**kwargs: Any) -> Any:
        return bound(**kwargs)

    wrapper: Any = call_async if inspect.iscoroutinefunction(inner) else call
    signature = inspect.signature(bound)
    free = [parameter for parameter in signature.parameters.values() if parameter.name not in bound.keywords]
    kept = {parameter.name for parameter in free} | {"return"}
    wrapper.__name__ = wrapper.__qualname__ = name
    wrapper.__module__ = inner.__module__
    wrapper.__signature__ = signature.replace(parameters=free)
    wrapper.__annotations__ = {
        key: value for key, value in get_type_hints(inner, include_extras=True).items() if key in kept
    }
    return cast(Callable[..., Any], wrapper)


def _docstring(obj: Any) -> str:
    """The callable's own documentation; for an instance that of its `__call__`, then of its class."""
    inner = _inner(obj)
    if hasattr(inner, "__name__"):
        return inner.__doc__ or ""
    return inner.__call__.__doc__ or type(inner).__doc__ or ""


def schema_of(tool: BaseTool | Mapping[str, Any]) -> dict[str, Any]:
    """The tool as the OpenAI wire names it, arguments that the runtime injects left out; a provider's dict as it is."""
    return convert_to_openai_tool(tool) if isinstance(tool, BaseTool) else dict(tool)
