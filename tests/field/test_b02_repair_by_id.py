"""B02: a turn that broke off inside its tools must not make the thread unusable, however often it is loaded."""

from itertools import permutations

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from tests.support.strict import assert_valid_history
from turngraph.context import view
from turngraph.state.settings import TurnSettings


def call(*ids: str) -> AIMessage:
    return AIMessage("", id="a" + "".join(ids), tool_calls=[{"name": "f", "args": {}, "id": each} for each in ids])


def answer(call_id: str) -> ToolMessage:
    return ToolMessage(f"result of {call_id}", id=f"r{call_id}", tool_call_id=call_id)


QUESTION, NEXT = HumanMessage("q", id="q"), HumanMessage("next", id="next")


@pytest.mark.parametrize(
    "tape",
    [
        [QUESTION, call("A", "B"), answer("B"), NEXT],
        [QUESTION, call("A"), answer("B"), NEXT],
        [QUESTION, call("A"), NEXT],
        [QUESTION, answer("A"), NEXT],
        [QUESTION, call("A", "B"), answer("B"), answer("A"), NEXT],
        [QUESTION, call("A"), answer("A"), answer("A"), NEXT],
        [QUESTION, call("A"), NEXT, answer("A")],
    ],
)
def test_history_is_repaired_by_id_and_repair_is_idempotent(tape: list[BaseMessage]):
    seen = view(tape, [], TurnSettings())
    assert_valid_history(seen.messages)
    for message in seen.messages:
        if isinstance(message, ToolMessage) and "result of" in message.text:
            assert message.text == f"result of {message.tool_call_id}"
    again = view(seen.messages, [], TurnSettings())
    assert [message.content for message in again.messages] == [message.content for message in seen.messages]
    assert again.report["excluded"] == []
    assert [message.id for message in tape if isinstance(message, HumanMessage)] == ["q", "next"]


@pytest.mark.parametrize("order", list(permutations(range(5))))
def test_no_order_on_the_tape_breaks_it(order: tuple[int, ...]):
    parts = [QUESTION, call("A", "B"), answer("A"), answer("B"), NEXT]
    tape = [parts[at] for at in order]
    seen = view(tape, [], TurnSettings())
    assert_valid_history(seen.messages)
    results = [message.text for message in seen.messages if isinstance(message, ToolMessage)]
    assert results == ["result of A", "result of B"]
