"""What one tool call costs beside the tool itself: 64 calls in one round, against `create_agent` and `ToolNode`.

Limits: reads at most 0.5 of `create_agent`'s overhead per call; durable calls (the journal included) at most 1.0 of it
in memory and at most 2.0 on SQLite. `create_agent` is measured with the same checkpointer.
Run: python benchmarks/dispatch.py
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.tools import tool_policy

CALLS, ROUNDS, BEST_OF = 64, 4, 5
KINDS = ("memory", "sqlite")
LIMITS = {("reads", "memory"): 0.5, ("reads", "sqlite"): 0.5, ("durable", "memory"): 1.0, ("durable", "sqlite"): 2.0}


async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


class Instant(BaseChatModel):
    """Answers at once and whole, so that no streaming is measured: `calls` in each of ROUNDS rounds, then a text."""

    calls: int

    @property
    def _llm_type(self) -> str:
        return "instant"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        done = sum(isinstance(message, ToolMessage) for message in messages)
        message = AIMessage("Done.")
        if done < self.calls * ROUNDS:
            asked = [{"name": "add", "args": {"a": done, "b": n}, "id": f"call-{done}-{n}"} for n in range(self.calls)]
            message = AIMessage("", tool_calls=asked)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[Any], *args: Any, **kwargs: Any) -> ChatResult:
        return self._generate(messages)


Build = Callable[[int, Any], Any]
"""From the calls per round and a checkpointer to a graph."""


def turn(effect: Any) -> Build:
    def build(calls: int, saver: Any) -> Any:
        return build_turn_graph(Instant(calls=calls), [tool_policy(add, effect=effect)], checkpointer=saver)

    return build


def agent(calls: int, saver: Any) -> Any:
    from langchain.agents import create_agent

    return create_agent(Instant(calls=calls), [add], checkpointer=saver)


def tool_node(calls: int, saver: Any) -> Any:
    bound = Instant(calls=calls).bind_tools([add])

    async def call_model(state: MessagesState) -> Any:
        return {"messages": [await bound.ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", call_model)
    builder.add_node("tools", ToolNode([add]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


async def seconds(build: Build, calls: int, saver: Any) -> float:
    """Seconds of one whole run with so many calls per round: of the processor in memory, of the clock on SQLite."""
    graph = build(calls, saver)
    config: Any = {"configurable": {"thread_id": f"calls-{calls}"}, "recursion_limit": 1_000}
    options: dict[str, Any] = {}
    if hasattr(graph, "parts"):
        options["context"] = TurnSettings(max_tool_calls=100_000, context_window=10_000_000)
    # In memory nothing is waited for: processor time is the same, whatever else the machine does meanwhile.
    clock = time.process_time if isinstance(saver, InMemorySaver) else time.perf_counter
    started = clock()
    output = await graph.ainvoke({"messages": [("user", "add")]}, config, **options)
    taken = clock() - started
    results = sum(isinstance(message, ToolMessage) for message in output["messages"])
    assert results == calls * ROUNDS, f"{results} results"
    return taken


async def measure(rows: dict[str, Build], folder: str) -> dict[tuple[str, str], float]:
    """Microseconds per call: what 64 calls in a round take more than one call. All take turns, so that a machine that
    is busy for a while is so for all; the best of several counts."""
    best: dict[tuple[str, str, int], float] = {}
    for number in range(BEST_OF + 1):
        for name, build in rows.items():
            for kind in KINDS:
                async with AsyncExitStack() as stack:
                    saver: Any = InMemorySaver()
                    if kind == "sqlite":
                        path = str(Path(folder) / f"{name}-{number}.sqlite")
                        saver = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(path))
                    for calls in (1, CALLS):
                        taken = await seconds(build, calls, saver)
                        if number:  # the first one warms up
                            best[name, kind, calls] = min(taken, best.get((name, kind, calls), taken))
    spread = (CALLS - 1) * ROUNDS
    return {
        (name, kind): (best[name, kind, CALLS] - best[name, kind, 1]) / spread * 1e6 for name in rows for kind in KINDS
    }


async def main() -> int:
    rows: dict[str, Build] = {"ToolNode": tool_node, "reads": turn("read"), "durable": turn(None)}
    rows["durable, in order"] = turn("write")
    try:
        import langchain.agents  # noqa: F401
    except ImportError:
        print("langchain is not installed: create_agent is not measured, and there are no limits to compare with")
    else:
        rows = {"create_agent": agent, **rows}
    with tempfile.TemporaryDirectory() as folder:
        found = await measure(rows, folder)
    failed = 0
    print(f"microseconds per call, {ROUNDS} rounds of {CALLS} calls, best of {BEST_OF}")
    print(f"{'':20}{'memory':>10}{'':>8}{'sqlite':>10}")
    for name in rows:
        line = f"{name:20}"
        for kind in KINDS:
            base, limit = found.get(("create_agent", kind)), LIMITS.get((name.split(",")[0], kind))
            ratio = found[name, kind] / base if base else None
            over = ratio is not None and limit is not None and ratio > limit
            failed += over
            line += f"{found[name, kind]:10.0f}" + ("" if ratio is None else f"{ratio:7.2f}{'!' if over else ' '}")
        print(line)
    if "create_agent" in rows:
        print(f"{failed} over a limit" if failed else "all within the limits")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
