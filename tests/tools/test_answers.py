"""Resume values: every shape has a meaning or is refused with what would be right; nothing else is ever raised."""

import json
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from turngraph.state.calls import Call
from turngraph.state.decisions import PausePayload
from turngraph.state.errors import ResumeError
from turngraph.tools.answers import normalise_resume
from turngraph.tools.applied import EndTurn, RunCall, SettleCall, apply_decision
from turngraph.tools.ask import parse_questions
from turngraph.tools.pause import build_payload
from turngraph.tools.permission import digest
from turngraph.tools.plan import Wait

COLOUR = {"question": "Which colour?", "id": "colour", "options": ["Red", "Blue"]}
SIZE = {"question": "Which sizes?", "id": "size", "multiple": True}


def send(at: int = 0) -> Wait:
    call: Call = {"id": f"s{at}", "name": "send", "args": {"to": at}}
    return Wait(call, "permission", digest(call["name"], call["args"]))


def ask(*questions: Any, at: int = 0) -> Wait:
    call: Call = {"id": f"a{at}", "name": "ask_user", "args": {"questions": list(questions or [COLOUR])}}
    parsed = parse_questions(call["args"])
    assert isinstance(parsed, list)
    return Wait(call, "ask_user", digest(call["name"], call["args"]), questions=tuple(parsed))


def payload(*waits: Wait) -> PausePayload:
    return build_payload("turn-1", waits)


def read(value: Any, *waits: Wait, **options: Any) -> dict[str, Any]:
    """The decisions without their digests, which are checked here."""
    pause = payload(*waits)
    decisions: dict[str, Any] = dict(normalise_resume(value, pause, **options))
    digests = {request["call_id"]: request["digest"] for request in pause["turngraph"]["requests"]}
    for call_id, decision in decisions.items():
        assert decision["digest"] == digests[call_id]
        assert json.loads(json.dumps(decision)) == decision
    return {key: {k: v for k, v in value.items() if k != "digest"} for key, value in decisions.items()}


EDIT = {"type": "edit", "edited_action": {"name": "send", "args": {"to": "bob"}}}
SAID_NOTHING = {"type": "reject", "message": "The user gave no answer."}


