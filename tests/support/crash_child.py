"""A process that runs a turn with effects on SQLite and may be killed at any moment. Used by the crash tests.

python -m tests.support.crash_child DATABASE EFFECTS ACTION [ARGUMENT]
Effects are lines "<tool> <argument> <idempotency key>" appended to the file EFFECTS in one write each.
"""

import os
import signal
import sqlite3
import sys
import time
from contextlib import closing
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from turngraph.graph import build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import idempotency_key, tool_policy

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "crash"}}


def settled(database: str) -> int:
    """How many calls have their result in the journal."""
    with closing(sqlite3.connect(database, timeout=30)) as db:
        return int(db.execute("SELECT COUNT(*) FROM turngraph_claims WHERE outcome IS NOT NULL").fetchone()[0])


def effects(database: str, path: str) -> list[Any]:
    def append(line: str) -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(handle, f"{line} {idempotency_key()}\n".encode())
        os.close(handle)

    def write(name: str, wait: float = 0.0) -> str:
        """Write something."""
        time.sleep(wait)
        append(f"write {name}")
        return f"wrote {name}"

    def parallel(name: str, wait: float = 0.0) -> str:
        """Do something beside others."""
        time.sleep(wait)
        append(f"parallel {name}")
        return f"did {name}"

    def read(name: str) -> str:
        """Read something."""
        return f"read {name}"

    def ask(name: str) -> str:
        """Do something that must be approved."""
        append(f"ask {name}")
        return f"asked {name}"

    def suicide(name: str) -> str:
        """Kill the process in the middle of this tool, once its siblings have ended."""
        while settled(database) < 2:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
        return name

    return [
        tool_policy(write, effect="write"),
        tool_policy(parallel),
        tool_policy(read, effect="read"),
        tool_policy(ask, permission="ask", effect="write"),
        tool_policy(suicide, effect="write"),
    ]


def script(action: str) -> list[Any]:
    batch = [("write", {"name": "a"}), ("parallel", {"name": "b"}), ("read", {"name": "c"})]
    match action:
        case "pause":
            return [ScriptedReply("Working.", calls=[*batch, ("ask", {"name": "d"})])]
        case "die-in-tool":
            return [ScriptedReply("Working.", calls=[*batch, ("suicide", {"name": "e"})])]
        case _:
            return ["All done."]


def main(database: str, path: str, action: str, argument: str = "") -> None:
    with SqliteSaver.from_conn_string(database) as saver:
        graph = build_turn_graph(ScriptedModel(script(action)), effects(database, path), checkpointer=saver)
        match action:
            case "pause":
                graph.invoke({"messages": [("user", "go")]}, CONFIG)
                os.kill(os.getpid(), signal.SIGKILL)
            case "die-in-tool":
                graph.invoke({"messages": [("user", "go")]}, CONFIG)
            case "approve":
                output = graph.invoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG)
            case "continue":
                output = graph.invoke(None, CONFIG)
            case "message":
                output = graph.invoke({"messages": [("user", argument)]}, CONFIG)
        print(output["answer"])
        for message in output["messages"]:
            print(message.type, message.text.replace("\n", " "))


if __name__ == "__main__":
    main(*sys.argv[1:])
