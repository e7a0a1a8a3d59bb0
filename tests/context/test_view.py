"""Order, notes, seeds, reasoning, folds and growth of the view."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_openai.chat_models.base import _convert_message_to_dict

from tests.context.tapes import SMALL, calls, long_thread, result, says, texts_of, turn_anchor, user
from tests.support.strict import assert_valid_history
from turngraph.context import count_tokens, view
from turngraph.state.anchors import Anchor, NoteAnchor
from turngraph.state.settings import ModelProfile, TurnSettings

S = TurnSettings(system_prompt="Base.")


def note(turn_id: str, after: str, text: str, key: str = "n1") -> NoteAnchor:
    return {"id": key, "kind": "note", "turn_id": turn_id, "after_message_id": after, "text": text}


def test_order_is_system_summary_turns_running_turn():
    tape = [
        user("u1", "old"),
        says("t1", "a1", "old answer"),
        user("u2", "mid"),
        says("t2", "a2", "mid answer"),
        user("u3", "now"),
    ]
    anchors: list[Anchor] = [
        turn_anchor("t1", "u1"),
        turn_anchor("t2", "u2"),
        turn_anchor("t3", "u3"),
        {"id": "s1", "kind": "summary", "before_message_id": "u2", "text": "They said old.", "why": "compact_at"},
    ]
    seen = view(tape, anchors, S, blocks=("Block one.", "Block two."))
    assert seen.messages[0] == SystemMessage("Base.\n\nBlock one.\n\nBlock two.", id=seen.messages[0].id)
    assert "They said old." in seen.messages[1].text
    assert "Background only" in seen.messages[1].text
    assert texts_of(seen.messages[2:]) == ["mid", "mid answer", "now"]
    assert seen.report["excluded"] == [{"id": "u1", "reason": "summarized"}, {"id": "a1", "reason": "summarized"}]
    assert set(seen.report["segments"]) == {"system", "tools", "summary", "history", "turn", "notes"}
    assert all(seen.report["segments"][name] > 0 for name in ("system", "summary", "history", "turn"))


def test_the_newest_summary_holds():
    tape = [user("u1", "one"), says("t1", "a1", "x"), user("u2", "two"), says("t2", "a2", "y"), user("u3", "now")]
    anchors: list[Anchor] = [turn_anchor(f"t{n}", f"u{n}") for n in (1, 2, 3)]
    for key, before, text in (("s1", "u2", "first summary"), ("s2", "u3", "second summary")):
        anchors.append({"id": key, "kind": "summary", "before_message_id": before, "text": text, "why": ""})
    text = "\n".join(texts_of(view(tape, anchors, S).messages))
    assert "second summary" in text
    assert "first summary" not in text
    assert "two" not in text


def test_results_stand_after_their_call_in_call_order_though_a_newer_question_came_first():
    tape = [
        user("u1"),
        calls("t1", "a1", ["c1", "c2"]),
        user("u2", "never mind"),
        result("t1", "c2", "two"),
        result("t1", "c1", "one"),
    ]
    seen = view(tape, [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")], S)
    assert texts_of(seen.messages[1:]) == ["a question", "", "one", "two", "never mind"]
    assert seen.report["segments"]["turn"] == count_tokens([seen.messages[-1]])


def test_a_call_id_that_two_turns_use_pairs_within_each_turn():
    tape = [
        user("u1"), calls("t1", "a1", ["c1"]), user("u2"), calls("t2", "a2", ["c1"]),
        ToolMessage("second", id="r2", tool_call_id="c1", additional_kwargs={"turngraph": {"turn_id": "t2"}}),
        ToolMessage("first", id="r1", tool_call_id="c1", additional_kwargs={"turngraph": {"turn_id": "t1"}}),
    ]  # fmt: skip
    seen = view(tape, [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")], S)
    assert texts_of(seen.messages[1:]) == ["a question", "", "first", "a question", "", "second"]
    assert_valid_history(seen.messages)


def test_notes_show_at_their_place_in_the_running_turn_only():
    tape = [
        user("u1"),
        calls("t1", "a1", ["c1"]),
        result("t1", "c1"),
        says("t1", "a2", "", raw_text="<think>hm</think>", role="empty"),
    ]
    anchors: list[Anchor] = [
        turn_anchor("t1", "u1"),
        note("t1", "a2", "Call a tool or answer."),
        note("t1", "r-c1", "Settle.", "n0"),
    ]
    seen = view(tape, anchors, S)
    shown = texts_of(seen.messages)
    assert "Settle." in shown[4]
    assert shown[5] == "<think>hm</think>"
    assert "Call a tool or answer." in shown[6]
    assert all(isinstance(seen.messages[at], HumanMessage) and "not from the user" in shown[at] for at in (4, 6))
    assert seen.report["segments"]["notes"] > 0
    later = view([*tape, user("u2", "next")], [*anchors, turn_anchor("t2", "u2")], S)
    assert not any("Settle." in text or "Call a tool" in text for text in texts_of(later.messages))
    assert later.report["segments"]["notes"] == 0


def test_a_note_never_parts_a_call_from_its_results():
    tape = [user("u1"), calls("t1", "a1", ["c1", "c2"]), result("t1", "c1"), result("t1", "c2")]
    for after in ("a1", "r-c1", "r-c2"):
        seen = view(tape, [turn_anchor("t1", "u1"), note("t1", after, "Hurry.")], S)
        assert "Hurry." in seen.messages[-1].text
        assert_valid_history(seen.messages)


def test_a_note_whose_message_is_gone_or_belongs_to_another_turn_still_shows():
    tape = [user("u1"), calls("t1", "a1", ["c1"]), user("u2", "now"), result("t1", "c1")]
    anchors: list[Anchor] = [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")]
    for after in ("gone", "r-c1"):
        assert "Hurry." in view(tape, [*anchors, note("t2", after, "Hurry.")], S).messages[-1].text


def test_a_seed_rides_in_its_turns_first_user_message_for_ever():
    tape = [
        user("u1", "first"),
        says("t1", "a1", "answer"),
        HumanMessage([{"type": "text", "text": "second"}], id="u2"),
    ]
    anchors: list[Anchor] = [
        turn_anchor("t1", "u1", seed="It is Monday."),
        turn_anchor("t2", "u2", seed="It is Tuesday."),
    ]
    seen = view(tape, anchors, S)
    assert seen.messages[1].text.startswith("first\n\n[Context gathered for this message]\nIt is Monday.")
    assert "It is Tuesday." in seen.messages[3].text
    assert "Tuesday" not in seen.messages[0].text
    assert tape[0].text == "first"


@pytest.mark.parametrize(
    ("back", "expected"), [(None, "<think>t</think>seen"), (True, "<think>t</think>seen"), (False, "seen")]
)
def test_raw_text_goes_back_unless_the_profile_says_no(back, expected):
    tape = [user("u1"), says("t1", "a1", "seen", raw_text="<think>t</think>seen"), user("u2")]
    seen = view(tape, [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")], S, profile=ModelProfile(reasoning_back=back))
    assert seen.messages[2].content == expected
    assert "raw_text" not in seen.messages[2].additional_kwargs


@pytest.mark.parametrize("back", [None, True, False])
def test_reasoning_is_sent_and_counted_only_where_the_profile_wants_it(back):
    tape = [user("u1"), says("t1", "a1", "seen", reasoning_content="thought " * 50), user("u2")]
    profile = ModelProfile(reasoning_back=back)
    seen = view(tape, [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")], S, profile=profile)
    assert ("reasoning_content" in seen.messages[2].additional_kwargs) is (back is True)
    plain = view(
        [user("u1"), says("t1", "a1", "seen"), user("u2")], [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")], S
    )
    grown = seen.report["used"] - plain.report["used"]
    assert grown >= 50 if back else grown == 0
    assert "reasoning_content" in tape[1].additional_kwargs


def test_an_empty_assistant_message_leaves_and_is_reported():
    tape = [user("u1"), says("t1", "a1", "  "), user("u2")]
    seen = view(tape, [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")], S)
    assert len(seen.messages) == 3
    assert seen.report["excluded"] == [{"id": "a1", "reason": "empty"}]


def test_system_messages_of_the_tape_join_the_one_in_front_once():
    tape = [
        SystemMessage("Rules.", id="s1"),
        user("u1"),
        says("t1", "a1", "x"),
        SystemMessage("Rules.", id="s2"),
        SystemMessage("More.", id="s3"),
        user("u2"),
    ]
    seen = view(tape, [], S)
    assert seen.messages[0].text == "Base.\n\nRules.\n\nMore."
    assert_valid_history(seen.messages)
    assert {"s1", "s2", "s3"} <= set(seen.included)


def grow(rounds: int) -> tuple[list[Any], list[Any]]:
    """A thread of one closed turn and a running one of some rounds, its anchors beside it."""
    tape: list[Any] = [user("u1"), says("t1", "a1", "answer"), user("u2", "work")]
    anchors: list[Any] = [turn_anchor("t1", "u1", seed="old seed"), turn_anchor("t2", "u2", seed="seed")]
    for number in range(rounds):
        key = f"c{number}"
        tape += [
            calls("t2", f"w{number}", [key, f"{key}b"], text="hm"),
            result("t2", key, "data " * 30),
            result("t2", f"{key}b"),
        ]
        if number == 2:
            anchors.append(note("t2", tape[-1].id, "Settle."))
    return tape, anchors


@pytest.mark.parametrize(
    "profile", [ModelProfile(), ModelProfile(reasoning_back=True), ModelProfile(string_tool_content=False)]
)
def test_each_request_of_a_turn_begins_with_the_one_before(profile):
    before: list[Any] = []
    for rounds in range(12):
        tape, anchors = grow(rounds)
        seen = view(tape, anchors, S, profile=profile)
        assert not seen.new_anchors
        assert seen.messages[: len(before)] == before
        assert len(seen.messages) > len(before)
        before = seen.messages


def test_under_pressure_requests_extend_each_other_but_for_few_cuts():
    settings = TurnSettings(context_window=3_000, max_output_tokens=200)
    tape, anchors, before, breaks = [user("u0")], [turn_anchor("t0", "u0")], [], 0
    for turn in range(60):
        seen = view(tape, anchors, settings)
        anchors = [*anchors, *seen.new_anchors]
        if seen.messages[: len(before)] != before:
            breaks += 1
            assert seen.new_anchors, "the prefix changed without a cut"
        assert seen.report["used"] + seen.report["reserved"] <= seen.report["window"]
        before = seen.messages
        tape = [*tape, says(f"t{turn}", f"a{turn}", "words " * 60), user(f"u{turn + 1}", f"question {turn}")]
        anchors = [*anchors, turn_anchor(f"t{turn + 1}", f"u{turn + 1}")]
    assert 1 <= breaks <= 8


def test_tools_are_counted_and_take_room():
    schema = {
        "type": "function",
        "function": {"name": "f", "description": "d " * 100, "parameters": {"type": "object"}},
    }
    bare, with_tools = view([user("u1")], [], S), view([user("u1")], [], S, [schema])
    assert with_tools.report["segments"]["tools"] > 100
    assert with_tools.report["used"] == count_tokens(with_tools.messages, [schema])
    assert bare.report["free"] - with_tools.report["free"] == with_tools.report["segments"]["tools"]
    assert bare.messages == with_tools.messages


def test_calibration_scales_the_report_and_the_room():
    messages, anchors = long_thread(12)
    settings = TurnSettings(context_window=2_000, max_output_tokens=200)
    plain, doubled = (view(messages, anchors, settings, calibration=factor) for factor in (1.0, 2.0))
    assert plain.new_anchors == []
    assert doubled.new_anchors
    assert doubled.report["used"] <= doubled.report["window"] - doubled.report["reserved"]
    assert doubled.report["used"] >= 2 * count_tokens(doubled.messages)


def test_an_empty_tape_and_an_assistant_at_the_end_still_make_a_request():
    assert_valid_history(view([], [], S).messages)
    seen = view([user("u1"), says("t1", "a1", "half", role="partial")], [turn_anchor("t1", "u1")], S)
    assert_valid_history(seen.messages)
    assert texts_of(seen.messages[1:]) == ["a question", "half", "Continue."]


def test_removed_messages_leave_the_anchors_working():
    messages, anchors = long_thread(6, 2)
    settings = TurnSettings(context_window=700, max_output_tokens=100)
    cut = view(messages, anchors, settings)
    anchors = [*anchors, *cut.new_anchors]
    for gone in [message.id for message in messages]:
        kept = [message for message in messages if message.id != gone]
        seen = view(kept, anchors, settings)
        assert_valid_history(seen.messages)
        assert not any("question 0" in text for text in texts_of(seen.messages)), f"the trim was lost with {gone}"


def test_a_trim_survives_the_removal_of_the_message_that_it_names():
    messages, anchors = long_thread(6)
    trim: Anchor = {"id": "x", "kind": "trim", "before_message_id": "u3", "why": ""}
    kept = [message for message in messages if message.id != "u3"]
    shown = "\n".join(texts_of(view(kept, [*anchors, trim], S).messages))
    assert "answer 2" not in shown
    assert "answer 3" in shown


def test_what_goes_over_the_wire_is_valid_too():
    messages, anchors = long_thread(4, 2)
    broken = AIMessage(
        "",
        id="bad",
        invalid_tool_calls=[{"name": "f", "args": "{", "id": "x", "error": None, "type": "invalid_tool_call"}],
        additional_kwargs={
            "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": "{"}}]
        },
    )
    tape = [*messages, user("u"), broken, ToolMessage("bad arguments", id="r", tool_call_id="x")]
    seen = view(tape, [*anchors, turn_anchor("t", "u")], SMALL)
    assert_valid_history([_convert_message_to_dict(message) for message in seen.messages])
    assert {"id": "bad", "reason": "empty"} in seen.report["excluded"]


def test_no_anchor_drops_the_running_turn():
    tape = [user("u1"), says("t1", "a1", "x"), user("u2", "now"), calls("t2", "a2", ["c1"]), result("t2", "c1")]
    anchors: list[Anchor] = [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")]
    for kind in ("trim", "summary"):
        late: Any = {"id": "x", "kind": kind, "before_message_id": "r-c1", "text": "S", "why": ""}
        assert "now" in texts_of(view(tape, [*anchors, late], S).messages)
