"""Time travel on a real server: regenerate, edit, fork and copy, as chat clients and Studio do it."""

from typing import Any

import pytest

from tests.server.conftest import Served, says

pytestmark = pytest.mark.server


async def talked(served: Served, *texts: str) -> str:
    """A new thread on which these messages were answered, one after the other."""
    thread_id: str = (await served.client.threads.create())["thread_id"]
    for text in texts:
        await served.client.runs.wait(thread_id, "turn", input=says(text))
    return thread_id


async def before(served: Served, thread_id: str, node: str) -> list[dict[str, Any]]:
    """The checkpoints at which a node was next, oldest first."""
    history = await served.client.threads.get_history(thread_id, limit=100)
    return [state for state in reversed(history) if state["next"] == [node]]


def spoken(values: dict[str, Any]) -> list[str]:
    return [message["content"] for message in values["messages"]]


def send(name: str) -> str:
    return f'call send {{"to": "{name}"}}'


async def from_checkpoint(served: Served, thread_id: str, state: dict[str, Any], **run: Any) -> dict[str, Any]:
    """A run from a checkpoint, as `checkpoint` of the run's request."""
    values: dict[str, Any] = await served.client.runs.wait(
        thread_id, "turn", checkpoint={"checkpoint_id": state["checkpoint"]["checkpoint_id"]}, **run
    )
    return values


async def test_a_regenerated_answer_replaces_the_old_one_and_the_thread_stays_readable(served: Served) -> None:
    """LangGraph writes a snapshot where it forks, and a server that shows a state hands its reducers dumps of it."""
    thread_id = await talked(served, "say One.", "say Two.")
    old = await served.values(thread_id)
    call = (await before(served, thread_id, "call_llm"))[-1]
    values = await from_checkpoint(served, thread_id, call)
    assert spoken(values) == ["say One.", "One.", "say Two.", "Two."]
    assert [m["id"] for m in values["messages"][:3]] == [m["id"] for m in old["messages"][:3]]
    assert values["messages"][3]["id"] != old["messages"][3]["id"]
    state = await served.client.threads.get_state(thread_id)
    assert state["values"]["messages"] == values["messages"]
    assert len({receipt["turn_id"] for receipt in state["values"]["receipts"]}) == 2
    history = await served.client.threads.get_history(thread_id, limit=100)
    assert spoken(history[0]["values"]) == spoken(values)
    assert {len(each["values"].get("messages", [])) for each in history} == {0, 1, 2, 3, 4}
    after = await served.client.runs.wait(thread_id, "turn", input=says("say Three."))
    assert spoken(after)[-2:] == ["say Three.", "Three."]


async def test_an_edited_question_starts_a_branch_without_what_came_after_it(served: Served) -> None:
    thread_id = await talked(served, "say One.", "say Two.", "say Three.")
    second = (await before(served, thread_id, "__start__"))[1]
    values = await from_checkpoint(served, thread_id, second, input=says("say Other."))
    assert spoken(values) == ["say One.", "One.", "say Other.", "Other."]
    state = await served.client.threads.get_state(thread_id)
    assert spoken(state["values"]) == spoken(values)
    assert [receipt["status"] for receipt in state["values"]["receipts"]] == ["completed", "completed"]


async def test_a_message_edited_in_the_state_is_what_the_run_answers(served: Served) -> None:
    """As Studio does it: the state is edited at a checkpoint, and the run goes on from the fork."""
    thread_id = await talked(served, "say One.")
    asked = (await before(served, thread_id, "prepare_turn"))[0]
    (message,) = asked["values"]["messages"]
    edited = {**message, "content": "say Changed."}
    fork = await served.client.threads.update_state(
        thread_id, {"messages": [edited]}, checkpoint={"checkpoint_id": asked["checkpoint"]["checkpoint_id"]}
    )
    assert (await served.client.threads.get_state(thread_id))["next"] == ["prepare_turn"]
    values = await served.client.runs.wait(thread_id, "turn", checkpoint=fork["checkpoint"])
    assert spoken(values) == ["say Changed.", "Changed."]
    assert values["messages"][0]["id"] == message["id"]


