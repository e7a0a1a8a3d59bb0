"""B60 (aegra#267): a key appears in no checkpoint, history, stream, trace, log or error text."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tracers.base import BaseTracer
from langchain_core.tracers.schemas import Run
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from tests.support.openai_server import call, error, say
from tests.support.turns import chat, thread
from turngraph.graph import InputError, ProviderError, TurnSettings, as_tool, build_turn_graph
from turngraph.tools import tool_policy

CANARY = "CANARY4f9a27c1"
KEY = f"sk-test-{CANARY}"


class Trace(BaseTracer):
    """Everything that LangChain tells a tracer, as text."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def _persist_run(self, run: Run) -> None:
        self.seen.append(str(run.model_dump() if hasattr(run, "model_dump") else run.__dict__))


def leaky(where: str) -> str:
    """Fail in a way that shows the key."""
    if where == "error":
        raise ValueError(f"401 for Authorization: Bearer {KEY}")
    if where == "address":
        raise OSError(f"cannot connect to postgres://user:{CANARY}x9@db/prod")
    raise RuntimeError(f"the service said: {CANARY}")


def provider_refuses() -> Any:
    return error(401, {"error": {"message": f"Incorrect API key provided: {KEY}.", "code": "invalid_api_key"}})


@pytest.fixture(autouse=True)
def secret_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("SERVICE_TOKEN", CANARY)


def files_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


MODES: Any = ["values", "updates", "custom", "messages", "tasks", "checkpoints", "debug"]


@pytest.mark.parametrize("mode", ["tools", "provider later", "provider first", "inner", "pause"])
def test_b60_the_canary_is_nowhere(
    mode: str, openai_server: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, logger="turngraph")
    batch = call(("leaky", {"where": "error"}), ("leaky", {"where": "address"}), ("leaky", {"where": "text"}))
    scripts: dict[str, list[Any]] = {
        "tools": [batch, say("It failed.")],
        "provider later": [batch, provider_refuses(), provider_refuses()],
        "provider first": [provider_refuses()],
        "inner": [call(("inner", {"question": "go"})), batch, say("It failed."), say("It failed.")],
        "pause": [batch, say("It failed.")],
    }
    server = openai_server(scripts[mode])
    tool = tool_policy(leaky, permission="ask" if mode == "pause" else "allow")
    tools = [tool]
    if mode == "inner":
        tools = [as_tool(build_turn_graph(chat(server), [tool], name="inner"), description="Ask.")]
    trace = Trace()
    config: Any = {**thread(), "callbacks": [trace]}
    seen: list[str] = []
    database = tmp_path / "turns.sqlite"
    with SqliteSaver.from_conn_string(str(database)) as saver:
        graph = build_turn_graph(chat(server), tools, checkpointer=saver)
        step: Any = {"messages": [("user", "go")]}
        try:
            for part in graph.stream(step, config, stream_mode=MODES, subgraphs=True):
                seen.append(repr(part))
            if mode == "pause":
                answer = Command(resume={"decisions": [{"type": "approve"}] * 3})
                for part in graph.stream(answer, config, stream_mode=MODES, subgraphs=True):
                    seen.append(repr(part))
        except ProviderError as raised:
            assert mode == "provider first"
            seen.append(f"{raised!s} {raised!r}")
        history = repr(list(graph.get_state_history(thread())))
    sent = "".join(str(request.body) for request in server.requests)
    assert "[redacted]" in "".join(seen) + sent, "nothing was to be hidden: the test tests nothing"
    printed = capfd.readouterr()
    for name, text in {
        "streams": "".join(seen),
        "history": history,
        "requests to the model": sent,
        "log": caplog.text,
        "output": printed.out + printed.err,
        "traces": "".join(trace.seen),
        "database": files_of(tmp_path).decode("utf-8", "replace"),
    }.items():
        at = text.find(CANARY)
        assert at < 0, f"the key is in the {name}: ...{text[max(0, at - 300) : at + 60]}..."


def test_b60_no_setting_takes_a_key() -> None:
    assert not [name for name in TurnSettings.model_fields if "key" in name or "secret" in name or name == "token"]
    with pytest.raises(ValueError, match="api_key"):
        TurnSettings.model_validate({"api_key": KEY})


@pytest.mark.parametrize("where", ["configurable", "metadata"])
@pytest.mark.parametrize("name", ["api_key", "openai_api_key", "password", "harmless"])
async def test_b60_a_key_in_the_config_is_refused(where: Any, name: str, openai_server: Any, tmp_path: Path) -> None:
    """LangGraph would copy it, as every plain value of the config, into the metadata of each checkpoint."""
    server = openai_server([say("Hello.")])
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "turns.sqlite")) as saver:
        graph = build_turn_graph(chat(server), checkpointer=saver)
        config: Any = {**thread(), "metadata": {}}
        config[where] = {**config[where], name: KEY}
        with pytest.raises(InputError, match=name) as raised:
            await graph.ainvoke({"messages": [("user", "go")]}, config)
        assert CANARY not in str(raised.value)
        assert server.requests == []
        config[where] = {**config[where], name: ""} if name == "harmless" else thread().get(where, {})
        config[where] |= {"user": "ann", "cache_key": "abc", "max_tokens": "7"}
        await graph.ainvoke({"messages": [("user", "go")]}, config)
    stored = await asyncio.to_thread(files_of, tmp_path)
    assert CANARY not in stored.decode("utf-8", "replace")
    assert b"ann" in stored
