"""Tools of MCP servers, with the policy that their hints ask for; a server that is down costs only its own tools."""

import asyncio
import functools
import importlib
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from langchain_core.tools import BaseTool, StructuredTool, ToolException

from turngraph.state.errors import InputError
from turngraph.state.words import Effect, Permission
from turngraph.tools.policy import tool_policy
from turngraph.tools.returned import describe

_log = logging.getLogger(__name__)

CONNECT_SECONDS = 30.0
"""How long a server may take to start and to list its tools."""

DEFER_ABOVE = 20
"""More tools than this are deferred: a line each in the manifest instead of a schema each in every request."""

_NAME_LENGTH = 64
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")
_STDIO = frozenset({"command", "args", "env", "cwd", "encoding", "encoding_error_handler", "session_kwargs"})
_SSE = frozenset({"url", "headers", "timeout", "sse_read_timeout", "session_kwargs", "httpx_client_factory", "auth"})
_HTTP = _SSE | {"terminate_on_close"}
_HTTP_NAMES = frozenset({"http", "streamable_http", "streamable-http", "streamableHttp"})


class McpError(ToolException):
    """An MCP server could not be used; the text names the server and what went wrong."""


class McpTools(list[BaseTool]):
    """The tools that could be loaded, and by server name why the others could not."""

    def __init__(self, tools: list[BaseTool], errors: Mapping[str, McpError]) -> None:
        super().__init__(tools)
        self.errors = dict(errors)


async def load_mcp_tools(
    servers: Mapping[str, Any],
    *,
    permission: Permission | None = None,
    timeout: float | None = None,
    deferred: bool | None = None,
    connect_timeout: float = CONNECT_SECONDS,
    strict: bool = False,
) -> McpTools:
    """The tools of MCP servers, for `build_turn_graph(tools=[...])`. Needs `pip install "turngraph[mcp]"`.

    `servers`: by name `{"command", "args", "env"?, "cwd"?}` for a local server (stdio) or `{"url", "headers"?}` for
    one over HTTP (`"transport": "sse"` for the older protocol); the `{"mcpServers": {...}}` files of other programs
    work as they are. Each call opens a session of its own and closes it.

    A tool with a read-only hint is `effect="read"` and allowed; any other asks a person, unless `permission` says
    otherwise (hints are the server's own claims). `timeout` (seconds) holds for each call. `deferred`: None defers
    all when there are more than DEFER_ABOVE. Names that two servers share get the server's name in front.

    Servers are asked in parallel, each for at most `connect_timeout` seconds. One that fails is logged and named in
    `.errors` of the result; with `strict` McpError is raised instead. Raises InputError if the extra is missing.
    """
    load = await _adapter()
    named = servers["mcpServers"] if set(servers) == {"mcpServers"} else servers
    loaded = await asyncio.gather(*(_load(load, name, config, connect_timeout) for name, config in named.items()))
    errors = {name: found for name, found in zip(named, loaded, strict=True) if isinstance(found, McpError)}
    for error in errors.values():
        _log.warning("%s", error)
    if strict and errors:
        raise McpError(" ".join(str(error) for error in errors.values()))
    found = [
        (name, tool) for name, tools in zip(named, loaded, strict=True) if isinstance(tools, list) for tool in tools
    ]
    names = _unique_names([(server, tool.name) for server, tool in found])
    defer = len(found) > DEFER_ABOVE if deferred is None else deferred
    return McpTools(
        [
            _with_policy(_guarded(server, tool, name), permission, timeout, defer)
            for (server, tool), name in zip(found, names, strict=True)
        ],
        errors,
    )


async def _adapter() -> Callable[..., Awaitable[list[BaseTool]]]:
    """The adapter's loader of one server's tools, imported in a thread because that takes long."""
    try:
        module = await asyncio.to_thread(importlib.import_module, "langchain_mcp_adapters.tools")
    except ImportError as error:
        raise InputError(f'MCP tools need another package: pip install "turngraph[mcp]" ({error}).') from error
    return cast(Callable[..., Awaitable[list[BaseTool]]], module.load_mcp_tools)


