"""Writes `tests/data/thread_v1.sqlite.gz`: threads as the first version of the state stored them.

Run once, by that version: python -m tests.support.make_thread_v1. The file is never written again; later versions of
the state have to read it. Thread "talk" has turns with tools, a fold by a tool, folds made for room, dropped turns,
a shortened result and a receipt each; thread "asks" waits for its user.
"""

import gzip
import sqlite3
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.tools import StructuredTool
from langgraph.checkpoint.sqlite import SqliteSaver

from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import TurnEffects, ask_user, tool_policy

FILE = Path(__file__).parent.parent / "data" / "thread_v1.sqlite.gz"
SETTINGS = TurnSettings(context_window=2_048, max_output_tokens=300, max_rounds=40, max_tool_calls=60)
ASK = {"questions": [{"question": "Which port?", "id": "port"}]}


def read(page: int) -> str:
    """Read a page."""
    return f"page {page}: " + "coal and grain for the islands " * (8 if page else 300)


def save(text: str) -> tuple[str, TurnEffects]:
    """Fold what was done so far."""
    return "saved", TurnEffects(context_checkpoint=text)


def tools() -> list[Any]:
    folding = StructuredTool.from_function(save, response_format="content_and_artifact")
    return [tool_policy(read, effect="read"), folding, ask_user]


def graph_of(saver: Any, script: list[Any]) -> Any:
    return build_turn_graph(ScriptedModel(script), tools(), checkpointer=saver)


def talk() -> list[Any]:
    reads = [ScriptedReply(calls=[("read", {"page": n})]) for n in range(1, 13)]
    folded = [
        ScriptedReply(calls=[("read", {"page": 30})]),
        ScriptedReply(calls=[("save", {"text": "Page 30 was read."})]),
    ]
    long = [ScriptedReply(calls=[("read", {"page": 0})])]
    plain = [f"Answer {n}. " + "the ship left port " * 40 for n in range(6)]
    return [*reads, "Read twelve.", *folded, "Saved it.", *plain, *long, "Read the long one."]


def main() -> None:
    with TemporaryDirectory() as folder:
        written, packed = Path(folder) / "written.sqlite", Path(folder) / "packed.sqlite"
        with SqliteSaver.from_conn_string(str(written)) as saver:
            graph = graph_of(saver, talk())
            config = {"configurable": {"thread_id": "talk"}}
            for number in range(9):
                asked = {"messages": [("user", f"Question {number}")]}
                graph.invoke(asked, config, context=SETTINGS, durability="exit")
            asks = graph_of(saver, [ScriptedReply(calls=[("ask_user", ASK), ("read", {"page": 1})])])
            asks.invoke({"messages": [("user", "Go.")]}, {"configurable": {"thread_id": "asks"}}, context=SETTINGS)
            kinds = sorted({anchor["kind"] for anchor in graph.get_state(config).values["anchors"]})
        with sqlite3.connect(written) as db:
            db.execute("vacuum into ?", (str(packed),))
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_bytes(gzip.compress(packed.read_bytes(), mtime=0))
    sys.stdout.write(f"{FILE.name}: {FILE.stat().st_size} bytes, anchors of kinds {kinds}\n")


if __name__ == "__main__":
    main()
