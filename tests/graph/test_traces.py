"""What LangSmith is sent of a turn, by its real client to a collector that speaks its ingestion API."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from tests.support.collector import Collector
from tests.support.dev_server import ROOT, DevServer

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


def child(collector: Collector, *arguments: str, **environment: str) -> str:
    """Runs Python with tracing to the collector; gives what it printed."""
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
        [sys.executable, *arguments],
        env=env,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def traced(collector: Collector, **environment: str) -> str:
    """Runs one turn with tracing to the collector; gives the turn's id."""
    turn_id, _, structured = child(collector, "-c", CHILD, **environment).partition(" ")
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
    assert [run["name"] for run in models[2:]] == ["turngraph forced finish", "turngraph structured answer"]
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


@dataclass(frozen=True)
class Traced:
    """What a collector got of several turns, and what these printed."""

    runs: list[dict[str, Any]]
    said: dict[str, str]
    raw: bytes

    def roots(self, name: str) -> list[dict[str, Any]]:
        return [run for run in self.runs if run["name"] == name and not run.get("parent_run_id")]

    def under(self, root: dict[str, Any]) -> list[dict[str, Any]]:
        """The runs of a root's trace, itself included, in the order of their start."""
        return [run for run in self.runs if run["trace_id"] == root["trace_id"]]

    def of(self, name: str) -> list[dict[str, Any]]:
        """The runs of the one turn on the graph of that name."""
        (root,) = self.roots(name)
        return self.under(root)

    def path(self, run: dict[str, Any]) -> list[str]:
        """Names from the root down to a run."""
        by_id = {each["id"]: each for each in self.runs}
        names = [run["name"]]
        while run.get("parent_run_id"):
            run = by_id[run["parent_run_id"]]
            names.append(run["name"])
        return names[::-1]


@pytest.fixture(scope="module")
def turns() -> Iterator[Traced]:
    with Collector() as collector:
        said = json.loads(child(collector, "-m", "tests.support.traced_turns").splitlines()[-1])
        runs = sorted(collector.runs.values(), key=lambda run: (run["start_time"], run["dotted_order"]))
        yield Traced(runs, said, b"".join(collector.raw))


def test_every_run_has_ended_and_stands_in_the_one_tree_of_its_turn(turns: Traced) -> None:
    by_id = {run["id"]: run for run in turns.runs}
    for run in turns.runs:
        assert run.get("end_time"), f"{turns.path(run)} never ended"
        parent = run.get("parent_run_id")
        assert (run["trace_id"] == run["id"]) == (parent is None)
        if parent is not None:
            assert by_id[parent]["trace_id"] == run["trace_id"]
            assert run["dotted_order"].startswith(by_id[parent]["dotted_order"] + ".")


def test_tags_and_metadata_of_the_caller_are_on_every_run_of_the_turn(turns: Traced) -> None:
    for name in ("nested", "paused", "cancelled", "failed", "forced"):
        for root in turns.roots(name):
            for run in turns.under(root):
                assert "mine" in run["tags"], turns.path(run)
                assert metadata(run)["customer"] == "c7", turns.path(run)


def test_a_nested_turn_hangs_under_the_tool_that_ran_it(turns: Traced) -> None:
    assert turns.said["nested"] == "Outer done."
    models = [run for run in turns.of("nested") if run["run_type"] == "llm"]
    outer = [run for run in models if "helper" not in turns.path(run)]
    inner = [run for run in models if "helper" in turns.path(run)]
    assert [metadata(run)["turngraph_round"] for run in outer] == [1, 2]
    assert [metadata(run)["turngraph_round"] for run in inner] == [1, 2]
    assert len({metadata(run)["turngraph_turn_id"] for run in outer}) == 1
    assert {metadata(run)["turngraph_turn_id"] for run in inner}.isdisjoint(
        {metadata(run)["turngraph_turn_id"] for run in outer}
    )
    for run in inner:
        path = turns.path(run)
        assert path[:3] == ["nested", "dispatch_tools", "helper"]
        assert path[-2] == "call_llm"


def test_a_resumed_turn_is_a_second_trace_of_the_same_turn(turns: Traced) -> None:
    assert turns.said["paused"] == "To Zeebrugge."
    asked, answered = turns.roots("paused")
    ids = []
    for root in (asked, answered):
        ids += [metadata(run)["turngraph_turn_id"] for run in turns.under(root) if run["run_type"] == "llm"]
    assert len(ids) == 2
    assert len(set(ids)) == 1
    assert "interrupt" in [run["name"] for run in turns.under(asked)]


def test_a_cancelled_turn_ends_in_its_trace(turns: Traced) -> None:
    assert turns.said["cancelled"] == "cancelled"
    runs = turns.of("cancelled")
    (hanging,) = [run for run in runs if run["run_type"] == "tool"]
    assert "Cancelled" in hanging["error"]
    assert [run["name"] for run in runs if run["name"] == "finalize"] == ["finalize"]
    (final,) = [run for run in runs if run["name"] == "finalize"]
    assert final["outputs"]["receipt"]["status"] == "cancelled"


def test_a_failed_turn_has_its_error_on_the_call_the_node_and_the_turn(turns: Traced) -> None:
    failed = {run["name"]: run.get("error") for run in turns.of("failed")}
    assert "ProviderError" in failed["failed"]
    assert "ProviderError" in failed["call_llm"]
    assert "AuthenticationError" in failed["ScriptedModel"]
    assert not failed["prepare_turn"]
    assert "[redacted]" in turns.said["failed"]