async def test_an_edited_and_a_removed_message_stay_so(served: Served) -> None:
    client = served.client
    thread_id = await talked(served, "say One.", "say Two.")
    messages = (await served.values(thread_id))["messages"]
    gone = {"type": "remove", "role": "remove", "id": messages[0]["id"], "content": ""}
    await client.threads.update_state(thread_id, {"messages": [{**messages[1], "content": "Uno."}, gone]})
    values = await client.runs.wait(thread_id, "turn", input=says("say Three."))
    assert spoken(values) == ["Uno.", "say Two.", "Two.", "say Three.", "Three."]


async def test_an_edited_call_is_asked_for_anew_and_runs_as_edited(served: Served) -> None:
    client, name = served.client, "edited-in-the-state"
    thread_id = await talked(served, send(name))
    waiting = (await served.values(thread_id))["messages"][-1]
    call = {**waiting["tool_calls"][0], "args": {"to": f"{name}-2"}}
    await client.threads.update_state(thread_id, {"messages": [{**waiting, "tool_calls": [call]}]})
    await client.runs.wait(thread_id, "turn", input=None)
    (pause,) = (await client.threads.get_state(thread_id))["interrupts"]
    assert pause["value"]["action_requests"][0]["args"] == {"to": f"{name}-2"}
    values = await client.runs.wait(thread_id, "turn", command={"resume": {"decisions": [{"type": "approve"}]}})
    assert values["answer"] == f"Done: sent to {name}-2"
    assert [line for line in served.effects if name in line] == [f"sent {name}-2"]


async def test_regenerating_what_waits_asks_again_and_runs_it_once(served: Served) -> None:
    client, name = served.client, "asked-again"
    thread_id = await talked(served, send(name))
    (call,) = await before(served, thread_id, "call_llm")
    await from_checkpoint(served, thread_id, call)
    assert len((await client.threads.get_state(thread_id))["interrupts"]) == 1
    values = await client.runs.wait(thread_id, "turn", command={"resume": {"decisions": [{"type": "approve"}]}})
    assert values["answer"] == f"Done: sent to {name}"
    assert served.effects.count(f"sent {name}") == 1


async def test_a_call_that_ran_is_not_repeated_on_another_branch(served: Served) -> None:
    """A fork from before the same call: the letter is sent, whatever is answered there, and the model is told so."""
    client, name = served.client, "forked-after-sending"
    thread_id = await talked(served, send(name))
    await client.runs.wait(thread_id, "turn", command={"resume": {"decisions": [{"type": "approve"}]}})
    pause = (await before(served, thread_id, "interrupt"))[0]
    values = await from_checkpoint(
        served, thread_id, pause, command={"resume": {"decisions": [{"type": "reject", "message": "no"}]}}
    )
    assert values["answer"] == f"Done: sent to {name}"
    assert served.effects.count(f"sent {name}") == 1
    assert await served.status(thread_id) == "idle"


async def test_a_copy_of_a_paused_thread_is_a_thread_of_its_own(served: Served) -> None:
    client, name = served.client, "copied"
    thread_id = await talked(served, "say One.", send(name))
    copy = (await client.threads.copy(thread_id))["thread_id"]
    rejected = await client.runs.wait(copy, "turn", command={"resume": {"decisions": [{"type": "reject"}]}})
    assert "not allow" in rejected["answer"]
    assert served.effects.count(f"sent {name}") == 0
    sent = await client.runs.wait(thread_id, "turn", command={"resume": {"decisions": [{"type": "approve"}]}})
    assert sent["answer"] == f"Done: sent to {name}"
    assert served.effects.count(f"sent {name}") == 1
    later = await client.runs.wait(copy, "turn", input=says("say In the copy."))
    assert spoken(later)[-1] == "In the copy."
    assert spoken(await served.values(thread_id))[-1] == f"Done: sent to {name}"
