"""Closing calls: exactly one result each, in call order, whatever was settled before."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from turngraph.nodes.closing import close_calls, finishing_text, gathered, open_message, outcome, tool_message


def assistant(ids: list[str], turn: str = "t", role: str = "narration", text: str = "") -> AIMessage:
    calls: list[Any] = [{"id": i, "name": "f", "args": {}} for i in ids]
    marks = {"turn_id": turn, "round": 1, "role": role}
    return AIMessage(
        text, id=f"ai-{turn}-{'-'.join(ids) or text}", tool_calls=calls, additional_kwargs={"turngraph": marks}
    )


def result(call_id: str, turn: str = "t", status: Any = "ok") -> ToolMessage:
    return tool_message(outcome({"id": call_id, "name": "f"}, status, f"result {call_id}"), turn, 1)


@given(
    sizes=st.lists(st.integers(1, 4), max_size=4),
    answered=st.sets(st.integers(0, 15)),
    settled=st.sets(st.integers(0, 15)),
)
def test_after_closing_every_call_has_one_result_in_call_order(
    sizes: list[int], answered: set[int], settled: set[int]
) -> None:
    tape: list[Any] = [HumanMessage("q", id="q")]
    number = 0
    for size in sizes:
        batch = [number + at for at in range(size)]
        number += size
        tape.append(assistant([f"c{n}" for n in batch]))
        tape.extend(result(f"c{n}") for n in batch if n in answered)
    known = {f"c{n}": outcome({"id": f"c{n}", "name": "f"}, "ok", "settled") for n in settled}
    closed = close_calls(tape, "t", known, ("cancelled", "not run"))
    ids = [m.tool_call_id for m in closed]
    assert ids == [f"c{n}" for n in range(number) if n not in answered]
    assert all((m.text == "settled") == (m.tool_call_id in known) for m in closed)
    assert close_calls([*tape, *closed], "t", known, ("cancelled", "x")) == []
    assert open_message([*tape, *closed], "t") is None


def test_calls_of_other_turns_are_left_alone() -> None:
    tape = [assistant(["a"], "old"), assistant(["b"], "new")]
    assert [m.tool_call_id for m in close_calls(tape, "new", {}, ("cancelled", ""))] == ["b"]


def test_writing_a_result_twice_has_the_same_id() -> None:
    assert result("c").id == result("c").id
    assert result("c").id != result("d").id
    assert result("c").id != result("c", "other").id


def test_what_was_gathered_is_only_what_succeeded_in_this_turn() -> None:
    tape = [assistant(["a", "b"]), result("a"), result("b", status="error"), result("x", "other")]
    assert gathered(tape, "t") == [("f", "result a")]


def test_the_answer_is_the_finishing_rounds_joined() -> None:
    tape = [
        assistant(["a"], text="no"),
        assistant([], role="part", text="One, "),
        assistant([], role="finish", text="two."),
    ]
    assert finishing_text(tape, "t") == "One, two."
