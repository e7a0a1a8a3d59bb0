"""The turn on a real `langgraph dev`, driven with langgraph-sdk: the same answer and events as in Python."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph_sdk import get_client

from tests.support.dev_server import ROOT, DevServer
from tests.support.turns import WAYS, run, thread
from turngraph.graph import TurnSettings
from turngraph.graph.build import build_turn_graph
from turngraph.tools import ask_user
from turngraph.tools.demo import demo_tools

pytestmark = pytest.mark.server

PROMPT = "What is 12 * (3 + 4)? And how does turngraph store messages?"
INPUT: dict[str, Any] = {"messages": [{"role": "user", "content": PROMPT}]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevServer]:
    served = json.loads((ROOT / "langgraph.json").read_text())["graphs"]
    folder = tmp_path_factory.mktemp("server")
    (folder / ".env").write_text(f"TURNGRAPH_NOTES={folder / 'notes'}\n")
    with DevServer(folder, served) as running:
        yield running


def comparable(events: list[dict[str, Any]]) -> list[Any]:
    """Events without what differs between two runs of the same turn: ids, times, the order of parallel results."""
    seen: list[Any] = []
    for event in events:
        kept = {k: v for k, v in event.items() if k not in ("turn_id", "seconds", "receipt", "thread_id", "call_id")}
        if event["type"] == "turn_finished":
            receipt = event["receipt"]
            kept["receipt"] = {k: v for k, v in receipt.items() if k not in ("turn_id", "seconds")}
        seen.append(kept)
    tools = sorted((e for e in seen if e["type"].startswith("tool_")), key=lambda e: (e["type"], e["name"]))
    return [e for e in seen if not e["type"].startswith("tool_")] + tools


async def serve(url: str, input: Any, **options: Any) -> tuple[str, list[dict[str, Any]], str]:
    client = get_client(url=url)
    thread_id = options.pop("thread_id", None) or (await client.threads.create())["thread_id"]
    events: list[dict[str, Any]] = []
    answer = ""
    async for part in client.runs.stream(thread_id, "turn", input=input, stream_mode=["custom", "values"], **options):
        assert part.event != "error", part.data
        if part.event == "custom":
            events.append(part.data)
        elif part.event == "values":
            answer = part.data.get("answer", "")
    return answer, events, thread_id


def test_every_way_to_run_gives_the_same_answer_and_events(server: DevServer) -> None:
    answer, events, _ = asyncio.run(serve(server.url, INPUT))
    assert "84" in answer
    assert [e["name"] for e in events if e["type"] == "tool_started"]
    graph = build_turn_graph(tools=[*demo_tools(), ask_user], checkpointer=InMemorySaver())
    for way in WAYS:
        output, local = run(graph, PROMPT, thread(way), way=way)
        assert output["answer"] == answer, way
        if local:
            assert comparable(local) == comparable(events), way


def test_a_pause_is_drawn_and_resumed_over_the_sdk(server: DevServer) -> None:
    async def scenario() -> None:
        client = get_client(url=server.url)
        ask = {"messages": [{"role": "user", "content": "Ask me which colour I like."}]}
        _, events, thread_id = await serve(server.url, ask)
        assert events[-1]["type"] == "interaction_requested"
        state = await client.threads.get_state(thread_id)
        (interrupt,) = state["interrupts"]
        assert set(interrupt["value"]) == {"action_requests", "review_configs", "turngraph"}
        answer, events, _ = await serve(server.url, None, thread_id=thread_id, command={"resume": "green"})
        assert "green" in answer
        assert events[-1]["type"] == "turn_finished"
        assert (await client.threads.get(thread_id))["status"] == "idle"

    asyncio.run(scenario())


def test_a_refused_answer_pauses_again_and_says_why(server: DevServer) -> None:
    async def scenario() -> None:
        client = get_client(url=server.url)
        ask = {"messages": [{"role": "user", "content": "Ask me which colour I like."}]}
        _, _, thread_id = await serve(server.url, ask)
        wrong = {"resume": {"decisions": {"no-such-call": {"type": "approve"}}}}
        await serve(server.url, None, thread_id=thread_id, command=wrong)
        (interrupt,) = (await client.threads.get_state(thread_id))["interrupts"]
        assert interrupt["value"]["turngraph"]["error"]
        answer, _, _ = await serve(server.url, None, thread_id=thread_id, command={"resume": "blue"})
        assert "blue" in answer

    asyncio.run(scenario())


def test_the_env_file_reaches_the_tools(server: DevServer) -> None:
    """Nothing but the file names the folder. Without any file the server starts, too: other tests have none."""

    async def scenario() -> str:
        note = {"messages": [{"role": "user", "content": "Save a note: buy milk"}]}
        _, _, thread_id = await serve(server.url, note)
        approve = {"resume": {"decisions": [{"type": "approve"}]}}
        answer, _, _ = await serve(server.url, None, thread_id=thread_id, command=approve)
        return answer

    assert "buy milk" in asyncio.run(scenario())
    assert "buy milk" in (server.folder / "notes" / "notes.md").read_text()


def test_the_assistants_form_shows_every_setting(server: DevServer) -> None:
    """Studio draws the form from this: a name, help, a start value and limits for each field, at the node it is for."""

    async def scenario() -> tuple[dict[str, Any], dict[str, Any]]:
        client = get_client(url=server.url)
        (assistant,) = await client.assistants.search()
        assert assistant["name"]
        schemas = await client.assistants.get_schemas(assistant["assistant_id"])
        return schemas, await client.assistants.get_graph(assistant["assistant_id"], xray=1)

    schemas, drawn = asyncio.run(scenario())
    nodes = {node["id"] for node in drawn["nodes"]}
    defaults = TurnSettings().model_dump(mode="json")
    for name in ("context_schema", "config_schema"):
        fields = schemas[name]["properties"]
        assert set(TurnSettings.model_fields) <= set(fields)
        for key, default in defaults.items():
            field = fields[key]
            assert field["title"], key
            assert field["description"], key
            assert field["langgraph_nodes"], key
            assert set(field["langgraph_nodes"]) <= nodes, key
            assert field["default"] == default, key
            for kind in field.get("anyOf", [field]):
                if kind.get("type") in ("integer", "number"):
                    assert {"minimum", "exclusiveMinimum"} & set(kind), key
                    assert "maximum" in kind, key
    assert set(schemas["context_schema"]["properties"]) == set(TurnSettings.model_fields)
    assert schemas["context_schema"]["properties"]["system_prompt"]["langgraph_type"] == "prompt"
    assert set(schemas["output_schema"]["properties"]) == {"messages", "answer", "receipt", "structured"}
    for name in ("input_schema", "output_schema", "state_schema"):
        assert schemas[name]["properties"]["messages"]["items"], "what Studio's chat mode looks for"


def test_a_form_that_is_sent_back_untouched_changes_nothing(server: DevServer) -> None:
    untouched = TurnSettings().model_dump(mode="json")
    answer, events, _ = asyncio.run(serve(server.url, INPUT))
    same, again, _ = asyncio.run(serve(server.url, INPUT, context=untouched))
    assert same == answer
    assert comparable(again) == comparable(events)


def test_settings_reach_the_turn_and_unknown_ones_are_dropped_by_the_server(server: DevServer) -> None:
    context = {"enabled_tools": ["calculator"], "no_such_setting": 1}
    answer, events, _ = asyncio.run(serve(server.url, INPUT, context=context))
    assert {e["name"] for e in events if e["type"] == "tool_started"} == {"calculator"}
    assert answer


def test_no_blocking_call_was_seen(server: DevServer) -> None:
    assert "Blocking" not in Path(server.folder / "server.log").read_text()