@pytest.mark.parametrize(
    ("value", "decision"),
    [
        ({"decisions": [{"type": "approve"}]}, {"type": "approve"}),
        ({"decisions": {"s0": {"type": "approve"}}}, {"type": "approve"}),
        ({"decisions": {"type": "approve"}}, {"type": "approve"}),
        ([{"type": "approve"}], {"type": "approve"}),
        ([{"decisions": [{"type": "approve"}]}], {"type": "approve"}),
        ('{"decisions": [{"type": "approve"}]}', {"type": "approve"}),
        ('{"type": "approve"}', {"type": "approve"}),
        ({"type": "accept", "args": None}, {"type": "approve"}),
        ([{"type": "accept"}], {"type": "approve"}),
        (("approve",), {"type": "approve"}),
        ("Yes.", {"type": "approve"}),
        (True, {"type": "approve"}),
        (EDIT, EDIT),
        ({"type": "edit", "args": {"action": "send", "args": {"to": "bob"}}}, EDIT),
        ({"type": "edit", "edited_action": {"name": "send", "args": '{"to": "bob"}'}}, EDIT),
        ({"type": "edit", "edited_action": {"args": {"to": "bob"}}}, EDIT),
        ({"type": "reject", "message": "no"}, {"type": "reject", "message": "no"}),
        ({"type": "reject"}, {"type": "reject", "message": ""}),
        ({"type": "reject", "message": None}, {"type": "reject", "message": ""}),
        ({"type": "ignore"}, {"type": "reject", "message": ""}),
        (False, {"type": "reject", "message": ""}),
        ("no", {"type": "reject", "message": ""}),
        ("ask bob first", {"type": "reject", "message": "ask bob first"}),
        ("", SAID_NOTHING),
        ("  \n", SAID_NOTHING),
        (None, SAID_NOTHING),
        ([None], SAID_NOTHING),
        ({"type": "always", "scope": "tool"}, {"type": "always", "scope": "tool"}),
        ({"type": "respond", "message": "done"}, {"type": "respond", "message": "done"}),
        ({"type": "response", "args": "done"}, {"type": "respond", "message": "done"}),
        ({"type": "abandon"}, {"type": "abandon"}),
        ([HumanMessage("approve")], {"type": "approve"}),
        ([{"role": "user", "content": "not yet"}], {"type": "reject", "message": "not yet"}),
    ],
)
def test_one_call_that_asks_for_permission(value: Any, decision: Any) -> None:
    assert read(value, send()) == {"s0": decision}


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        7,
        1.5,
        b"yes",
        object(),
        {"decisions": []},
        {"decisions": {}},
        {"decisions": None},
        {"decisions": "approve"},
        {"decisions": [{"type": "approve"}, {"type": "approve"}]},
        {"decisions": {"nope": {"type": "approve"}}},
        {"decisions": [{"type": "fly"}]},
        {"decisions": [{}]},
        {"type": "fly"},
        {"type": ["approve"]},
        {"type": "always"},
        {"type": "always", "scope": "everything"},
        {"type": "edit"},
        {"type": "edit", "edited_action": {"name": "send"}},
        {"type": "edit", "edited_action": {"name": "send", "args": [1]}},
        {"type": "edit", "edited_action": {"name": "send", "args": "to bob"}},
        {"type": "edit", "edited_action": {"name": "", "args": {}}},
        {"type": "edit", "edited_action": {"name": "ask_user", "args": {}}},
        {"type": "edit", "edited_action": {"name": "send", "args": {"f": object()}}},
        {"type": "respond", "answers": {"x": "y"}},
        {"type": "respond", "message": {"text": "x"}},
        {"type": "approve", "call_id": "s9"},
        {"type": "approve", "digest": "stale"},
        {"decisions": [{"type": "approve"}], "turn_id": "turn-0"},
        {"answer": "yes"},
        {"f" * 32: "yes"},
        float("nan"),
        ["yes", "no"],
    ],
)
def test_what_is_not_certain_is_refused_with_what_would_be_right(value: Any) -> None:
    with pytest.raises(ResumeError, match=r"decisions.*s0 \(send\)"):
        read(value, send())


def test_several_calls_at_once_in_order_or_by_id() -> None:
    both = [{"type": "approve"}, {"type": "reject", "message": "no"}]
    assert read({"decisions": both}, send(0), send(1)) == {"s0": both[0], "s1": both[1]}
    assert read(both, send(0), send(1)) == {"s0": both[0], "s1": both[1]}
    assert read({"decisions": {"s1": both[1]}}, send(0), send(1)) == {"s1": both[1]}
    assert list(read({"decisions": {"s1": both[1], "s0": both[0]}}, send(0), send(1))) == ["s1", "s0"]


@pytest.mark.parametrize(
    "value",
    ["yes", "", None, True, 7, [], {}, {"type": "approve"}, {"decisions": [{"type": "approve"}]}, ["yes", "yes"]],
)
def test_a_plain_answer_to_several_calls_is_refused(value: Any) -> None:
    with pytest.raises(ResumeError, match=r"s0 \(send\), s1 \(send\)"):
        read(value, send(0), send(1))


def test_one_wrong_decision_among_several_applies_none() -> None:
    with pytest.raises(ResumeError, match="s1"):
        read({"decisions": [{"type": "approve"}, {"type": "fly"}]}, send(0), send(1))


def test_abandon_answers_everything() -> None:
    assert read({"type": "abandon"}, send(0), ask()) == {"s0": {"type": "abandon"}, "a0": {"type": "abandon"}}


def test_an_edit_may_only_name_a_tool_that_is_offered() -> None:
    assert read(EDIT, send(), tools=["send", "read"]) == {"s0": EDIT}
    with pytest.raises(ResumeError, match="'send'; there are read"):
        read(EDIT, send(), tools=["read"])


def answered(text: str) -> dict[str, Any]:
    return {"type": "respond", "answers": {"colour": text}}


