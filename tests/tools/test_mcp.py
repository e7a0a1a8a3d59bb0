"""Tools of real MCP servers, over stdio and over HTTP: policies, names, failures, time."""

import asyncio
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngraph.state.errors import InputError
from turngraph.tools import load_mcp_tools, mcp
from turngraph.tools.mcp import McpError, McpTools, connection_of
from turngraph.tools.policy import policy_of
from turngraph.tools.run import Failed, Ok, RawToolResult, ToolContext, run_tool

SERVER = textwrap.dedent(
    """
    import asyncio, sys
    from mcp.server.fastmcp import FastMCP, Image
    from mcp.types import ToolAnnotations

    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    server = FastMCP(sys.argv[1], host="127.0.0.1", port=port, log_level="ERROR")

    @server.tool(annotations=ToolAnnotations(readOnlyHint=True))
    def add(a: int, b: int) -> int:
        "Adds."
        return a + b

    @server.tool(annotations=ToolAnnotations(destructiveHint=True))
    def wipe(path: str) -> str:
        "Wipes."
        return "wiped " + path

    @server.tool()
    def fail() -> str:
        "Fails."
        raise ValueError("broken inside")

    @server.tool()
    def picture() -> Image:
        "Draws."
        return Image(data=b"png", format="png")

    @server.tool()
    async def hang() -> str:
        "Hangs."
        await asyncio.sleep(60)
        return "never"

    @server.tool()
    def die() -> str:
        "Takes the server down."
        import os
        os._exit(1)

    server.run("streamable-http" if port else "stdio")
    """
)


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("langchain_mcp_adapters")
    path = tmp_path_factory.mktemp("mcp") / "server.py"
    path.write_text(SERVER, encoding="utf-8")
    return path


@pytest.fixture
def stdio(script: Path) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(script), "local"]}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def http(script: Path) -> Iterator[dict[str, Any]]:
    port = free_port()
    with subprocess.Popen([sys.executable, str(script), "remote", str(port)], stderr=subprocess.PIPE) as server:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield {"url": f"http://127.0.0.1:{port}/mcp"}
        server.terminate()


async def call(tools: list[Any], name: str, timeout: float = 20, **args: Any) -> RawToolResult:
    [tool] = [each for each in tools if each.name == name]
    context = ToolContext("t", "u", {"configurable": {}}, state={})
    return await run_tool(tool, {"id": "c", "name": name, "args": args}, timeout=timeout, injected=context)


def text_of(result: RawToolResult) -> str:
    assert isinstance(result, Ok), result
    return "".join(block["text"] for block in result.value)


async def test_a_stdio_server_and_an_http_server_together(stdio: dict[str, Any], http: dict[str, Any]) -> None:
    tools = await load_mcp_tools({"local": stdio, "remote": http})
    assert isinstance(tools, McpTools)
    assert tools.errors == {}
    names = {
        f"{server}_{name}"
        for server in ("local", "remote")
        for name in ["add", "wipe", "fail", "picture", "hang", "die"]
    }
    assert {tool.name for tool in tools} == names
    sums = await asyncio.gather(call(tools, "local_add", a=1, b=2), call(tools, "remote_add", a=3, b=4))
    assert [text_of(each) for each in sums] == ["3", "7"]
    drawn = await call(tools, "remote_picture")
    assert isinstance(drawn, Ok)
    assert drawn.value[0]["mime_type"] == "image/png"


async def test_hints_decide_the_policy(http: dict[str, Any]) -> None:
    by_name = {tool.name: policy_of(tool) for tool in await load_mcp_tools({"remote": http}, timeout=9)}
    assert (by_name["add"].permission, by_name["add"].effect) == ("allow", "read")
    assert (by_name["wipe"].permission, by_name["wipe"].effect) == ("ask", "write")
    assert (by_name["fail"].permission, by_name["fail"].effect) == ("ask", None)
    assert {policy.timeout for policy in by_name.values()} == {9.0}
    assert not any(policy.deferred for policy in by_name.values())
    trusted = await load_mcp_tools({"remote": http}, permission="allow", deferred=True)
    assert {policy_of(tool).permission for tool in trusted} == {"allow"}
    assert all(policy_of(tool).deferred for tool in trusted)
    assert {policy_of(tool).effect for tool in trusted} == {"read", "write", None}


async def test_many_tools_are_deferred(http: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "DEFER_ABOVE", 5)
    assert all(policy_of(tool).deferred for tool in await load_mcp_tools({"remote": http}))
    monkeypatch.setattr(mcp, "DEFER_ABOVE", 6)
    assert not any(policy_of(tool).deferred for tool in await load_mcp_tools({"remote": http}))


async def test_servers_that_are_down_cost_only_their_own_tools(
    http: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    servers = {
        "up": http,
        "refused": {"url": f"http://user:sk-canary@127.0.0.1:{free_port()}/mcp?token=sk-canary"},
        "missing": {"command": "/no/such/program-sk", "args": ["--key=sk-canary"]},
        "dies": {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]},
        "wrong": {"comand": "x"},
        "silly": 7,
    }
    tools = await load_mcp_tools(servers, connect_timeout=20)
    assert text_of(await call(tools, "add", a=1, b=1)) == "2"
    assert set(tools.errors) == set(servers) - {"up"}
    for name, error in tools.errors.items():
        assert repr(name) in str(error)
        assert "TaskGroup" not in str(error)
        assert "sk-canary" not in str(error)
        assert str(error) in caplog.text
    assert "127.0.0.1" in str(tools.errors["refused"])
    assert "/no/such/program-sk" in str(tools.errors["missing"])
    assert "url" in str(tools.errors["wrong"])
    with pytest.raises(McpError, match="'wrong'"):
        await load_mcp_tools({"up": http, "wrong": {"comand": "x"}}, strict=True)


