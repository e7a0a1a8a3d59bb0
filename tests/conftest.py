"""Fixtures that every test may use: a clean environment and scripted OpenAI-compatible servers."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

_FOREIGN = ("OPENAI_", "LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_", "TURNGRAPH_", "AZURE_OPENAI_")


def _clean() -> None:
    """Nothing of the caller's own keys, tracing or models reaches a test; loopback never goes through a proxy."""
    for name in [each for each in os.environ if each.upper().startswith(_FOREIGN)]:
        del os.environ[name]
    os.environ["LANGSMITH_TRACING"] = "false"
    for name in ("NO_PROXY", "no_proxy"):
        os.environ[name] = "127.0.0.1,localhost"


_clean()  # before any test module is imported: libraries cache what they read of the environment

from tests.support.openai_server import ScriptedServer  # noqa: E402
from turngraph.llm.profile import PROFILES  # noqa: E402


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test sets in the environment does not reach the next."""
    for name in [each for each in os.environ if each.upper().startswith(_FOREIGN)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    PROFILES.forget()


@pytest.fixture
def openai_server() -> Iterator[Callable[..., ScriptedServer]]:
    """`openai_server([say("hi")], strict=True)` starts a scripted server; all are stopped at the end of the test."""
    started: list[ScriptedServer] = []

    def start(script: Any = (), **options: Any) -> ScriptedServer:
        started.append(ScriptedServer(script, **options).start())
        return started[-1]

    yield start
    for server in started:
        server.stop()
