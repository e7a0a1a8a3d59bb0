"""What LangSmith is sent of a turn, by its real client to a collector that speaks its ingestion API."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.collector import Collector

CHILD = '''
import sys
from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.checkpoint.memory import InMemorySaver
from turngraph.graph import TurnSettings, as_tool, build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply

def look(place: str) -> str:
    """Look."""
    raise ValueError("the key is sk-test-CANARY4f9a27c1") if place == "leak" else None

def calls(place):
    return ScriptedReply(text="Let me look.", calls=[("look", {"place": place})])

format = {"title": "Found", "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
model = ScriptedModel([calls("leak"), calls("yard"), "A secret word: pelican.", ScriptedReply(calls=[("Found", {"n": 1})])])
graph = build_turn_graph(model, [look], checkpointer=InMemorySaver(), response_format=format)
output = graph.invoke(
    {"messages": [("user", "go")]}, {"configurable": {"thread_id": "t1"}}, context=TurnSettings(max_rounds=2)
)
print(output["receipt"]["turn_id"], output["structured"])
wait_for_all_tracers()
'''


def traced(collector: Collector, **environment: str) -> str:
    """Runs the child with tracing to the collector; gives the turn's id."""
    env = {
        "PATH": os.environ.get("PATH", ""),
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_ENDPOINT": collector.url,
        "LANGSMITH_API_KEY": "lsv2_test_0123456789abcdef0123",
        "LANGSMITH_DISABLE_RUN_COMPRESSION": "true",
        "NO_PROXY": "127.0.0.1",
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        env=env,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    turn_id, _, structured = done.stdout.strip().partition(" ")
    assert structured == "{'n': 1}"
    return turn_id


def metadata(run: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = run.get("extra", {}).get("metadata", {})
    return found


def test_each_model_call_says_turn_round_role_and_view() -> None:
    with Collector() as collector:
        turn_id = traced(collector)
    models = sorted((r for r in collector.runs.values() if r["run_type"] == "llm"), key=lambda r: r["start_time"])
    assert [metadata(run)["turngraph_round"] for run in models] == [1, 2, 3, 3]
    roles = [metadata(run)["turngraph_role"] for run in models]
    assert roles == ["round", "round", "forced_finish", "structured_answer"]
    for run in models:
        assert metadata(run)["turngraph_turn_id"] == turn_id
        view = metadata(run)["turngraph_view"]
        assert view["used"] == sum(view["segments"].values()) > 0
        assert "turngraph" in run["tags"]
        assert run["parent_run_id"], "a model call stands in the tree of its turn"
    assert [run["name"] == "turngraph structured answer" for run in models] == [False, False, False, True]
    nodes = {run["name"] for run in collector.runs.values()}
    assert nodes >= {"turn", "prepare_turn", "call_llm", "dispatch_tools", "look", "forced_finish", "finalize"}
    assert b"CANARY" not in b"".join(collector.raw)
    assert b"pelican" in b"".join(collector.raw)


def test_inputs_and_outputs_are_hidden_on_request_and_the_metadata_stays() -> None:
    with Collector() as collector:
        traced(collector, LANGSMITH_HIDE_INPUTS="true", LANGSMITH_HIDE_OUTPUTS="true")
    sent = json.dumps(collector.runs)
    assert "pelican" not in sent
    assert "Let me look" not in sent
    assert [r for r in collector.runs.values() if "turngraph_view" in metadata(r)]
