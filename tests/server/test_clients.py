"""What chat clients do with a served turn: the exact requests of LangChain's chat UIs, and what they merge and draw."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.server.conftest import Served, says

pytestmark = pytest.mark.server

DRAWN = {"approve", "edit", "reject"}
"""The decisions that LangChain's chat UIs have a field for; they draw nothing for `respond`."""
TWO_AND_A_QUESTION = 'call look {{"place": "{0}"}}\ncall send {{"to": "{0}"}}\ncall ask_user {{"questions": [{{"question": "Which day?"}}]}}'


def blocks(text: str) -> dict[str, Any]:
    """A message as chat UIs send it: content blocks."""
    return {"type": "human", "content": [{"type": "text", "text": text}]}


async def new_thread(served: Served) -> str:
    thread_id: str = (await served.client.threads.create())["thread_id"]
    return thread_id


async def asked(served: Served, text: str, **options: Any) -> tuple[str, dict[str, Any]]:
    """A new thread, and the one pause that the text leads to."""
    thread_id = await new_thread(served)
    await served.client.runs.wait(thread_id, "turn", input={"messages": [blocks(text)]}, **options)
    (pause,) = (await served.client.threads.get_state(thread_id))["interrupts"]
    return thread_id, pause


async def decide(served: Served, thread_id: str, *decisions: dict[str, Any]) -> dict[str, Any]:
    """Answers as chat UIs do it: an empty input beside the command."""
    values: dict[str, Any] = await served.client.runs.wait(
        thread_id, "turn", input={}, command={"resume": {"decisions": list(decisions)}}
    )
    return values


def is_human_in_the_loop(pause: Any) -> bool:
    """The type guard of agent-chat-ui, field by field: what it does not let through is drawn as raw JSON, or not."""
    requests, configs = pause["value"].get("action_requests"), pause["value"].get("review_configs")
    return (
        isinstance(requests, list)
        and isinstance(configs, list)
        and bool(requests and configs)
        and all(isinstance(each.get("name"), str) and isinstance(each.get("args"), dict) for each in requests)
        and all(
            isinstance(each.get("action_name"), str) and isinstance(each.get("allowed_decisions"), list)
            for each in configs
        )
    )


async def test_every_pause_passes_the_guard_and_can_be_answered_with_what_is_drawn(served: Served) -> None:
    name = "drawn"
    thread_id, pause = await asked(served, TWO_AND_A_QUESTION.format(name))
    assert is_human_in_the_loop(pause)
    requests, configs = pause["value"]["action_requests"], pause["value"]["review_configs"]
    assert [each["name"] for each in requests] == [each["action_name"] for each in configs] == ["send", "ask_user"]
    assert all(set(each["allowed_decisions"]) & DRAWN for each in configs), "a pause without any field to answer"
    values = await decide(served, thread_id, {"type": "approve"}, {"type": "reject", "message": "On Monday."})
    assert values["answer"].startswith(f"Done: seen {name} | sent to {name} | ")
    assert "On Monday." in values["answer"]
    assert served.effects.count(f"sent {name}") == 1


async def test_a_stream_ends_with_the_pause_and_holds_each_message_once(served: Served) -> None:
    """Clients merge streamed pieces and whole messages by id: another id would show the text twice."""
    thread_id = await new_thread(served)
    pieces: dict[str, str] = {}
    last: dict[str, Any] = {}
    for options in ({"input": {"messages": [blocks('call send {"to": "merged"}')]}}, APPROVE):
        async for part in served.client.runs.stream(
            thread_id, "turn", stream_mode=["values", "messages-tuple", "custom"], stream_subgraphs=True, **options
        ):
            assert part.event != "error", part.data
            if part.event == "messages" and part.data[0]["type"] == "AIMessageChunk":
                pieces[part.data[0]["id"]] = pieces.get(part.data[0]["id"], "") + part.data[0]["content"]
            elif part.event == "values":
                last = part.data
        if "command" not in options:
            assert last["__interrupt__"][0]["value"]["action_requests"][0]["args"] == {"to": "merged"}
    assert "__interrupt__" not in last
    said = {message["id"]: message["content"] for message in last["messages"] if message["type"] == "ai"}
    assert pieces == said
    assert list(said.values()) == ["Let me see.", "Done: sent to merged"]
    assert len({message["id"] for message in last["messages"]}) == len(last["messages"]) == 4


APPROVE: dict[str, Any] = {"input": {}, "command": {"resume": {"decisions": [{"type": "approve"}]}}}


async def test_results_that_a_client_makes_up_are_never_told_to_the_model(served: Served) -> None:
    """agent-chat-ui answers every open call of its own accord when a plain message is sent during a pause."""
    thread_id, _ = await asked(served, 'call send {"to": "made-up"}')
    (call,) = (await served.values(thread_id))["messages"][-1]["tool_calls"]
    lie = {
        "type": "tool",
        "tool_call_id": call["id"],
        "id": f"do-not-render-{call['id']}",
        "name": "send",
        "content": "Successfully handled tool call.",
    }
    await served.client.runs.wait(thread_id, "turn", input={"messages": [lie, blocks("say Never mind, made-up.")]})
    (request,) = [
        each.messages for each in served.model.accepted if "Never mind, made-up." in str(each.messages[-1]["content"])
    ]
    (told,) = [message["content"] for message in request if message["role"] == "tool"]
    assert told.startswith("Not answered")
    assert "sent made-up" not in served.effects
    values = await served.client.runs.wait(thread_id, "turn", input={"messages": [blocks("say Next, made-up.")]})
    assert values["answer"] == "Next, made-up."


