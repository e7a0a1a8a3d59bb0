"""What a long conversation costs: time of a view, and bytes and time per round of a turn of a thousand rounds.

Run: python benchmarks/context.py [--rounds 1000] [--size 2048] [--window 32768]
Prints
  views     of threads of closed turns and of one long turn: the first after a load, one like the last, one round later;
  rounds    of one turn on SQLite whose window is far too small for it: bytes stored and time at 100 rounds and at the
            end, cuts made, largest request; the same with a window that holds everything.
Times are CPU time: they do not depend on what else the machine does.
"""

import argparse
import asyncio
import itertools
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from turngraph.context import count_tokens, view
from turngraph.context.tokens import real_counts
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.state.anchors import Anchor
from turngraph.tools import tool_policy

WHOLE = TurnSettings(context_window=100_000_000)


def thread(turns: int, rounds: int) -> tuple[list[AnyMessage], list[Anchor]]:
    """Closed turns as they are stored, each of a question, `rounds` calls with results, and an answer."""
    messages: list[AnyMessage] = []
    anchors: list[Anchor] = []

    def marked(turn: int) -> dict[str, Any]:
        return {"turngraph": {"turn_id": f"t{turn}", "round": 1, "role": "narration"}}

    for turn in range(turns):
        anchors.append({"id": f"turn-t{turn}", "kind": "turn", "turn_id": f"t{turn}", "first_message_id": f"u{turn}"})
        messages.append(HumanMessage(f"question {turn} about the harbour " * 5, id=f"u{turn}"))
        for n in range(rounds):
            call = {"name": "read", "args": {"page": n}, "id": f"c{turn}-{n}"}
            text = f"page {n} of {turn}: coal grain timber " * 20
            kwargs = marked(turn)
            messages.append(AIMessage("", id=f"a{turn}-{n}", tool_calls=[call], additional_kwargs=kwargs))
            messages.append(
                ToolMessage(text, id=f"r{turn}-{n}", tool_call_id=call["id"], name="read", additional_kwargs=kwargs)
            )
        messages.append(AIMessage(f"answer {turn} of the ship " * 8, id=f"f{turn}", additional_kwargs=marked(turn)))
    return messages, anchors


def cpu(work: Callable[[], object], times: int = 1) -> float:
    """The best CPU time of a few runs, in milliseconds."""
    best = float("inf")
    for _ in range(times):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best * 1e3


def views() -> None:
    count_tokens([HumanMessage("loads the vocabulary")])
    for turns, rounds in ((1_000, 0), (1_000, 1), (1, 500), (1, 2_000)):
        messages, anchors = thread(turns, rounds)
        first = cpu(lambda: view(messages, anchors, WHOLE))  # noqa: B023
        same = cpu(lambda: view(messages, anchors, WHOLE), 5)  # noqa: B023
        before, laps = real_counts(), []
        for n in range(5):
            messages = [*messages, HumanMessage(f"one more question, number {n} of {turns}", id=f"more{n}")]
            laps.append(cpu(lambda: view(messages, anchors, WHOLE)))  # noqa: B023
        print(
            f"view of {turns:>5,} turns x {rounds:>5,} rounds ({len(messages):>5,} messages): first {first:6.1f} ms"
            f"  again {same:5.2f} ms  a message later {min(laps):5.2f} ms, {(real_counts() - before) / 5:.0f} counted"
        )


def stored(path: Path) -> tuple[int, int]:
    """Payload bytes (ids of rows not counted) in LangGraph's tables, and in the journal's."""
    with sqlite3.connect(path) as db:
        sizes = {True: 0, False: 0}
        for (name,) in db.execute("select name from sqlite_master where type='table'").fetchall():
            columns = [row[1] for row in db.execute(f"pragma table_info({name})") if not row[1].endswith("_id")]
            total = " + ".join(f"coalesce(length(cast({column} as blob)), 0)" for column in columns)
            mine = name.startswith("turngraph_")
            sizes[mine] += db.execute(f"select coalesce(sum({total}), 0) from {name}").fetchone()[0]
    return sizes[False], sizes[True]


async def turn(rounds: int, size: int, window: int) -> None:
    """One turn; its measures are taken from inside its tool."""
    stamps: list[float] = []
    bytes_at: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "turn.sqlite"

        @tool
        def read(page: int) -> str:
            """Read a page."""
            stamps.append(time.process_time())
            if page in (50, 150, rounds - 101, rounds - 1):
                bytes_at[page] = stored(path)[0]
            return (f"page {page}: " + "coal and grain and timber for the islands " * (size // 40 + 1))[:size]

        largest = 0

        def reply(page: int) -> Any:
            def answer(messages: list[AnyMessage]) -> Any:
                nonlocal largest
                largest = max(largest, count_tokens(messages))
                return ScriptedReply(calls=[("read", {"page": page})])

            return answer

        script = [*(reply(page) for page in range(rounds)), "Done."]
        settings = TurnSettings(
            max_rounds=10_000, max_tool_calls=100_000, context_window=window, max_output_tokens=min(1_024, window // 8)
        )
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            graph = build_turn_graph(ScriptedModel(script), [tool_policy(read, effect="read")], checkpointer=saver)
            config: Any = {"configurable": {"thread_id": "t"}}
            asked = {"messages": [("user", "Read it all.")]}
            # Each step is saved before the next one, so that what is counted on the way is what was written.
            output = await graph.ainvoke(asked, config, context=settings, durability="sync")
            state = await graph.aget_state(config)
        total, journal = stored(path)
    laps = [later - earlier for earlier, later in itertools.pairwise(stamps)]
    cuts = sum(anchor["kind"] not in ("turn", "note") for anchor in state.values["anchors"])

    def around(at: int) -> float:
        return statistics.median(laps[max(0, at - 8) : at + 8]) * 1e3

    per_round = [(bytes_at[150] - bytes_at[50]) / 100, (bytes_at[rounds - 1] - bytes_at[rounds - 101]) / 100]
    print(
        f"turn of {rounds:,} rounds x {size:,} B, window {window:,}: {output['receipt']['status']}, {cuts} cuts,"
        f" largest request {largest:,} tokens\n"
        f"  stored {total:,} B ({total / rounds / size:.2f} x content), journal {journal:,} B\n"
        f"  bytes a round: {per_round[0]:,.0f} at 100, {per_round[1]:,.0f} at {rounds:,}"
        f" (ratio {per_round[1] / per_round[0]:.2f})\n"
        f"  ms a round: {around(10):.1f} at 10, {around(100):.1f} at 100 (ratio {around(100) / around(10):.2f}),"
        f" {around(rounds - 10):.1f} at {rounds:,}"
    )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--size", type=int, default=2_048)
    parser.add_argument("--window", type=int, default=32_768)
    args = parser.parse_args()
    views()
    await turn(args.rounds, args.size, args.window)
    await turn(args.rounds, args.size, 100_000_000)


if __name__ == "__main__":
    asyncio.run(main())
