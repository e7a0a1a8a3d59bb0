"""Threads named by the beginning of their id: exactly one is meant, or the error says which could be."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.cli.shell import Shell
from tests.support.turns import thread
from turngraph.cli.threads import LISTED, known_thread
from turngraph.cli.values import UsageError
from turngraph.graph import build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import ask_user

IDS = ["apple", "apple-1", "apple-2", "bear", "Bear/x", "ünder_score", "a%b", "a_c"]


def database(path: Path, ids: list[str]) -> Path:
    """A database with threads that were written to in this order."""
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph: Any = build_turn_graph(ScriptedModel(["Hello."] * len(ids)), [], checkpointer=saver)
        for each in ids:
            graph.invoke({"messages": [("user", "hi")]}, thread(each))
    return path


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return database(tmp_path_factory.mktemp("db") / "threads.sqlite", IDS)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("apple", "apple"),
        ("apple-1", "apple-1"),
        ("b", "bear"),
        ("B", "Bear/x"),
        ("Bear/", "Bear/x"),
        ("ü", "ünder_score"),
        ("a%", "a%b"),
        ("a_", "a_c"),
    ],
)
def test_a_whole_id_wins_and_a_unique_beginning_is_enough(stored: Path, typed: str, meant: str) -> None:
    assert known_thread(stored, typed) == meant


def test_an_ambiguous_beginning_lists_what_it_could_mean_newest_first(stored: Path) -> None:
    with pytest.raises(UsageError) as refused:
        known_thread(stored, "app")
    assert str(refused.value).splitlines() == [
        "3 threads start with 'app', newest first:",
        "  apple-2",
        "  apple-1",
        "  apple",
        "Type more of the id.",
    ]


@pytest.mark.parametrize("typed", ["zebra", "pple", "APPLE", "apple-1x", "_", "%"])
def test_what_no_thread_starts_with_is_unknown(stored: Path, typed: str) -> None:
    with pytest.raises(UsageError, match="There is no thread"):
        known_thread(stored, typed)


def test_where_nothing_was_ever_stored_there_is_no_thread(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"There is no thread 'a' in .*none\.sqlite"):
        known_thread(tmp_path / "none.sqlite", "a")
    assert not (tmp_path / "none.sqlite").exists(), "looking makes no file"
    sqlite3.connect(tmp_path / "empty.sqlite").execute("CREATE TABLE other (a)")
    with pytest.raises(UsageError, match="There is no thread"):
        known_thread(tmp_path / "empty.sqlite", "a")


@settings(max_examples=40, deadline=None)
@given(
    ids=st.lists(st.text("abü1-", min_size=1, max_size=4), unique=True, max_size=30), typed=st.text("abü1-", min_size=1)
)
def test_a_thread_is_found_exactly_where_one_can_be_meant(
    tmp_path_factory: pytest.TempPathFactory, ids: list[str], typed: str
) -> None:
    path = tmp_path_factory.mktemp("law") / "t.sqlite"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        saver.setup()
        rows = [(each, "", str(at)) for at, each in enumerate(ids)] + [("inner" + typed, "graph:1", "0")]
        insert = "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id) VALUES (?, ?, ?)"
        saver.conn.executemany(insert, rows)
        saver.conn.commit()
    fits = [each for each in ids if each.startswith(typed)]
    if typed in ids or len(fits) == 1:
        assert known_thread(path, typed) == (typed if typed in ids else fits[0])
        return
    with pytest.raises(UsageError) as refused:
        known_thread(path, typed)
    listed = [line.strip() for line in str(refused.value).splitlines() if line.startswith("  ")]
    assert set(listed) - {f"and {len(fits) - LISTED} more"} <= set(fits)
    assert len(listed) == min(len(fits), LISTED + 1)


def test_every_command_on_a_thread_takes_the_beginning_of_its_id(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    with SqliteSaver.from_conn_string(str(shell.database)) as saver:
        ask = ScriptedReply(calls=[("ask_user", {"questions": [{"question": "Which port?"}]})])
        graph: Any = build_turn_graph(ScriptedModel(["Hello.", ask]), [ask_user], checkpointer=saver)
        graph.invoke({"messages": [("user", "hi")]}, thread("done-1"))
        graph.invoke({"messages": [("user", "go")]}, thread("asks-1"))
    shown = shell.run("show", "do", "--json")
    assert json.loads(shown.out)["thread_id"] == "done-1"
    refused = shell.run("show", "x")
    assert refused.code == 2
    assert "There is no thread 'x'" in refused.err
    queued = shell.run("send", "done", "and then?")
    assert queued.code == 0, queued.err
    assert "continue done-1" in queued.out, "what is printed names the thread whole"
    resumed = shell.run("resume", "as")
    assert resumed.code == 3
    assert "resume asks-1" in resumed.out
    assert shell.run("continue", "done").code == 0
