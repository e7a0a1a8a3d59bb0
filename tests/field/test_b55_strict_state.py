"""B55 (langgraph#7695): only plain JSON and LangChain messages are ever stored."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = '''
import sys
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from turngraph.graph import build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import tool_policy

def send(to: str) -> str:
    """Send."""
    return "sent"

database, phase = sys.argv[1:]
steps = [ScriptedReply(calls=[("send", {"to": "ann"})])] if phase == "pause" else ["Sent."]
config = {"configurable": {"thread_id": "t"}}
with SqliteSaver.from_conn_string(database) as saver:
    graph = build_turn_graph(ScriptedModel(steps), [tool_policy(send, permission="ask")], checkpointer=saver)
    if phase == "pause":
        paused = graph.invoke({"messages": [("user", "go")]}, config)
        print(paused["__interrupt__"][0].value["action_requests"][0]["name"])
    else:
        print(graph.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)["answer"])
        for snapshot in graph.get_state_history(config):
            assert snapshot.values is not None
'''


@pytest.mark.parametrize("strict", ["true", "false"])
def test_b55_a_pause_survives_strict_msgpack_in_another_process(tmp_path: Path, strict: str) -> None:
    database = tmp_path / "turns.sqlite"
    said = []
    for phase in ("pause", "resume"):
        done = subprocess.run(
            [sys.executable, "-W", "error::UserWarning", "-c", SCRIPT, str(database), phase],
            env={"LANGGRAPH_STRICT_MSGPACK": strict, "LANGSMITH_TRACING": "false", "PATH": ""},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "unregistered" not in done.stderr.lower(), done.stderr
        said.append(done.stdout.strip())
    assert said == ["send", "Sent."]
