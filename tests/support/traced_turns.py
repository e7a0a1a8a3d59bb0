"""Turns that a test traces, each on a graph of its own name: nested, paused, cancelled, failed, with hidden calls."""

import asyncio
import json
import threading
from typing import Any

from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from turngraph.graph import ProviderError, TurnSettings, as_tool, build_turn_graph, compact
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import ask_user

CONFIG: Any = {"configurable": {"thread_id": "t"}, "tags": ["mine"], "metadata": {"customer": "c7"}}
SECRET = "-".join(["sk", "test", "CANARY4f9a27c1"])
"""Put together here: a traceback shows lines of source."""
GO: dict[str, Any] = {"messages": [("user", "go")]}
started = threading.Event()


def look(place: str) -> str:
    """Look."""
    if place == "leak":
        raise ValueError(f"the key is {SECRET}")
    return f"{place}: coal"


async def hang() -> str:
    """Hang."""
    started.set()
    await asyncio.Event().wait()
    return "never"


def call(name: str, **args: Any) -> ScriptedReply:
    return ScriptedReply(text="Let me look.", calls=[(name, args)])


class AuthenticationError(Exception):
    status_code = 401


def built(name: str, script: list[Any], tools: Any = (), **more: Any) -> Any:
    return build_turn_graph(ScriptedModel(script), tools, checkpointer=InMemorySaver(), name=name, **more)


def nested() -> str:
    inner = build_turn_graph(ScriptedModel([call("look", place="leak"), "Inner done."]), [look], name="helper")
    helper = as_tool(inner, description="Helps.")
    outer = built("nested", [call("helper", question="What is there?"), "Outer done."], [helper])
    return str(outer.invoke(GO, CONFIG)["answer"])


def paused() -> str:
    ask = call("ask_user", questions=[{"question": "Which port?"}])
    graph = built("paused", [ask, "To Zeebrugge."], [ask_user])
    graph.invoke(GO, CONFIG)
    return str(graph.invoke(Command(resume="Zeebrugge"), CONFIG)["answer"])


def cancelled() -> str:
    graph = built("cancelled", [call("hang")], [hang])

    async def scenario() -> str:
        task = asyncio.create_task(graph.ainvoke(GO, CONFIG))
        await asyncio.to_thread(started.wait, 30)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        return str((await graph.aget_state(CONFIG)).values["receipt"]["status"])

    return asyncio.run(scenario())


def failed() -> str:
    graph = built("failed", [AuthenticationError(f"Incorrect API key provided: {SECRET}")])
    try:
        graph.invoke(GO, CONFIG)
    except ProviderError as error:
        return str(error)
    raise AssertionError("a refused key fails the turn")


def forced() -> str:
    graph = built("forced", [call("look", place="yard"), "That is all."], [look])
    return str(graph.invoke(GO, CONFIG, context=TurnSettings(max_rounds=1))["receipt"]["stop_reason"])


def compacted() -> str:
    graph = built("compacted", ["Coal. " * 3_000, "Grain.", "They spoke of coal.", "Ores."], [look])
    for _ in range(2):
        graph.invoke(GO, CONFIG)
    made = compact(graph, "t")
    assert made is not None
    return str(graph.invoke(GO, CONFIG)["answer"])


def summarised() -> str:
    def reply(messages: list[Any]) -> str:
        return "They spoke." if "memory of a conversation" in messages[0].text else "Answer " + "and then " * 100

    graph = built("summarised", [reply] * 40, [look])
    settings = TurnSettings(context_window=2_048, max_output_tokens=300)
    compactions = 0
    for number in range(8):
        asked = {"messages": [("user", f"question {number} " + "and then " * 60)]}
        compactions += graph.invoke(asked, CONFIG, context=settings)["receipt"]["compactions"]
    return str(compactions)


if __name__ == "__main__":
    every = (nested, paused, cancelled, failed, forced, compacted, summarised)
    print(json.dumps({scenario.__name__: scenario() for scenario in every}))
    wait_for_all_tracers()
