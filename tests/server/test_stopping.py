"""Stopping and double texting on a real server: streamed text is kept and marked, no effect comes later, and the
thread is idle and usable after each way."""

import asyncio
import contextlib
from typing import Any

import httpx
import pytest
from langgraph_sdk.errors import ConflictError

from tests.server.conftest import Served, says

pytestmark = pytest.mark.server

HANG = "hang Half of an answer that never ends"


async def new_thread(served: Served) -> str:
    return str((await served.client.threads.create())["thread_id"])


async def usable(served: Served, thread_id: str, graph: str = "turn") -> dict[str, Any]:
    """The thread takes a message and answers it; gives its values."""
    values = await served.client.runs.wait(thread_id, graph, input=says("say All is well."))
    assert values["messages"][-1]["content"] == "All is well."
    calls = [call["id"] for m in values["messages"] for call in m.get("tool_calls") or []]
    results = [m["tool_call_id"] for m in values["messages"] if m["type"] == "tool"]
    assert sorted(calls) == sorted(results)
    assert await served.status(thread_id) == "idle"
    return dict(values)


async def stop_once(served: Served, thread_id: str, graph: str, text: str, seen: Any, stop: Any) -> list[Any]:
    """Starts a run, calls `stop(run_id)` once `seen(events)`, and reads on to the end of the stream."""
    events: list[Any] = []
    run_id, stopped = "", None
    options: Any = {"stream_mode": ["custom"], "stream_subgraphs": True}
    with contextlib.suppress(httpx.HTTPError):
        async for part in served.client.runs.stream(thread_id, graph, input=says(text), **options):
            if part.event == "metadata":
                run_id = part.data["run_id"]
            elif part.event.startswith("custom"):
                events.append(part.data)
            if stopped is None and seen(events):
                stopped = asyncio.create_task(stop(run_id))
    if stopped is not None:
        await stopped
    return events


def text_of(events: list[Any]) -> str:
    return "".join(e["text"] for e in events if e["type"] == "content")


def some_text(events: list[Any]) -> bool:
    return len(text_of(events)) >= 10


def cancel(served: Served, thread_id: str, action: str) -> Any:
    async def stop(run_id: str) -> None:
        await served.client.runs.cancel(thread_id, run_id, wait=True, action=action)

    return stop


def check_cut(values: dict[str, Any], read: str) -> None:
    """One message is marked as cut, and is what the client read."""
    cut = [m for m in values["messages"] if m.get("additional_kwargs", {}).get("turngraph", {}).get("cut")]
    assert len(cut) == 1, "one message, marked as cut"
    assert cut[0]["content"].startswith(read)
    assert "Let me think" not in cut[0]["content"]


async def test_cancel_keeps_the_text_that_was_streamed(served: Served) -> None:
    thread_id = await new_thread(served)
    events = await stop_once(served, thread_id, "turn", HANG, some_text, cancel(served, thread_id, "interrupt"))
    values = await served.values(thread_id)
    check_cut(values, text_of(events))
    assert values["receipt"]["status"] == "cancelled"
    check_cut(await usable(served, thread_id), text_of(events))


async def test_cancel_of_a_parent_keeps_the_text_of_its_turn(served: Served) -> None:
    thread_id = await new_thread(served)
    events = await stop_once(served, thread_id, "parent", HANG, some_text, cancel(served, thread_id, "interrupt"))
    check_cut(await served.values(thread_id), text_of(events))
    await usable(served, thread_id, "parent")


async def test_the_text_of_a_cancelled_parents_turn_outlasts_the_next_message(served: Served) -> None:
    thread_id = await new_thread(served)
    events = await stop_once(served, thread_id, "parent", HANG, some_text, cancel(served, thread_id, "interrupt"))
    check_cut(await usable(served, thread_id, "parent"), text_of(events))


async def test_what_a_cancelled_parents_turn_said_stands_in_its_place_for_the_model(served: Served) -> None:
    thread_id = await new_thread(served)
    await stop_once(served, thread_id, "parent", HANG, some_text, cancel(served, thread_id, "interrupt"))
    await usable(served, thread_id, "parent")
    await usable(served, thread_id, "parent")
    sent = [m for m in served.model.requests[-1].messages if m["role"] != "system"]
    assert [m["role"] for m in sent] == ["user", "assistant", "user", "assistant", "user"]
    assert sent[1]["content"].startswith("Half")


async def test_rollback_of_a_parent_leaves_no_trace_of_its_turn(served: Served) -> None:
    thread_id = await new_thread(served)
    await usable(served, thread_id, "parent")
    await stop_once(served, thread_id, "parent", HANG, some_text, cancel(served, thread_id, "rollback"))

    async def rolled_back() -> bool:
        return len((await served.values(thread_id))["messages"]) == 2

    await served.until(rolled_back)
    for _ in range(2):
        values = await usable(served, thread_id, "parent")
    assert [m["content"] for m in values["messages"]] == ["say All is well.", "All is well."] * 3


