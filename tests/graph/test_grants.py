"""Standing grants: no wider than what was shown, listed, revocable at any time; and denials that are understood."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from tests.support.scripts import YES, Effects, calls, scripted
from tests.support.turns import check_turn, pause_of, run, thread
from turngraph.graph import (
    InputError,
    TurnConflict,
    TurnSettings,
    alist_grants,
    arevoke_grant,
    list_grants,
    revoke_grant,
)
from turngraph.tools import tool_policy

ANN, BOB = calls(("send", {"to": "ann"})), calls(("send", {"to": "bob"}))


def always(scope: str) -> Command[Any]:
    return Command(resume={"decisions": [{"type": "always", "scope": scope}]})


def test_scope_call_covers_these_arguments_only_and_scope_tool_the_tool() -> None:
    effects = Effects()
    graph, _ = scripted([ANN, ANN, BOB, ANN, BOB, "Done."], effects.tools())
    run(graph, "go", thread())
    output, _ = run(graph, always("call"), thread())
    assert effects == ["send ann", "send ann"]
    assert pause_of(output)["action_requests"][0]["args"] == {"to": "bob"}
    [grant] = list_grants(graph, "t1")
    assert (grant["tool"], grant["scope"]) == ("send", "call")
    assert len(grant["digest"]) == 64
    output, _ = run(graph, always("tool"), thread())
    assert effects == ["send ann", "send ann", "send bob", "send ann", "send bob"]
    assert {each["scope"] for each in list_grants(graph, "t1")} == {"call", "tool"}
    check_turn(output)
    assert list_grants(graph, "another") == []


def test_a_grant_holds_in_later_turns_not_on_other_threads_and_not_under_ask_all() -> None:
    effects = Effects()
    graph, _ = scripted([ANN, "Done.", ANN, "Done.", ANN, ANN], effects.tools())
    run(graph, "go", thread())
    run(graph, always("tool"), thread())
    assert "__interrupt__" not in run(graph, "again", thread())[0]
    assert effects == ["send ann", "send ann"]
    assert pause_of(run(graph, "go", thread("other"))[0])
    assert pause_of(run(graph, "go", thread(), context=TurnSettings(permission_mode="ask_all"))[0])


def test_a_revoked_grant_asks_again() -> None:
    effects = Effects()
    graph, _ = scripted([ANN, "Done.", ANN, "Done."], effects.tools())
    run(graph, "go", thread())
    run(graph, always("tool"), thread())
    [grant] = list_grants(graph, "t1")
    revoke_grant(graph, "t1", grant["id"])
    assert list_grants(graph, "t1") == []
    with pytest.raises(InputError, match="No standing grant"):
        revoke_grant(graph, "t1", grant["id"])
    assert pause_of(run(graph, "again", thread())[0])
    run(graph, always("tool"), thread())
    assert [each["id"] for each in list_grants(graph, "t1")] == [grant["id"]]


def test_revoking_on_a_paused_thread_keeps_the_pause() -> None:
    effects = Effects()
    batch = calls(("note", {"text": "side"}), ("send", {"to": "bob"}), ("send", {"to": "eve"}))
    graph, model = scripted([ANN, batch, "Done."], effects.tools())
    run(graph, "go", thread())
    output, _ = run(graph, always("call"), thread())
    first, second = (request["call_id"] for request in pause_of(output)["turngraph"]["requests"])
    [grant] = list_grants(graph, "t1")
    revoke_grant(graph, "t1", grant["id"])
    assert list_grants(graph, "t1") == []
    [pause] = [each for task in graph.get_state(thread()).tasks for each in task.interrupts]
    assert pause.value == pause_of(output)
    run(graph, Command(resume={"decisions": {second: YES}}), thread())
    output, _ = run(graph, Command(resume={"decisions": {first: YES}}), thread())
    assert effects == ["send ann", "note side", "send bob", "send eve"]
    model.assert_strict()
    check_turn(output)


@pytest.mark.parametrize("saver", [AsyncSqliteSaver, SqliteSaver, InMemorySaver])
async def test_from_an_event_loop_with_any_saver(tmp_path: Path, saver: Any) -> None:
    effects = Effects()
    path = str(tmp_path / "t.sqlite")

    async def scenario(opened: Any) -> None:
        graph, _ = scripted([ANN, BOB, "Done."], effects.tools(), checkpointer=opened)
        if saver is SqliteSaver:
            await asyncio.to_thread(run, graph, "go", thread())
            await asyncio.to_thread(run, graph, always("call"), thread())
        else:
            await graph.ainvoke({"messages": [("user", "go")]}, thread())
            await graph.ainvoke(always("call"), thread())
        [grant] = await alist_grants(graph, "t1")
        await arevoke_grant(graph, "t1", grant["id"])
        assert await alist_grants(graph, "t1") == []
        state = await asyncio.to_thread(graph.get_state, thread())
        assert [each.value["action_requests"][0]["args"] for task in state.tasks for each in task.interrupts] == [
            {"to": "bob"}
        ]

    if saver is AsyncSqliteSaver:
        async with AsyncSqliteSaver.from_conn_string(path) as opened:
            await scenario(opened)
    elif saver is SqliteSaver:
        with SqliteSaver.from_conn_string(path) as opened:
            await scenario(opened)
    else:
        await scenario(InMemorySaver())


def test_revoking_while_a_turn_runs_is_a_conflict() -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> str:
        """Work."""
        inside.set()
        leave.wait(10)
        return "worked"

    effects = Effects()
    graph, _ = scripted([ANN, "Done.", calls(("work", {})), "Done."], [tool_policy(work), *effects.tools()])
    run(graph, "go", thread())
    run(graph, always("tool"), thread())
    [grant] = list_grants(graph, "t1")
    runner = threading.Thread(target=run, args=(graph, "work", thread()))
    runner.start()
    assert inside.wait(10)
    with pytest.raises(TurnConflict):
        revoke_grant(graph, "t1", grant["id"])
    leave.set()
    runner.join(10)
    revoke_grant(graph, "t1", grant["id"])
    assert list_grants(graph, "t1") == []


def test_a_denial_is_understood_and_never_retried_for_ever() -> None:
    """A stubborn model that asks for the denied call in every round is stopped by the guard, and answers."""
    effects = Effects()

    def stubborn(messages: list[Any]) -> Any:
        return ANN

    graph, model = scripted(stubborn, effects.tools())
    output, _ = run(graph, "go", thread(), context={"permissions": {"send": "deny"}})
    assert effects == []
    assert output["receipt"]["stop_reason"] == "no_progress"
    assert output["receipt"]["rounds"] == 4
    assert all("Do not call it again" in text for text in model.results)
    check_turn(output)


def test_a_call_that_was_rejected_again_and_again_ends_the_turn() -> None:
    effects = Effects()
    graph, _ = scripted(lambda _: ANN, effects.tools())
    output, _ = run(graph, "go", thread())
    asked = 0
    while "__interrupt__" in output:
        asked += 1
        reject = {"type": "reject", "message": "no"}
        output, _ = run(graph, Command(resume={"decisions": [reject]}), thread())
    assert asked == 4
    assert effects == []
    assert output["receipt"]["stop_reason"] == "no_progress"
    check_turn(output)
