"""B06: calls with names that no tool has are answered one by one; good siblings run and the loop goes on."""

import pytest

from tests.support.scripts import Effects, calls, scripted
from tests.support.turns import check_turn, run


@pytest.mark.parametrize("bad", [["invalid tool", ""], ["nope"], ["no\nsuch", "fetch(x)"], ["functions.fetch"]])
def test_b06_each_bad_call_gets_its_own_error(bad: list[str]) -> None:
    effects = Effects()
    batch = calls(*((name, {"url": "x"}) for name in bad), ("note", {"text": "good"}))
    graph, model = scripted([batch, "Done."], effects.tools())
    output, events = run(graph, "go", {"configurable": {"thread_id": "t"}})
    assert effects == ["note good"]
    assert model.results[-1] == "noted"
    assert len(model.results) == len(bad) + 1
    for text in model.results[:-1]:
        assert "no tool" in text or "No tool" in text
        assert "note" in text, "the valid names are listed"
    statuses = [e["status"] for e in events if e["type"] == "tool_finished"]
    assert sorted(statuses) == ["error"] * len(bad) + ["ok"]
    model.assert_strict()
    check_turn(output, events)