async def test_a_server_that_never_answers_is_given_up() -> None:
    pytest.importorskip("langchain_mcp_adapters")
    mute = {"command": sys.executable, "args": ["-c", "import time; time.sleep(60)"]}
    before = time.monotonic()
    tools = await load_mcp_tools({"mute": mute}, connect_timeout=1)
    assert time.monotonic() - before < 10
    assert tools == []
    assert "1 s" in str(tools.errors["mute"])


async def test_what_fails_during_a_call_is_an_error_of_that_call(stdio: dict[str, Any]) -> None:
    tools = await load_mcp_tools({"local": stdio})
    results = await asyncio.gather(
        call(tools, "fail"), call(tools, "add", a=1, b=2), call(tools, "add", a="x"), call(tools, "die")
    )
    failed, fine, wrong, died = results
    assert isinstance(failed, Failed)
    assert "broken inside" in failed.text
    assert text_of(fine) == "3"
    assert isinstance(wrong, Failed)
    assert "integer" in wrong.text
    assert isinstance(died, Failed)
    assert "'local'" in died.text


async def test_a_hanging_call_is_stopped_and_the_next_one_works(stdio: dict[str, Any]) -> None:
    tools = await load_mcp_tools({"local": stdio})
    before = time.monotonic()
    result = await call(tools, "hang", timeout=2)
    assert time.monotonic() - before < 8
    assert isinstance(result, Failed)
    assert result.status == "unknown"
    assert text_of(await call(tools, "add", a=2, b=2)) == "4"


async def test_a_server_that_goes_down_later_is_named(script: Path) -> None:
    port = free_port()
    with subprocess.Popen([sys.executable, str(script), "remote", str(port)]) as server:
        tools = McpTools([], {})
        for _ in range(100):
            tools = await load_mcp_tools({"gone": {"url": f"http://127.0.0.1:{port}/mcp"}})
            if tools:
                break
            await asyncio.sleep(0.1)
        server.kill()
    result = await call(tools, "add", a=1, b=1)
    assert isinstance(result, Failed)
    assert "'gone'" in result.text


async def test_nothing_blocks_the_event_loop(stdio: dict[str, Any], http: dict[str, Any]) -> None:
    blockbuster = pytest.importorskip("blockbuster")
    with blockbuster.blockbuster_ctx():
        tools = await load_mcp_tools({"local": stdio, "remote": http})
        assert tools.errors == {}
        assert text_of(await call(tools, "local_add", a=1, b=2)) == "3"
        assert text_of(await call(tools, "remote_add", a=1, b=2)) == "3"


async def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "langchain_mcp_adapters.tools", None)
    with pytest.raises(InputError, match=r'pip install "turngraph\[mcp\]"'):
        await load_mcp_tools({"x": {"command": "x"}})


def test_configurations_of_every_shape() -> None:
    stdio = {"transport": "stdio", "command": "c", "args": []}
    assert connection_of("s", {"command": "c"}) == stdio
    assert connection_of("s", {"type": "stdio", "command": "c", "env": {"A": "b"}}) == {**stdio, "env": {"A": "b"}}
    http = {"transport": "streamable_http", "url": "http://x"}
    for kind in ({}, {"type": "http"}, {"transport": "streamable-http"}, {"type": "streamableHttp"}):
        assert connection_of("s", {"url": "http://x", **kind}) == http
    assert connection_of("s", {"url": "http://x", "type": "sse"}) == {**http, "transport": "sse"}
    for wrong, word in [
        ({}, "url"),
        ({"command": ""}, "command"),
        ({"command": 3}, "command"),
        ({"type": "pigeon", "url": "x"}, "pigeon"),
        ({"url": "x", "comand": 1}, "comand"),
        ("npx server", "mapping"),
    ]:
        with pytest.raises(InputError, match=word) as caught:
            connection_of("the server", wrong)
        assert "the server" in str(caught.value)


async def test_the_files_of_other_programs_work(http: dict[str, Any]) -> None:
    tools = await load_mcp_tools({"mcpServers": {"remote": {**http, "type": "http"}}})
    assert "add" in [tool.name for tool in tools]
    assert await load_mcp_tools({}) == []


names = st.text(alphabet="abz_-./ 漢", max_size=70)


@given(st.lists(st.tuples(names, names), max_size=15))
@settings(max_examples=200, deadline=None)
def test_names_are_unique_and_fit_every_provider(found: list[tuple[str, str]]) -> None:
    made = mcp._unique_names(found)
    assert len(made) == len(set(made)) == len(found)
    for name in made:
        assert 0 < len(name) <= 64
        assert name.replace("_", "").replace("-", "").isascii()
        assert not mcp._NOT_IN_NAMES.search(name)
