"""B03: a request never starts on a tool result whose call was cut away, at any size of the window."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from tests.context.tapes import long_thread
from tests.support.strict import assert_valid_history
from turngraph.context import view
from turngraph.state.settings import TurnSettings


def test_the_smallest_case():
    tape = [
        HumanMessage("first " * 120, id="h1"),
        AIMessage("", id="a1", tool_calls=[{"name": "f", "args": {}, "id": "c1"}]),
        ToolMessage("result " * 120, id="r1", tool_call_id="c1"),
        AIMessage("answer " * 120, id="a2"),
        HumanMessage("now", id="h2"),
    ]
    seen = view(tape, [], TurnSettings(context_window=512, max_output_tokens=256, protected_turns=0))
    assert_valid_history(seen.messages)
    assert [message.type for message in seen.messages] == ["system", "human"]
    assert [entry["reason"] for entry in seen.report["excluded"]] == ["out_of_budget"] * 4


@pytest.mark.parametrize("protected", [0, 1, 2, 50])
def test_every_window_gives_whole_units_and_the_question(protected: int):
    messages, anchors = long_thread(8, 3, 30)
    for window in range(512, 6_000, 97):
        settings = TurnSettings(context_window=window, max_output_tokens=64, protected_turns=protected)
        seen = view([*messages, HumanMessage("now", id="now")], anchors, settings)
        assert_valid_history(seen.messages)
        assert "now" in seen.messages[-1].text
        again = view([*messages, HumanMessage("now", id="now")], [*anchors, *seen.new_anchors], settings)
        assert (again.messages, again.new_anchors) == (seen.messages, [])
