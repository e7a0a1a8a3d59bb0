"""Driving a turn graph in tests: four ways to run it, its events, and what must hold after any turn."""

import asyncio
from collections.abc import Callable
from typing import Any, Literal

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

from tests.support.openai_server import ScriptedServer

Way = Literal["invoke", "ainvoke", "stream", "astream"]
WAYS: tuple[Way, ...] = ("invoke", "ainvoke", "stream", "astream")


def chat(server: ScriptedServer, **fields: Any) -> ChatOpenAI:
    """The real client against a scripted server."""
    return ChatOpenAI(model="scripted", base_url=server.url, api_key="test", max_retries=0, **fields)  # type: ignore[arg-type]


def thread(name: str = "t1") -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


def run(
    graph: Any, input: Any, config: Any = None, *, way: Way = "stream", **kwargs: Any
) -> tuple[Any, list[dict[str, Any]]]:
    """The final output and the custom events of one run (no events where the way gives none)."""
    if isinstance(input, str):
        input = {"messages": [("user", input)]}
    match way:
        case "invoke":
            return graph.invoke(input, config, **kwargs), []
        case "ainvoke":
            return asyncio.run(graph.ainvoke(input, config, **kwargs)), []
        case "stream":
            return _collect(graph.stream(input, config, stream_mode=["custom", "values", "updates"], **kwargs))
        case "astream":

            async def gather() -> list[Any]:
                modes = ["custom", "values", "updates"]
                return [part async for part in graph.astream(input, config, stream_mode=modes, **kwargs)]

            return _collect(asyncio.run(gather()))


def _collect(parts: Any) -> tuple[Any, list[dict[str, Any]]]:
    output: Any = None
    events: list[dict[str, Any]] = []
    pauses: list[Any] = []
    for mode, data in parts:
        if mode == "custom":
            events.append(data)
        elif mode == "values":
            output = data
        elif "__interrupt__" in data:
            pauses.extend(data["__interrupt__"])
    if pauses:
        output = {**(output or {}), "__interrupt__": pauses}
    return output, events


def pause_of(output: Any) -> dict[str, Any]:
    """The payload of the one pause that a run ended in."""
    assert len(output.get("__interrupt__", [])) == 1, f"expected one pause, got {output.get('__interrupt__')}"
    value: dict[str, Any] = output["__interrupt__"][0].value
    return value


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def roles(events: list[dict[str, Any]]) -> list[str]:
    return [event["call_role"] for event in events if event["type"] == "round_finished"]


def finish_text(events: list[dict[str, Any]]) -> str:
    """The text of all content events of the finishing rounds, joined."""
    finishing = {e["round"] for e in events if e["type"] == "round_finished" and e["call_role"] == "finish"}
    return "".join(e["text"] for e in events if e["type"] == "content" and e["round"] in finishing)


def check_turn(output: dict[str, Any], events: list[dict[str, Any]] | None = None) -> None:
    """What holds after every turn that ended: an answer, a receipt, every call answered once, the events' laws."""
    assert output["answer"], "the answer is empty"
    receipt = output["receipt"]
    assert receipt["status"] in ("completed", "incomplete", "abandoned", "cancelled", "error")
    assert receipt["context"].get("used", 0) == sum(receipt["context"].get("segments", {}).values())
    check_calls(output["messages"])
    last = output["messages"][-1]
    assert isinstance(last, AIMessage)
    assert not last.tool_calls
    if events:
        assert types(events)[-1] == "turn_finished"
        assert events[-1]["receipt"] == receipt
        assert finish_text(events) == output["answer"]


def check_calls(messages: list[Any]) -> None:
    """Every call on the tape has exactly one result, no result is without its call, ids are unique."""
    calls = [call["id"] for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
    results = [m.tool_call_id for m in messages if isinstance(m, ToolMessage)]
    assert len(set(calls)) == len(calls), f"call ids repeat: {calls}"
    assert sorted(calls) == sorted(results), f"calls {calls}, results {results}"
    assert all(m.id for m in messages)


def question(messages: list[Any]) -> str:
    return next(m.text for m in reversed(messages) if isinstance(m, HumanMessage))


def counting(path: Any) -> Callable[[str], int]:
    """How many lines of a file of effects are exactly so."""
    return lambda line: path.read_text().splitlines().count(line) if path.exists() else 0