@pytest.mark.parametrize(
    ("value", "decision"),
    [
        ({"decisions": [answered("Red")]}, answered("Red")),
        ({"decisions": [{"type": "respond", "message": "red"}]}, answered("Red")),
        ({"decisions": {"a0": "red"}}, answered("Red")),
        ({"answers": {"colour": "Green"}}, answered("Green")),
        ({"colour": "Green"}, answered("Green")),
        ({"type": "response", "args": "Green"}, answered("Green")),
        ("red", answered("Red")),
        (["red"], answered("Red")),
        ([["red"]], answered("Red")),
        ({"answer": "red"}, answered("Red")),
        ({"answer": ""}, answered("")),
        ({"a": 1}, answered('{"a": 1}')),
        ('{"a":1}', answered('{"a":1}')),
        ('{"answer": "x"', answered('{"answer": "x"')),
        ("", answered("")),
        ("   ", answered("   ")),
        (None, answered("")),
        (7, answered("7")),
        (False, answered("false")),
        ([HumanMessage("Red")], answered("Red")),
        ([AIMessage("Which?"), HumanMessage([{"type": "text", "text": "a"}, "b"])], answered("a\nb")),
        ([HumanMessage("blue"), AIMessage("thanks")], answered("Blue")),
        ([{"type": "human", "content": "blue"}], answered("Blue")),
        (HumanMessage("blue"), answered("Blue")),
        ({"type": "respond"}, answered("")),
        ({"type": "respond", "answers": {}}, answered("")),
        ({"type": "reject", "message": "private"}, {"type": "reject", "message": "private"}),
        ({"type": "ignore"}, {"type": "reject", "message": ""}),
    ],
)  # fmt: skip
def test_one_question(value: Any, decision: Any) -> None:
    assert read(value, ask()) == {"a0": decision}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"answers": {"nope": "x"}}, "no question 'nope'"),
        ({"type": "respond", "answers": {"nope": "x"}}, "no question 'nope'"),
        ({"colour": "x", "nope": "y"}, "no question 'nope'"),
        ({"type": "respond", "answers": "red"}, "by question id"),
        ({"type": "approve"}, "answered by"),
        ({"type": "always", "scope": "tool"}, "answered by"),
        (["red", "blue"], "only one answer"),
        ({"answers": {"colour": ["red", "blue"]}}, "only one answer"),
        ({"answers": {"colour": {"x": 1}}}, "is a text"),
        ([], "empty"),
        ({}, "empty"),
    ],
)
def test_an_answer_that_fits_no_question_is_refused(value: Any, says: str) -> None:
    with pytest.raises(ResumeError, match=says):
        read(value, ask())


def test_options_bind_where_free_text_is_off() -> None:
    closed = {**COLOUR, "free_text": False}
    assert read("BLUE", ask(closed)) == {"a0": answered("Blue")}
    assert read("", ask(closed)) == {"a0": answered("")}
    with pytest.raises(ResumeError, match="'green' is not among the options 'Red', 'Blue'"):
        read("green", ask(closed))


def test_several_questions_of_one_call() -> None:
    both = {"type": "respond", "answers": {"colour": "Red", "size": ["S", "L"]}}
    assert read({"colour": "Red", "size": ["S", "L"]}, ask(COLOUR, SIZE)) == {"a0": both}
    assert read(["Red", "S"], ask(COLOUR, SIZE)) == {
        "a0": {"type": "respond", "answers": {"colour": "Red", "size": ["S"]}}
    }
    assert read("both, please", ask(COLOUR, SIZE)) == {"a0": {"type": "respond", "message": "both, please"}}
    assert read({"size": "S"}, ask(COLOUR, SIZE)) == {
        "a0": {"type": "respond", "answers": {"colour": "", "size": ["S"]}}
    }
    with pytest.raises(ResumeError, match="3 entries for 2 questions"):
        read(["a", "b", "c"], ask(COLOUR, SIZE))
    with pytest.raises(ResumeError, match="colour, size"):
        read({"a": 1}, ask(COLOUR, SIZE))


