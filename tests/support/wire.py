"""Cases on the wire: streamed and whole answers alike, and every request read by the strict validator."""

from typing import Any

import pytest
from langchain_openai import ChatOpenAI

from tests.support.openai_server import Request, ScriptedServer
from tests.support.strict import assert_valid_history
from tests.support.turns import chat
from turngraph.llm.profile import PROFILES

both_ways = pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])


def client(server: ScriptedServer, streamed: bool = True, **fields: Any) -> ChatOpenAI:
    """The real client; nothing that an earlier server on the same port taught is remembered."""
    PROFILES.forget()
    return chat(server, disable_streaming=not streamed, **fields)


def check_requests(server: ScriptedServer, **options: bool) -> None:
    """Every request that reached the server holds a history that the strictest provider takes."""
    assert server.requests
    for request in server.requests:
        assert_valid_history(request.messages, **options)


def results_in(request: Request) -> list[str]:
    """The tool messages of a request, in order."""
    return [each["content"] for each in request.messages if each["role"] == "tool"]


def calls_in(request: Request) -> list[tuple[str, str]]:
    """Name and raw arguments of every call in the request's history, in order."""
    made = [one for each in request.messages for one in each.get("tool_calls") or []]
    return [(one["function"]["name"], one["function"]["arguments"]) for one in made]
