"""From names to models: order, errors, secrets, caching, event loops."""

import asyncio
import importlib.util
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.tools import tool
from openai import OpenAIError

from tests.support.openai_server import ScriptedServer, error, say
from turngraph.llm import loading
from turngraph.llm.loading import ModelLoadError, load_model, model_name, model_window, resolve_model
from turngraph.llm.offline import OfflineModel
from turngraph.llm.scripted import ScriptedModel
from turngraph.llm.wire import TurnChatOpenAI

KEY = "sk-secret-value-1234"


async def test_order_setting_given_environment_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    given = ScriptedModel(["x"])
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert (await resolve_model(None, None))[1] == "offline"
    monkeypatch.setenv("TURNGRAPH_MODEL", "openai:from-env")
    assert (await resolve_model(None, None))[1] == "openai:from-env"
    assert await resolve_model(given, None) == (given, "scripted")
    assert (await resolve_model("openai:given", None))[1] == "openai:given"
    model, name = await resolve_model(given, "openai:setting")
    assert (name, model_name(model)) == ("openai:setting", "setting")
    assert (await resolve_model(" ", "  "))[1] == "openai:from-env"


def test_openai_honours_key_and_base_url(
    monkeypatch: pytest.MonkeyPatch, openai_server: Callable[..., ScriptedServer]
) -> None:
    server = openai_server([say("hello", chunks=2), say("again")], api_key=KEY, strict=True)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    model = load_model("openai:some-model")
    assert isinstance(model, TurnChatOpenAI)
    chunks = list(model.stream("hi"))
    assert "".join(each.text for each in chunks) == "hello"
    assert any(each.usage_metadata for each in chunks)
    assert server.requests[0].body["model"] == "some-model"
    assert server.requests[0].body["stream_options"] == {"include_usage": True}
    assert model.invoke("hi").text == "again"
    server.done()


def test_a_server_by_url_may_want_no_key(
    monkeypatch: pytest.MonkeyPatch, openai_server: Callable[..., ScriptedServer]
) -> None:
    server = openai_server([say("hello")])
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert load_model("openai:m").invoke("hi").text == "hello"


def test_a_failed_call_is_not_retried_below_us(
    monkeypatch: pytest.MonkeyPatch, openai_server: Callable[..., ScriptedServer]
) -> None:
    server = openai_server([error(503), say("never")])
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    with pytest.raises(Exception, match="503"):
        load_model("openai:m").invoke("hi")
    assert len(server.requests) == 1


@pytest.fixture
def without_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the package is not installed."""
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "langchain" else found(name))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("openai:gpt-5-mini", "OPENAI_API_KEY"),
        ("openai:", "after the colon"),
        ("gpt-5-mini", "openai:gpt-5-mini"),
        ("", "offline"),
        ("anthropic:claude", "langchain"),
        ("offline:x", "langchain"),
        ("local:/nowhere/model.gguf", "no file"),
        ("local:pyproject.toml", "not a GGUF file"),
    ],
)
@pytest.mark.usefixtures("without_langchain")
def test_errors_say_what_is_missing_or_possible(name: str, words: str) -> None:
    with pytest.raises(ModelLoadError, match=words):
        load_model(name)


@pytest.mark.usefixtures("without_langchain")
def test_no_error_and_no_repr_shows_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = load_model("openai:m")
    assert KEY not in repr(model)
    assert KEY not in str(model)
    for name in ("gpt", "anthropic:x", "openai:"):
        with pytest.raises(ModelLoadError) as caught:
            load_model(name)
        assert KEY not in str(caught.value)


def test_the_same_name_and_environment_give_the_same_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    first = load_model("openai:m")
    assert load_model(" openai:m ") is first
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    assert load_model("openai:m") is not first
    assert isinstance(load_model("offline"), OfflineModel)


async def test_loading_happens_in_a_thread_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def slow(name: str, environment: Any) -> BaseChatModel:
        threads.append(threading.get_ident())
        time.sleep(0.1)
        return ScriptedModel(["x"], model_name=name)

    monkeypatch.setattr(loading, "_load", slow)
    started = time.monotonic()
    ticks = 0
    tasks = [asyncio.create_task(resolve_model(None, "slow:one")) for _ in range(3)]
    while not all(each.done() for each in tasks):
        await asyncio.sleep(0.01)
        ticks += 1
    assert ticks >= 5
    assert time.monotonic() - started < 5
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
    assert len({id(each.result()[0]) for each in tasks}) == 1


def test_other_providers_go_to_langchain_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def init_chat_model(name: str) -> Any:
        asked.append(name)
        if name == "bad:x":
            raise ValueError(f"cannot, key was {KEY}")
        if name == "azure_openai:x":
            raise OpenAIError(f"Missing credentials, not {KEY}")
        return ScriptedModel(["from langchain"])

    module = ModuleType("langchain.chat_models")
    module.init_chat_model = init_chat_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "langchain", ModuleType("langchain"))
    monkeypatch.setitem(sys.modules, "langchain.chat_models", module)
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: object())
    assert load_model("mistralai:large").invoke("x").text == "from langchain"
    for name in ("bad:x", "azure_openai:x"):
        with pytest.raises(ModelLoadError, match=name) as caught:
            load_model(name)
        assert KEY not in str(caught.value)
    assert asked == ["mistralai:large", "bad:x", "azure_openai:x"]


def test_window_and_name() -> None:
    assert model_window(ScriptedModel([])) is None
    assert model_window(ScriptedModel([], profile={"max_input_tokens": 4096})) == 4096
    assert model_window(ScriptedModel([], profile={"max_input_tokens": 0})) is None
    assert model_name(OfflineModel()) == "offline"


def test_one_model_works_in_several_event_loops(
    monkeypatch: pytest.MonkeyPatch, openai_server: Callable[..., ScriptedServer]
) -> None:
    server = openai_server(lambda request: say("hello", chunks=2))
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)

    async def one() -> str:
        model, _ = await resolve_model("openai:m", None)
        return "".join([chunk.text async for chunk in model.astream("hi")])

    assert [asyncio.run(one()) for _ in range(3)] == ["hello"] * 3


@tool
def noop() -> str:
    """Nothing."""
    return ""


def test_a_loaded_model_binds_tools(
    monkeypatch: pytest.MonkeyPatch, openai_server: Callable[..., ScriptedServer]
) -> None:
    server = openai_server([say("x")], strict=True)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    load_model("openai:m").bind_tools([noop], tool_choice="auto").invoke("hi")  # type: ignore[attr-defined]
    assert server.requests[0].tool_names == ["noop"]


async def test_nothing_blocks_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, openai_server: Callable[..., ScriptedServer]
) -> None:
    server = openai_server([say("x")])
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    with blockbuster_ctx():
        model, _ = await resolve_model("openai:unblocked", None)
        assert [chunk.text async for chunk in model.astream("hi")]
        offline, _ = await resolve_model(None, None)
        assert (await offline.ainvoke("What is 2+2?")).text
        with pytest.raises(ModelLoadError):
            await resolve_model("local:missing.gguf", None)