async def _load(
    load: Callable[..., Awaitable[list[BaseTool]]], name: str, config: Any, seconds: float
) -> list[BaseTool] | McpError:
    """One server's tools, or why there are none."""
    try:
        connection = connection_of(name, config)
    except InputError as error:
        return McpError(str(error))
    try:
        async with asyncio.timeout(seconds):
            return await load(None, connection=connection, server_name=name)
    except TimeoutError:
        return McpError(f"The MCP server {name!r} ({_place(connection)}) did not answer within {seconds:g} s.")
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one server is that server's error
        return McpError(f"The MCP server {name!r} ({_place(connection)}) cannot be used: {_cause(error)}.")


def connection_of(name: str, config: Any) -> dict[str, Any]:
    """A server's configuration as the adapter takes it. Raises InputError that names the server and the field."""
    if not isinstance(config, Mapping):
        raise InputError(f"The MCP server {name!r} needs a mapping with `command` or `url`, not {config!r}.")
    given = {key: value for key, value in config.items() if key not in ("transport", "type")}
    kind = config.get("transport", config.get("type"))
    if kind is None:
        kind = "stdio" if "command" in given else "http"
    if kind == "stdio":
        return _checked(name, {"args": [], **given, "transport": "stdio"}, "command", _STDIO)
    if kind == "sse":
        return _checked(name, {**given, "transport": "sse"}, "url", _SSE)
    if kind in _HTTP_NAMES:
        return _checked(name, {**given, "transport": "streamable_http"}, "url", _HTTP)
    raise InputError(f"The MCP server {name!r} has the transport {kind!r}; known are stdio, http and sse.")


def _checked(name: str, connection: dict[str, Any], needed: str, known: frozenset[str]) -> dict[str, Any]:
    if not isinstance(connection.get(needed), str) or not connection[needed]:
        raise InputError(f"The MCP server {name!r} needs `{needed}`: a non-empty string.")
    if unknown := sorted(set(connection) - known - {"transport"}):
        fields = f"{', '.join(unknown)}. Known: {', '.join(sorted(known))}"
        raise InputError(f"The MCP server {name!r} has unknown fields: {fields}.")
    return connection


def _place(connection: Mapping[str, Any]) -> str:
    """Where a server is, without what may be secret: arguments, user info, path and query."""
    if "command" in connection:
        return f"command {connection['command']}"
    url = urlsplit(connection["url"])
    return f"{url.scheme}://{url.hostname}" + (f":{url.port}" if url.port else "")


def _cause(error: BaseException) -> str:
    """What went wrong, without the task groups that the client wraps it in."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return describe(error).rstrip(".")


def _unique_names(found: list[tuple[str, str]]) -> list[str]:
    """Names that every provider takes, no two the same; `found` holds (server, tool) names. Pure, order kept."""
    count = Counter(tool for _, tool in found)
    names: list[str] = []
    for server, tool in found:
        wanted = f"{server}_{tool}" if count[tool] > 1 else tool
        base = _NOT_IN_NAMES.sub("_", wanted)[:_NAME_LENGTH] or "tool"
        name, number = base, 1
        while name in names:
            number += 1
            name = f"{base[: _NAME_LENGTH - len(str(number)) - 1]}_{number}"
        names.append(name)
    return names


def _guarded(server: str, tool: BaseTool, name: str) -> BaseTool:
    """The tool under its unique name; a server that fails during a call is named in the error."""
    if not isinstance(tool, StructuredTool) or tool.coroutine is None:
        return tool.model_copy(update={"name": name})
    call = tool.coroutine

    @functools.wraps(call)
    async def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return await call(*args, **kwargs)
        except ToolException:
            raise
        except Exception as error:
            raise McpError(f"The MCP server {server!r} failed during the call: {_cause(error)}.") from error

    return tool.model_copy(update={"name": name, "coroutine": guarded})


def _with_policy(tool: BaseTool, permission: Permission | None, timeout: float | None, deferred: bool) -> BaseTool:
    """The policy that a tool's hints ask for."""
    hints = tool.metadata or {}
    read_only = hints.get("readOnlyHint") is True
    effect: Effect | None = "read" if read_only else "write" if hints.get("destructiveHint") is True else None
    asked: Permission = permission or ("allow" if read_only else "ask")
    return tool_policy(tool, permission=asked, effect=effect, timeout=timeout, deferred=deferred)
