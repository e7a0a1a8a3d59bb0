"""Bytes stored and time per round of a long turn on SQLite, beside create_agent and deepagents where installed.

Run: python benchmarks/storage.py [--rounds 128] [--size 4096] [--durability async] [--window 10000000]
Prints, for each graph: content bytes, payload bytes without keys (and their ratio), the journal's share, and the time
of round 8 against the last round as the median over a few rounds around each.
"""

import argparse
import asyncio
import importlib.util
import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import tool_policy


def make_tool(size: int, stamps: list[float]) -> Any:
    @tool
    def read(page: int) -> str:
        """Read a page."""
        stamps.append(time.perf_counter())
        return (f"page {page}: " + "lorem ipsum dolor sit amet " * (size // 27 + 1))[:size]

    return read


def script(rounds: int) -> list[Any]:
    return [*(ScriptedReply(calls=[("read", {"page": n})]) for n in range(rounds)), "Done."]


def tables(path: Path) -> dict[str, int]:
    import sqlite3

    with sqlite3.connect(path) as db:
        names = [row[0] for row in db.execute("select name from sqlite_master where type='table'")]
        sizes = {}
        for name in names:
            columns = [row[1] for row in db.execute(f"pragma table_info({name})") if not row[1].endswith("_id")]
            total = " + ".join(f"coalesce(length(cast({column} as blob)), 0)" for column in columns)
            sizes[name] = db.execute(f"select coalesce(sum({total}), 0) from {name}").fetchone()[0]
    return sizes


async def measure(name: str, build: Any, rounds: int, size: int, durability: str, window: int) -> None:
    stamps: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "turns.sqlite"
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            graph, context = build(ScriptedModel(script(rounds)), make_tool(size, stamps), saver, window)
            config = {"configurable": {"thread_id": "t"}, "recursion_limit": 100_000}
            started = time.perf_counter()
            kwargs = {"context": context} if context is not None else {}
            await graph.ainvoke({"messages": [("user", "read")]}, config, durability=durability, **kwargs)
            took = time.perf_counter() - started
        stored = tables(path)
    laps = [later - earlier for earlier, later in itertools.pairwise(stamps)]
    early, late = statistics.median(laps[5:12]), statistics.median(laps[-7:])
    content = rounds * size
    journal = sum(n for table, n in stored.items() if table.startswith("turngraph_"))
    payload = sum(stored.values()) - journal
    print(
        f"{name:14} content {content:>9,} B  stored {payload:>10,} B ({payload / content:4.2f}x)  "
        f"journal {journal:>9,} B  total {took:5.2f} s  round 8: {early * 1e3:5.2f} ms  "
        f"round {rounds}: {late * 1e3:5.2f} ms  ratio {late / early:4.2f}"
    )


def turn(model: Any, read: Any, saver: Any, window: int) -> Any:
    settings = TurnSettings(max_rounds=10_000, max_tool_calls=100_000, context_window=window)
    return build_turn_graph(model, [read], checkpointer=saver), settings


def turn_of_reads(model: Any, read: Any, saver: Any, window: int) -> Any:
    return turn(model, tool_policy(read, effect="read"), saver, window)


def agent(model: Any, read: Any, saver: Any, _window: int) -> Any:
    from langchain.agents import create_agent

    return create_agent(model, [read], checkpointer=saver), None


def deep_agent(model: Any, read: Any, saver: Any, _window: int) -> Any:
    from deepagents import create_deep_agent

    return create_deep_agent(model, [read], checkpointer=saver), None


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=128)
    parser.add_argument("--size", type=int, default=4_096)
    parser.add_argument("--durability", choices=["sync", "async", "exit"], default="async")
    parser.add_argument("--window", type=int, default=10_000_000, help="tokens; a small one makes turngraph fold")
    args = parser.parse_args()
    await measure("turngraph", turn, args.rounds, args.size, args.durability, args.window)
    await measure("turngraph read", turn_of_reads, args.rounds, args.size, args.durability, args.window)
    for name, package, build in (("create_agent", "langchain", agent), ("deepagents", "deepagents", deep_agent)):
        if importlib.util.find_spec(package) is None:
            print(f"{name}: {package} is not installed")
        else:
            await measure(name, build, args.rounds, args.size, args.durability, args.window)


if __name__ == "__main__":
    asyncio.run(main())
