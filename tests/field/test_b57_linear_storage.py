"""B57 (deepagents#2876): storage grows with what is new, not with the square of the turn."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.support.turns import thread
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import tool_policy

SETTINGS = TurnSettings(max_rounds=1_000, max_tool_calls=1_000, context_window=1_000_000)


def stored(path: Path, prefix: str) -> int:
    """Payload bytes (not keys) in the tables whose name starts so ("" for LangGraph's own)."""
    with sqlite3.connect(path) as db:
        names = [row[0] for row in db.execute("select name from sqlite_master where type='table'")]
        total = 0
        for name in names:
            if name.startswith("turngraph_") == bool(prefix):
                columns = [row[1] for row in db.execute(f"pragma table_info({name})") if not row[1].endswith("_id")]
                sizes = " + ".join(f"coalesce(length(cast({column} as blob)), 0)" for column in columns)
                total += db.execute(f"select coalesce(sum({sizes}), 0) from {name}").fetchone()[0]
        return total


def spend(path: Path, rounds: int, size: int, durability: Any = "async") -> int:
    def read(page: int) -> str:
        """Read a page."""
        return f"page {page} ".ljust(size, ".")

    script = [*(ScriptedReply(calls=[("read", {"page": n})]) for n in range(rounds)), "Done."]
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = build_turn_graph(ScriptedModel(script), [tool_policy(read, effect="read")], checkpointer=saver)
        output = graph.invoke({"messages": [("user", "go")]}, thread(), context=SETTINGS, durability=durability)
        assert output["answer"] == "Done."
        values = graph.get_state(thread()).values
        assert len(values["messages"]) == 2 * rounds + 2
    return stored(path, "")


@pytest.mark.parametrize(("durability", "most"), [("async", 5.0), ("exit", 1.5)])
def test_b57_forty_rounds_store_a_small_multiple_of_their_content(tmp_path: Path, durability: str, most: float) -> None:
    total = spend(tmp_path / "t.sqlite", 40, 2_000, durability)
    assert total <= most * 40 * 2_000


def test_b57_bytes_per_round_are_flat(tmp_path: Path) -> None:
    twenty, forty, eighty = (spend(tmp_path / f"{n}.sqlite", n, 2_000) for n in (20, 40, 80))
    early, late = (forty - twenty) / 20, (eighty - forty) / 40
    assert late <= 1.1 * early
    assert early <= 5 * 2_000


def test_b57_128_rounds_of_4_kb_stay_below_4_mb(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    spend(path, 128, 4_096)
    assert stored(path, "") + stored(path, "turngraph_") < 4_000_000


def test_b57_nothing_static_is_written_again(tmp_path: Path) -> None:
    """A long system prompt is stored once per turn, not once per step."""
    path = tmp_path / "t.sqlite"
    script = [*(ScriptedReply(calls=[("noop", {})]) for _ in range(20)), "Done."]

    def noop() -> str:
        """Do nothing."""
        return "ok"

    marker = "unmistakable-prompt-marker "
    settings = SETTINGS.model_copy(update={"system_prompt": marker * 100})
    tools = [tool_policy(noop, effect="read", polling=True)]
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = build_turn_graph(ScriptedModel(script), tools, checkpointer=saver)
        graph.invoke({"messages": [("user", "go")]}, thread(), context=settings)
    with sqlite3.connect(path) as db:
        tables = ("checkpoints", "writes")
        rows = [value for table in tables for row in db.execute(f"select * from {table}") for value in row]
    texts = [value if isinstance(value, bytes) else str(value).encode() for value in rows]
    found = sum(text.count(marker.encode()) for text in texts)
    assert 100 <= found <= 200, f"the prompt is stored {found / 100:.0f} times"