async def test_marking_a_pause_as_resolved_changes_nothing(served: Served) -> None:
    """LangGraph knows no node of that name and ignores it, for every graph: the call waits on."""
    thread_id, pause = await asked(served, 'call send {"to": "resolved"}')
    await served.client.runs.wait(thread_id, "turn", input={}, command={"goto": "__end__"})
    assert (await served.client.threads.get_state(thread_id))["interrupts"] == [pause]
    assert "sent resolved" not in served.effects
    values = await decide(served, thread_id, {"type": "approve"})
    assert values["answer"] == "Done: sent to resolved"


async def test_an_edit_form_sends_numbers_as_text(served: Served) -> None:
    thread_id, _ = await asked(
        served, 'call work {"name": "a", "seconds": 1.5}', context={"permissions": {"work": "ask"}}
    )
    edited = {"name": "work", "args": {"name": "edited-number", "seconds": "0"}}
    values = await decide(served, thread_id, {"type": "edit", "edited_action": edited})
    assert "worked edited-number" in values["answer"]
    assert [line for line in served.effects if "edited-number" in line] == ["begin edited-number", "end edited-number"]


async def test_a_list_of_threads_finds_those_that_wait_and_what_for(served: Served) -> None:
    thread_id, pause = await asked(served, 'call send {"to": "listed"}')
    found = await served.client.threads.search(status="interrupted", metadata={"graph_id": "turn"}, limit=100)
    (mine,) = [thread for thread in found if thread["thread_id"] == thread_id]
    assert [each["id"] for waiting in mine["interrupts"].values() for each in waiting] == [pause["id"]]
    await decide(served, thread_id, {"type": "reject", "message": "no"})
    found = await served.client.threads.search(status="interrupted", metadata={"graph_id": "turn"}, limit=100)
    assert thread_id not in [thread["thread_id"] for thread in found]


async def test_a_run_without_a_thread_never_waits_for_a_person(served: Served) -> None:
    """Nobody could answer it: the call is refused, and the model is told so."""
    values = await served.client.runs.wait(None, "turn", input=says('call send {"to": "nowhere"}'))
    assert values["receipt"]["status"] == "completed"
    assert values["answer"].startswith("Done: ")
    assert "sent nowhere" not in served.effects


async def test_settings_reach_the_turn_from_every_place_that_clients_use(served: Served) -> None:
    """`context` of the run, `config.configurable` of older clients, and an assistant's own, alone or overridden."""
    client = served.client
    mine = await client.assistants.create("turn", context={"enabled_tools": ["send"]}, name="only send")
    older = await client.assistants.create("turn", config={"configurable": {"enabled_tools": ["send"]}}, name="older")
    only_send = "Tools that can be called: send."
    ways: list[tuple[str, dict[str, Any], bool]] = [
        ("turn", {}, False),
        ("turn", {"context": {"enabled_tools": ["send"]}}, True),
        ("turn", {"config": {"configurable": {"enabled_tools": ["send"]}}}, True),
        (mine["assistant_id"], {}, True),
        (older["assistant_id"], {}, True),
        (mine["assistant_id"], {"context": {"enabled_tools": ["look"]}}, False),
    ]

    async def one(assistant: str, options: dict[str, Any], narrowed: bool) -> None:
        thread_id = await new_thread(served)
        values = await client.runs.wait(thread_id, assistant, input=says('call look {"place": "x"}'), **options)
        assert (only_send in values["answer"]) is narrowed, (assistant, options, values["answer"])

    try:
        await asyncio.gather(*(one(*way) for way in ways))
    finally:
        for assistant in (mine, older):
            await client.assistants.delete(assistant["assistant_id"])


async def test_a_drawing_opens_the_turn_inside_a_parent(served: Served) -> None:
    (assistant,) = await served.client.assistants.search(graph_id="parent", metadata={"created_by": "system"})
    shut = await served.client.assistants.get_graph(assistant["assistant_id"])
    wide = await served.client.assistants.get_graph(assistant["assistant_id"], xray=1)
    assert {node["id"] for node in shut["nodes"]} == {"__start__", "agent", "__end__"}
    assert {"agent:prepare_turn", "agent:call_llm", "agent:interrupt"} <= {node["id"] for node in wide["nodes"]}
    inside = await served.client.assistants.get_subgraphs(assistant["assistant_id"], recurse=True)
    assert set(inside) == {"agent"}
    assert "messages" in inside["agent"]["state_schema"]["properties"]


async def rpc(served: Served, path: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of one JSON-RPC call."""
    request = {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}
    headers = {"accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(base_url=served.server.url, timeout=30, trust_env=False) as client:
        reply = (await client.post(path, json=request, headers=headers)).json()
    result: dict[str, Any] = reply["result"]
    return result


async def test_an_mcp_client_calls_the_turn_as_a_tool(served: Served) -> None:
    tools = {tool["name"]: tool for tool in (await rpc(served, "/mcp", "tools/list", {}))["tools"]}
    assert tools["turn"]["inputSchema"]["required"] == ["messages"]
    arguments = {"messages": 'call look {"place": "mcp"}\ncall send {"to": "mcp"}'}
    result = await rpc(served, "/mcp", "tools/call", {"name": "turn", "arguments": arguments})
    assert not result.get("isError")
    assert "Done: seen mcp" in result["content"][0]["text"]
    assert "sent mcp" not in served.effects, "nobody could allow it"


async def test_an_a2a_client_gets_the_answer(served: Served) -> None:
    (assistant,) = await served.client.assistants.search(graph_id="turn", metadata={"created_by": "system"})
    message = {"role": "user", "parts": [{"kind": "text", "text": "say Hello, agent."}], "messageId": "m1"}
    result = await rpc(served, f"/a2a/{assistant['assistant_id']}", "message/send", {"message": message})
    assert result["status"]["state"] == "completed"
    assert result["artifacts"][-1]["parts"][-1]["text"] == "Hello, agent."