@pytest.mark.parametrize("mode", ["steer", "yield"])
async def test_a_turn_inside_a_parent_takes_what_a_client_queued(served: Served, mode: str) -> None:
    thread_id = await new_thread(served)
    name = f"parent-{thread_id[-12:]}"
    work = f'call work {{"name": "{name}", "seconds": 1}}'
    context = {"turn_settings": {"on_pending_input": mode}}
    run = await served.client.runs.create(thread_id, "parent", input=says(work), context=context)

    async def begun() -> bool:
        return f"begin {name}" in served.effects

    await served.until(begun)
    queued = {"role": "user", "content": "say Queued."}
    await served.client.store.put_item(("turngraph", "input", thread_id), "queued-1", queued)
    values = await served.client.runs.join(thread_id, run["run_id"])
    if mode == "yield":
        assert values["messages"][-1]["content"] == "Let me see."
        values = await served.client.runs.wait(thread_id, "parent", input={"messages": []})
    assert values["messages"][-1]["content"] == "Queued."
    for _ in range(2):
        values = await usable(served, thread_id, "parent")
    assert [m["content"] for m in values["messages"]].count("say Queued.") == 1
    left = await served.client.store.search_items(("turngraph", "input", thread_id))
    assert left["items"] == []


async def test_cancel_during_a_tool_starts_nothing_more(served: Served) -> None:
    thread_id = await new_thread(served)
    name = f"first-{thread_id[:8]}"
    batch = f'call work {{"name": "{name}", "seconds": 30}}\ncall work {{"name": "{name}-next", "seconds": 0}}'

    def begun(events: list[Any]) -> bool:
        return f"begin {name}" in served.effects

    await stop_once(served, thread_id, "turn", batch, lambda events: True, until_begun(served, thread_id, begun))
    values = await usable(served, thread_id)
    assert [line for line in served.effects if name in line] == [f"begin {name}"]
    assert [m["status"] for m in values["messages"] if m["type"] == "tool"] == ["error", "error"]


def until_begun(served: Served, thread_id: str, begun: Any) -> Any:
    async def stop(run_id: str) -> None:
        async def seen() -> bool:
            return bool(begun([]))

        await served.until(seen)
        await served.client.runs.cancel(thread_id, run_id, wait=True)

    return stop


async def test_rollback_leaves_no_trace_of_the_run(served: Served) -> None:
    thread_id = await new_thread(served)
    await usable(served, thread_id)
    await stop_once(served, thread_id, "turn", HANG, some_text, cancel(served, thread_id, "rollback"))

    async def rolled_back() -> bool:
        return len((await served.values(thread_id))["messages"]) == 2

    await served.until(rolled_back)
    values = await usable(served, thread_id)
    assert [m["content"] for m in values["messages"] if m["type"] == "human"] == ["say All is well."] * 2
    assert not any("Half" in str(m["content"]) for m in values["messages"])


async def test_a_client_that_goes_away_stops_its_run(served: Served) -> None:
    thread_id = await new_thread(served)
    stream = served.client.runs.stream(
        thread_id, "turn", input=says(HANG), stream_mode=["custom"], on_disconnect="cancel"
    )
    events: list[Any] = []
    async for part in stream:
        if part.event == "custom":
            events.append(part.data)
        if some_text(events):
            break
    await stream.aclose()

    async def idle() -> bool:
        return await served.status(thread_id) in ("idle", "interrupted", "error")

    await served.until(idle)
    values = await usable(served, thread_id)
    assert any(m.get("additional_kwargs", {}).get("turngraph", {}).get("cut") for m in values["messages"])


async def running(served: Served, thread_id: str, text: str = HANG) -> str:
    """Starts a run and gives its id once the model has said something."""
    before = len(served.model.requests)
    run = await served.client.runs.create(thread_id, "turn", input=says(text))

    async def asked() -> bool:
        return len(served.model.requests) > before

    await served.until(asked)
    await asyncio.sleep(0.2)
    return str(run["run_id"])


async def test_multitask_reject(served: Served) -> None:
    thread_id = await new_thread(served)
    run_id = await running(served, thread_id)
    with pytest.raises(ConflictError):
        await served.client.runs.create(thread_id, "turn", input=says("say No."), multitask_strategy="reject")
    await served.client.runs.cancel(thread_id, run_id, wait=True)
    values = await usable(served, thread_id)
    assert not any(m["content"] == "say No." for m in values["messages"])


async def test_multitask_enqueue(served: Served) -> None:
    thread_id = await new_thread(served)
    name = f"queued-{thread_id[:8]}"
    await running(served, thread_id, f'call work {{"name": "{name}", "seconds": 0.5}}')
    second = await served.client.runs.create(thread_id, "turn", input=says("say Two."), multitask_strategy="enqueue")
    await served.client.runs.join(thread_id, second["run_id"])
    values = await usable(served, thread_id)
    said = [m["content"] for m in values["messages"] if m["type"] == "ai"]
    assert said[:3] == ["Let me see.", f"Done: worked {name}", "Two."]


@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
async def test_multitask_that_stops_the_first_run(served: Served, strategy: Any) -> None:
    thread_id = await new_thread(served)
    await running(served, thread_id)
    second = await served.client.runs.create(thread_id, "turn", input=says("say Two."), multitask_strategy=strategy)
    await served.client.runs.join(thread_id, second["run_id"])
    values = await usable(served, thread_id)
    said = [m["content"] for m in values["messages"] if m["type"] == "ai"]
    assert said[-2:] == ["Two.", "All is well."]
    kept = [text for text in said if text.startswith("Half")]
    assert len(kept) == (1 if strategy == "interrupt" else 0)