def test_a_question_may_have_any_id() -> None:
    for name in ("answer", "digest", "message", "call_id", "text"):
        questions = [{"question": "A?", "id": name}, {"question": "B?", "id": "other"}]
        assert read({name: "x"}, ask(*questions))["a0"]["answers"] == {name: "x", "other": ""}


def test_what_a_person_typed_can_be_stored() -> None:
    assert read("a\x00b\ud800", ask()) == {"a0": answered("ab\ufffd")}
    edited = {"type": "edit", "edited_action": {"name": "send", "args": {"to": "a\x00\ud800"}}}
    assert read(edited, send())["s0"]["edited_action"]["args"] == {"to": "a\ufffd"}


words = st.sampled_from(
    ["decisions", "type", "approve", "edit", "edited_action", "name", "args", "message", "answers", "colour",
     "s0", "a0", "respond", "reject", "always", "scope", "call", "accept", "role", "content", "human", "abandon"]
)  # fmt: skip
shapes = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words | st.text(max_size=8) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words | st.integers() | st.none(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(shapes, st.sampled_from([(send(),), (ask(),), (ask(COLOUR, SIZE),), (send(0), ask()), (send(0), send(1))]))
def test_any_shape_gives_decisions_that_can_be_applied_or_a_resume_error(value: Any, waits: tuple[Wait, ...]) -> None:
    before = repr(value)
    try:
        decisions = normalise_resume(value, payload(*waits))
    except ResumeError:
        decisions = {}
    else:
        assert decisions
    assert repr(value) == before
    for wait in waits:
        if (decision := decisions.get(wait.call["id"])) is not None:
            questions = list(wait.questions) if wait.kind == "ask_user" else None
            done = apply_decision(wait.call, decision, questions)
            assert not (questions is not None and isinstance(done, RunCall))
            assert not isinstance(done, SettleCall) or done.text.strip()


def test_a_number_that_has_no_text_is_refused() -> None:
    with pytest.raises(ResumeError, match="cannot be read"):
        read(10**5000, ask())


def test_a_list_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ResumeError):
        read(loop, send())
    with pytest.raises(ResumeError):
        read({"decisions": {"a0": {"x": loop}}}, ask())


CALL: Call = {"id": "c", "name": "send", "args": {"to": "ann"}}


def applied(decision: dict[str, Any], questions: Any = None) -> Any:
    return apply_decision(CALL, cast(Any, decision), questions)


def test_approve_and_always_run_the_call_as_it_is() -> None:
    assert applied({"type": "approve"}) == applied({"type": "always", "scope": "tool"}) == RunCall(CALL)


def test_an_edit_runs_what_was_edited_and_says_so() -> None:
    done = applied(EDIT)
    assert done.call == {"id": "c", "name": "send", "args": {"to": "bob"}}
    assert "send" in done.note
    assert "bob" in done.note


def test_reject_tells_the_reason_and_blank_is_not_an_approval() -> None:
    done = applied({"type": "reject", "message": "too early"})
    assert done.status == "denied"
    assert "too early" in done.text
    assert "not run" in applied({"type": "reject", "message": ""}).text
    assert "no answer" in applied(SAID_NOTHING).text


def test_respond_is_the_result() -> None:
    assert applied({"type": "respond", "message": "42"}) == SettleCall("ok", "42")
    assert "no answer" in applied({"type": "respond", "message": "  "}).text


def test_abandon_ends_the_turn() -> None:
    assert applied({"type": "abandon"}) == EndTurn()


def test_answers_and_the_lack_of_them_are_explicit() -> None:
    questions = parse_questions({"questions": [COLOUR, SIZE]})
    text = applied({"type": "respond", "answers": {"colour": "Red", "size": []}}, questions).text
    assert text == "Which colour?\nRed\n\nWhich sizes?\n(no answer)"
    blank = applied({"type": "respond", "answers": {"colour": " ", "size": []}}, questions)
    assert blank == SettleCall("ok", "The user gave no answer.")
    assert "declined" in applied({"type": "reject", "message": "private"}, questions).text
