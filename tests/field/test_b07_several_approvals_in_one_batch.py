"""B07: several calls of one message that ask surface together, each with its own id, and nothing runs twice."""

from itertools import permutations

import pytest
from langgraph.types import Command, interrupt

from tests.support.scripts import YES, Effects, calls, scripted
from tests.support.turns import check_turn, pause_of, run, thread
from turngraph.tools import tool_policy

BATCH = calls(("send", {"to": "a"}), ("write", {"name": "w"}), ("send", {"to": "b"}), ("note", {"text": "side"}))


def test_b07_all_surface_at_once_and_each_effect_happens_once() -> None:
    effects = Effects()
    graph, model = scripted([BATCH, "Done."], effects.tools())
    payload = pause_of(run(graph, "go", thread())[0])
    ids = [request["call_id"] for request in payload["turngraph"]["requests"]]
    assert len(set(ids)) == 2
    assert effects == ["note side"], "a write waits for an earlier call that asks"
    output, _ = run(graph, Command(resume={"decisions": [YES, YES]}), thread())
    assert effects == ["note side", "send a", "write w", "send b"]
    model.assert_strict()
    check_turn(output)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_b07_answered_one_by_one_in_any_order(order: tuple[int, ...]) -> None:
    effects = Effects()
    batch = calls(*(("send", {"to": str(n)}) for n in range(3)), ("note", {"text": "side"}))
    graph, model = scripted([batch, "Done."], effects.tools())
    output, _ = run(graph, "go", thread())
    ids = [request["call_id"] for request in pause_of(output)["turngraph"]["requests"]]
    for number in order:
        output, _ = run(graph, Command(resume={"decisions": {ids[number]: YES}}), thread())
    assert effects == ["note side", "send 0", "send 1", "send 2"]
    assert model.results == ["sent to 0", "sent to 1", "sent to 2", "noted"]
    check_turn(output)


def test_b07_interrupts_of_the_tools_themselves_keep_apart() -> None:
    ran: list[str] = []

    def confirm(what: str) -> str:
        """Confirm something, twice."""
        ran.append(f"start {what}")
        first = interrupt(f"{what}: sure?")
        second = interrupt(f"{what}: really?")
        ran.append(f"did {what}")
        return f"{what}: {first}, {second}"

    effects = Effects()
    batch = calls(("confirm", {"what": "x"}), ("note", {"text": "side"}), ("confirm", {"what": "y"}))
    graph, model = scripted([batch, "Done."], [tool_policy(confirm, effect="write"), *effects.tools()])
    output, _ = run(graph, "go", thread())
    seen = []
    while "__interrupt__" in output:
        [pause] = output["__interrupt__"]
        seen.append(pause.value)
        output, _ = run(graph, Command(resume=f"yes to {pause.value}"), thread())
    assert seen == ["x: sure?", "x: really?", "y: sure?", "y: really?"]
    assert effects == ["note side"]
    assert [each for each in ran if each.startswith("did")] == ["did x", "did y"]
    assert model.results == [
        "x: yes to x: sure?, yes to x: really?",
        "noted",
        "y: yes to y: sure?, yes to y: really?",
    ]
    model.assert_strict()
    check_turn(output)
