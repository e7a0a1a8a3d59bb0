"""Pauses and queued input on a real server: answered as LangChain's UIs do it, by id, after a restart; many at once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from tests.server.conftest import Served, says
from tests.support.dev_server import DevServer
from tests.support.openai_server import ScriptedServer
from tests.support.served import EFFECTS, MODEL_URL, answer

pytestmark = pytest.mark.server

GRAPHS = {name: f"tests.support.served:{name}" for name in ("turn", "parent")}


async def paused(client: Any, graph: str, text: str, **options: Any) -> tuple[str, dict[str, Any]]:
    """A new thread on which a run has paused, and the pause."""
    thread_id = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread_id, graph, input=says(text), **options)
    assert (await client.threads.get(thread_id))["status"] == "interrupted"
    (pause,) = (await client.threads.get_state(thread_id))["interrupts"]
    return thread_id, pause


async def resumed(client: Any, thread_id: str, graph: str, answer_: Any) -> str:
    values = await client.runs.wait(thread_id, graph, command={"resume": answer_})
    assert (await client.threads.get(thread_id))["status"] == "idle"
    return str(values["messages"][-1]["content"])


def send(*names: str) -> str:
    return "\n".join(f'call send {{"to": "{name}"}}' for name in names)


ANSWERS = [
    ({"decisions": [{"type": "approve"}]}, "sent to {0}", ["sent {0}"]),
    (
        {"decisions": [{"type": "edit", "edited_action": {"name": "send", "args": {"to": "{0}-edited"}}}]},
        "sent to {0}-edited",
        ["sent {0}-edited"],
    ),
    ({"decisions": [{"type": "reject", "message": "not today"}]}, "not today", []),
    ({"decisions": [{"type": "respond", "message": "I sent it myself"}]}, "I sent it myself", []),
]


@pytest.mark.parametrize("graph", ["turn", "parent"])
async def test_a_pause_is_drawn_and_answered_as_human_in_the_loop_uis_do(served: Served, graph: str) -> None:
    async def one(number: int, by_id: bool) -> None:
        shape, said, effects = ANSWERS[number]
        name = f"{graph}-{number}-{by_id}"
        thread_id, pause = await paused(served.client, graph, send(name))
        assert pause["value"]["action_requests"][0]["args"] == {"to": name}
        assert pause["value"]["review_configs"][0]["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
        filled = eval_shape(shape, name)
        text = await resumed(served.client, thread_id, graph, {pause["id"]: filled} if by_id else filled)
        assert said.format(name) in text
        ran = [line for line in served.effects if line.removeprefix("sent ").startswith(name)]
        assert ran == [effect.format(name) for effect in effects]

    await asyncio.gather(*(one(number, by_id) for number in range(len(ANSWERS)) for by_id in (False, True)))


def eval_shape(shape: Any, name: str) -> Any:
    """The shape with the name filled in."""
    if isinstance(shape, dict):
        return {key: eval_shape(value, name) for key, value in shape.items()}
    if isinstance(shape, list):
        return [eval_shape(each, name) for each in shape]
    return shape.replace("{0}", name)


async def test_a_plain_message_instead_of_an_answer_starts_a_new_turn(served: Served) -> None:
    client = served.client
    thread_id, _ = await paused(client, "turn", send("nobody"))
    values = await client.runs.wait(thread_id, "turn", input=says("say Never mind."))
    assert values["messages"][-1]["content"] == "Never mind."
    assert "sent nobody" not in served.effects
    assert (await client.threads.get(thread_id))["status"] == "idle"


async def test_two_resumes_of_one_pause_run_the_tool_once(served: Served) -> None:
    """B56: a double click. The server queues the second, which finds nothing that waits."""
    client = served.client
    name = "double-click"
    thread_id, pause = await paused(client, "turn", send(name))
    answer_ = {"resume": {pause["id"]: {"decisions": [{"type": "approve"}]}}}

    async def click() -> Any:
        return await client.runs.wait(thread_id, "turn", command=answer_, raise_error=False)

    await asyncio.gather(click(), click(), click())
    assert served.effects.count(f"sent {name}") == 1
    values = await client.runs.wait(thread_id, "turn", input=says("say All is well."))
    assert values["messages"][-1]["content"] == "All is well."


@pytest.mark.parametrize("graph", ["turn", "parent"])
async def test_an_answer_to_a_pause_that_is_over_answers_no_later_one(served: Served, graph: str) -> None:
    client = served.client
    name = f"late-{graph}"
    thread_id, old = await paused(client, graph, send(name))
    approve = {"decisions": [{"type": "approve"}]}
    await client.runs.wait(thread_id, graph, command={"resume": {old["id"]: approve}})
    await client.runs.wait(thread_id, graph, input=says(send(f"{name}-2")))
    await client.runs.wait(thread_id, graph, command={"resume": {old["id"]: approve}})
    assert [line for line in served.effects if name in line] == [f"sent {name}"]
    state = await client.threads.get_state(thread_id)
    (pause,) = state["interrupts"]
    assert pause["value"]["action_requests"][0]["args"] == {"to": f"{name}-2"}
    if graph == "turn":
        assert old["id"] in pause["value"]["turngraph"]["error"]
    assert (await client.threads.get(thread_id))["status"] == "interrupted"
    await client.runs.wait(thread_id, graph, command={"resume": {pause["id"]: approve}})
    assert [line for line in served.effects if name in line] == [f"sent {name}", f"sent {name}-2"]


async def test_a_client_steers_a_running_turn_through_the_store(served: Served) -> None:
    client = served.client
    thread_id = (await client.threads.create())["thread_id"]
    name = f"steered-{thread_id[:8]}"
    run = await client.runs.create(
        thread_id,
        "turn",
        input=says(f'call work {{"name": "{name}", "seconds": 1.0}}'),
        context={"on_pending_input": "steer"},
    )

    async def begun() -> bool:
        return f"begin {name}" in served.effects

    await served.until(begun)
    for key, text in (("m1", "say First."), ("m2", "say Second.")):
        await client.store.put_item(["turngraph", "input", thread_id], key, {"role": "user", "content": text})
    await client.runs.join(thread_id, run["run_id"])
    messages = (await served.values(thread_id))["messages"]
    assert [m["content"] for m in messages if m["type"] == "human"][1:] == ["say First.", "say Second."]
    assert len({m["id"] for m in messages}) == len(messages)
    items = await client.store.search_items(["turngraph", "input", thread_id])
    assert items["items"] == []
    values = await client.runs.wait(thread_id, "turn", input=says("say All is well."))
    assert [m["content"] for m in values["messages"] if m["type"] == "human"].count("say First.") == 1


async def test_queued_input_yields_the_turn_and_empty_input_starts_the_next(served: Served) -> None:
    client = served.client
    thread_id = (await client.threads.create())["thread_id"]
    name = f"yields-{thread_id[:8]}"
    run = await client.runs.create(thread_id, "turn", input=says(f'call work {{"name": "{name}", "seconds": 1.0}}'))

    async def begun() -> bool:
        return f"begin {name}" in served.effects

    await served.until(begun)
    await client.store.put_item(["turngraph", "input", thread_id], "m1", {"role": "user", "content": "say Me now."})
    await client.runs.join(thread_id, run["run_id"])
    values = await served.values(thread_id)
    assert values["receipt"]["stop_reason"] == "pending_input"
    values = await client.runs.wait(thread_id, "turn", input={"messages": []})
    assert values["messages"][-1]["content"] == "Me now."
    assert values["receipt"]["status"] == "completed"


async def test_a_lower_recursion_limit_still_ends_in_an_answer(served: Served) -> None:
    """B19 on the server, where a node does not even see the limit in its config."""
    thread_id = (await served.client.threads.create())["thread_id"]
    values = await served.client.runs.wait(
        thread_id, "turn", input=says('call look {"place": "x"}'), config={"recursion_limit": 6}
    )
    assert values["answer"]
    assert values["receipt"]["status"] in ("completed", "incomplete")
    assert await served.status(thread_id) == "idle"


async def test_a_failing_model_leaves_the_thread_usable(served: Served) -> None:
    thread_id = (await served.client.threads.create())["thread_id"]
    context = {"model": "openai:no-such-provider-here", "max_retries": 0}
    result = await served.client.runs.wait(
        thread_id, "turn", input=says("say hello"), context=context, raise_error=False
    )
    assert result["__error__"]
    values = await served.client.runs.wait(thread_id, "turn", input=says("say All is well."))
    assert values["messages"][-1]["content"] == "All is well."


def test_a_pause_is_answered_after_a_restart(tmp_path: Path) -> None:
    with ScriptedServer(answer, strict=True) as model:
        env = {MODEL_URL: model.url, EFFECTS: str(tmp_path / "effects.txt"), "LANGGRAPH_STRICT_MSGPACK": "true"}
        batch = send("ann") + "\n" + 'call work {"name": "w", "seconds": 0}'
        waiting: dict[str, str] = {}
        with DevServer(tmp_path, GRAPHS, env) as server:

            async def pause() -> None:
                client = get_client(url=server.url)
                for graph in GRAPHS:
                    waiting[graph], _ = await paused(client, graph, batch)
                thread_id = waiting["queue"] = (await client.threads.create())["thread_id"]
                where = ["turngraph", "input", thread_id]
                await client.store.put_item(where, "m1", {"role": "user", "content": "say Still here."})

            asyncio.run(pause())
            before = (tmp_path / "effects.txt").read_text() if (tmp_path / "effects.txt").exists() else ""
        with DevServer(tmp_path, GRAPHS, env) as server:

            async def answer_() -> None:
                client = get_client(url=server.url)
                for graph in GRAPHS:
                    text = await resumed(client, waiting[graph], graph, {"decisions": [{"type": "approve"}]})
                    assert "sent to ann" in text
                    assert "worked w" in text
                values = await client.runs.wait(waiting["queue"], "turn", input={"messages": []})
                assert values["messages"][-1]["content"] == "Still here."

            asyncio.run(answer_())
        effects = (tmp_path / "effects.txt").read_text().splitlines()
        assert before.count("sent") == 0
        assert sorted(effects) == sorted(2 * ["sent ann", "begin w", "end w"])
        assert "Blocking" not in server.log


@pytest.mark.slow
async def test_fifty_turns_at_once_do_not_mix(served: Served) -> None:
    client = served.client

    async def one(number: int) -> None:
        place = f"place-{number}-{'x' * number}"
        thread_id = (await client.threads.create())["thread_id"]
        events = []
        async for part in client.runs.stream(
            thread_id, "turn", input=says(f'call look {{"place": "{place}"}}'), stream_mode=["custom"]
        ):
            assert part.event != "error", part.data
            if part.event == "custom":
                events.append(part.data)
        assert {event["turn_id"] for event in events} == {events[0]["turn_id"]}
        assert "".join(e["text"] for e in events if e["type"] == "content") == f"Let me see.Done: seen {place}"
        assert events[-1]["receipt"]["status"] == "completed"

    await asyncio.gather(*(one(number) for number in range(50)))
