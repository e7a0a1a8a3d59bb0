"""What a tool declares: how it is stored, read back, and refused; what becomes a tool."""

import functools
import json
from typing import Annotated, Any

import pytest
from langchain_core.tools import InjectedToolArg, StructuredTool, tool

from turngraph.state.errors import InputError
from turngraph.tools.policy import ToolPolicy, as_tool_object, policy_of, schema_of, tool_policy


def search(query: str, limit: int = 3) -> str:
    """Search the web."""
    return f"{query}:{limit}"


async def fetch(url: str) -> str:
    """Fetch a page."""
    return url


def test_the_policy_is_stored_as_plain_json_and_read_back() -> None:
    declared = tool_policy(
        search, permission="ask", effect="write", timeout=5, max_output_tokens=100, deferred=True, polling=True
    )
    assert policy_of(declared) == ToolPolicy("ask", "write", 5.0, 100, True, True)
    assert declared.metadata is not None
    assert json.loads(json.dumps(declared.metadata)) == declared.metadata
    assert declared.invoke({"query": "x"}) == "x:3"


async def test_an_async_function_stays_async() -> None:
    declared = tool_policy(fetch, effect="read")
    assert declared.name == "fetch"
    assert await declared.ainvoke({"url": "u"}) == "u"


def test_the_given_tool_is_not_changed_and_other_metadata_stays() -> None:
    given = tool(search)
    given.metadata = {"mine": 1}
    first, second = tool_policy(given, permission="deny"), tool_policy(given, effect="read")
    assert given.metadata == {"mine": 1}
    assert policy_of(given) == ToolPolicy()
    assert policy_of(first) == ToolPolicy("deny")
    assert policy_of(second) == ToolPolicy(effect="read")
    assert first.metadata is not None
    assert first.metadata["mine"] == 1
    assert policy_of(tool_policy(first, effect="write")) == ToolPolicy(effect="write")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ({"permission": "maybe"}, "'allow', 'ask' or 'deny'"),
        ({"permission": None}, "'allow', 'ask' or 'deny'"),
        ({"effect": "delete"}, "'read', 'write' or None"),
        ({"timeout": 0}, "seconds above 0"),
        ({"timeout": float("inf")}, "seconds above 0"),
        ({"timeout": float("nan")}, "seconds above 0"),
        ({"timeout": "5"}, "seconds above 0"),
        ({"timeout": True}, "seconds above 0"),
        ({"max_output_tokens": 0}, "whole number"),
        ({"max_output_tokens": 1.5}, "whole number"),
        ({"deferred": "yes"}, "True or False"),
        ({"polling": 1}, "True or False"),
    ],
)
def test_bad_values_are_refused_by_name(wrong: dict[str, Any], right: str) -> None:
    with pytest.raises(InputError, match=right) as caught:
        tool_policy(search, **wrong)
    assert "search" in str(caught.value)
    assert next(iter(wrong)) in str(caught.value)


class Greeter:
    """Greets people."""

    def __call__(self, name: str) -> str:
        return f"hello {name}"

    def wave(self, times: int) -> str:
        """Wave."""
        return "o/" * times


def test_what_becomes_a_tool() -> None:
    def undocumented(text: str) -> str:
        return text

    found = [as_tool_object(each) for each in (Greeter(), Greeter().wave, undocumented, tool(search))]
    assert [getattr(each, "name", "") for each in found] == ["Greeter", "wave", "undocumented", "search"]
    assert [schema_of(each)["function"]["description"] for each in found] == [
        "Greets people.",
        "Wave.",
        "undocumented",
        "Search the web.",
    ]
    greeter = found[0]
    assert not isinstance(greeter, dict)
    assert greeter.invoke({"name": "Ann"}) == "hello Ann"


async def test_a_partial_hides_what_it_binds() -> None:
    bound = as_tool_object(functools.partial(search, limit=9))
    assert not isinstance(bound, dict)
    assert list(schema_of(bound)["function"]["parameters"]["properties"]) == ["query"]
    assert bound.invoke({"query": "x"}) == "x:9"
    positional = as_tool_object(functools.partial(functools.partial(search, "fixed"), limit=1))
    assert not isinstance(positional, dict)
    assert schema_of(positional)["function"]["parameters"]["properties"] == {}
    assert positional.invoke({}) == "fixed:1"
    late = as_tool_object(functools.partial(fetch))
    assert not isinstance(late, dict)
    assert await late.ainvoke({"url": "u"}) == "u"


def test_a_provider_side_tool_is_kept_and_takes_no_policy() -> None:
    provider = {"type": "web_search"}
    assert as_tool_object(provider) == provider
    assert schema_of(provider) == provider
    assert policy_of(provider) == ToolPolicy()
    with pytest.raises(InputError, match="at the provider"):
        tool_policy(provider)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [3, "search", None, Greeter, lambda x: x, {}, {"a": 1}])
def test_what_cannot_be_a_tool_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError):
        as_tool_object(wrong)


def test_arguments_that_cannot_be_described_are_refused() -> None:
    class Opaque:
        pass

    def odd(thing: Opaque) -> str:
        """Odd."""
        return str(thing)

    with pytest.raises(InputError, match="odd"):
        as_tool_object(odd)


def test_injected_arguments_are_not_the_models() -> None:
    def save(text: str, state: Annotated[dict[str, Any], InjectedToolArg]) -> str:
        """Save."""
        return text

    assert list(schema_of(tool_policy(save))["function"]["parameters"]["properties"]) == ["text"]


def mcp_tool(metadata: dict[str, Any] | None) -> StructuredTool:
    """A tool as the MCP adapter makes it: its coroutine is the adapter's, its annotations are the metadata."""

    async def call_tool(**arguments: Any) -> Any:
        return arguments, None

    call_tool.__module__ = "langchain_mcp_adapters.tools"
    return StructuredTool(
        name="remote",
        description="Remote.",
        args_schema={"type": "object", "properties": {}},
        coroutine=call_tool,
        metadata=metadata,
    )


@pytest.mark.parametrize(
    ("metadata", "policy"),
    [
        (None, ToolPolicy("ask")),
        ({}, ToolPolicy("ask")),
        ({"title": "x", "readOnlyHint": None}, ToolPolicy("ask")),
        ({"readOnlyHint": False}, ToolPolicy("ask")),
        ({"readOnlyHint": "true"}, ToolPolicy("ask")),
        ({"readOnlyHint": True}, ToolPolicy("allow", "read")),
    ],
)
def test_an_mcp_tool_without_a_read_only_hint_asks(metadata: Any, policy: ToolPolicy) -> None:
    remote = mcp_tool(metadata)
    assert policy_of(remote) == policy
    assert policy_of(tool_policy(remote, permission="allow", effect="write")) == ToolPolicy("allow", "write")
    assert schema_of(remote)["function"]["name"] == "remote"