def test_errors_in_traces_tell_no_secret(turns: Traced) -> None:
    for graph, name in (("nested", "look"), ("failed", "ScriptedModel")):
        assert "[redacted]" in next(run for run in turns.of(graph) if run["name"] == name)["error"]
    for run in turns.runs:
        assert "CANARY" not in json.dumps(run), turns.path(run)
    assert b"CANARY" not in turns.raw


def test_calls_that_no_stream_shows_have_names_of_their_own(turns: Traced) -> None:
    named = {
        "forced": ("turngraph forced finish", "forced_finish"),
        "summarised": ("turngraph summary", "summary"),
    }
    assert turns.said["forced"] == "max_rounds"
    assert int(turns.said["summarised"]) >= 1
    for graph, (name, role) in named.items():
        models = [run for root in turns.roots(graph) for run in turns.under(root) if run["run_type"] == "llm"]
        assert {run["name"] for run in models if metadata(run)["turngraph_role"] == role} == {name}
        rounds = [run for run in models if metadata(run)["turngraph_role"] == "round"]
        assert rounds
        assert {run["name"] for run in rounds} == {"ScriptedModel"}
    (summary,) = [run for run in turns.runs if run["name"] == "turngraph summary" and not run.get("parent_run_id")]
    assert metadata(summary)["turngraph_role"] == "summary", "a summary that a caller asked for stands alone"


EVALUATION = '''
import asyncio, datetime, json, sys, uuid
from langchain_core.tracers.langchain import wait_for_all_tracers
import langsmith
from langsmith.schemas import Example
from turngraph.graph import build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply

def add(left: int, right: int) -> str:
    """Add."""
    return str(left + right)

def replies(messages):
    if messages[-1].type == "tool":
        return f"The sum is {messages[-1].text}."
    left, right = map(int, messages[-1].text.split("+"))
    return ScriptedReply(calls=[("add", {"left": left, "right": right})])

graph = build_turn_graph(ScriptedModel([replies] * 8), [add])

def target(inputs):
    with langsmith.tracing_context(enabled=sys.argv[1] == "traced"):
        return graph.invoke({"messages": [("user", inputs["question"])]})

async def atarget(inputs):
    with langsmith.tracing_context(enabled=sys.argv[1] == "traced"):
        return await graph.ainvoke({"messages": [("user", inputs["question"])]})

def right(outputs, reference_outputs):
    return {"key": "right", "score": reference_outputs["sum"] in outputs["answer"]}

def rounds(outputs):
    assert outputs["receipt"]["status"] == "completed"
    return {"key": "rounds", "score": outputs["receipt"]["rounds"]}

now, dataset = datetime.datetime.now(datetime.timezone.utc), uuid.uuid4()
examples = [
    Example(id=uuid.uuid4(), dataset_id=dataset, created_at=now, inputs={"question": asked}, outputs={"sum": said})
    for asked, said in (("2+2", "4"), ("2+3", "9"))
]
options = {"data": examples, "evaluators": [right, rounds], "upload_results": False}
results = [list(langsmith.evaluate(target, **options, max_concurrency=0))]

async def main():
    return [row async for row in await langsmith.aevaluate(atarget, **options, max_concurrency=1)]

results.append(asyncio.run(main()))
wait_for_all_tracers()
print(json.dumps([
    sorted([row["example"].inputs["question"], *(r.score for r in row["evaluation_results"]["results"])] for row in rows)
    for rows in results
]))
'''


@pytest.mark.parametrize("tracing", ["traced", "offline"])
def test_an_evaluation_reads_answer_and_receipt_and_needs_no_server(tracing: str) -> None:
    with Collector() as collector:
        scores = json.loads(child(collector, "-c", EVALUATION, tracing).splitlines()[-1])
        roots = [run for run in collector.runs.values() if run.get("name") == "turn"]
    assert scores == [[["2+2", True, 2], ["2+3", False, 2]]] * 2
    assert len(roots) == (4 if tracing == "traced" else 0)
    assert tracing == "traced" or not collector.runs, "upload_results=False alone still sends what the target traces"


@pytest.mark.server
def test_a_real_server_traces_its_turns_to_the_endpoint_that_it_is_given(tmp_path: Path) -> None:
    graphs = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    asked = {"messages": [{"role": "user", "content": "What is 12*(3+4)?"}]}

    async def scenario(url: str) -> str:
        client = get_client(url=url)
        thread_id = str((await client.threads.create())["thread_id"])
        output: Any = await client.runs.wait(thread_id, "turn", input=asked, metadata={"customer": "c7"})
        assert "84" in output["answer"]
        return thread_id

    with Collector() as collector:
        env = {
            "LANGSMITH_TRACING": "true",
            "LANGSMITH_ENDPOINT": collector.url,
            "LANGSMITH_API_KEY": "lsv2_test_0123456789abcdef0123",
        }
        with DevServer(tmp_path, graphs, env) as server:
            thread_id = asyncio.run(scenario(server.url))
        # A server that was asked to stop sends what it still holds.
        runs = list(collector.runs.values())
        assert "Blocking" not in server.log
    (root,) = [run for run in runs if not run.get("parent_run_id")]
    assert root["name"] == "turn"
    assert {run["trace_id"] for run in runs} == {root["id"]}
    assert metadata(root)["graph_id"] == "turn"
    models = [run for run in runs if run["run_type"] == "llm"]
    assert sorted(metadata(run)["turngraph_round"] for run in models) == [1, 2]
    for run in models:
        assert metadata(run)["thread_id"] == thread_id
        assert metadata(run)["customer"] == "c7"
        assert metadata(run)["turngraph_view"]["used"] > 0
    assert "lsv2_test" not in json.dumps(runs)
