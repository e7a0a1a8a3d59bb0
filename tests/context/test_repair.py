"""Pairing calls and results."""

from hypothesis import given, settings
from langchain_core.messages import AIMessage, ToolMessage

from tests.context.tapes import anchor_lists, calls, result, tapes, texts_of, turn_anchor, user
from tests.support.strict import assert_valid_history
from turngraph.context import view
from turngraph.context.repair import pair_results
from turngraph.context.turns import find_turns, keys_of
from turngraph.nodes.closing import marks_of
from turngraph.state.settings import TurnSettings

S = TurnSettings()


@given(tapes, anchor_lists)
@settings(max_examples=200, deadline=None)
def test_each_result_answers_one_call_or_is_spare(tape, anchors):
    owner = find_turns(tape, keys_of(tape), anchors).owner
    pairs = pair_results(tape, owner)
    results = [at for at, message in enumerate(tape) if isinstance(message, ToolMessage)]
    assert sorted([*pairs.result_at.values(), *pairs.spare]) == results
    for (at, position), answer in pairs.result_at.items():
        assert (tape[at].tool_calls[position]["id"] or "") == tape[answer].tool_call_id
        if not marks_of(tape[answer]):
            better = [n for n in pairs.spare if marks_of(tape[n]) and owner[n] == owner[at]]
            assert tape[answer].tool_call_id not in {tape[n].tool_call_id for n in better}


def test_what_a_client_made_up_never_stands_for_the_result_of_a_call():
    """Chat clients send such results with a message that answers no pause; the true one is written after it."""
    made_up = ToolMessage("Successfully handled tool call.", id="do-not-render-1", tool_call_id="c1")
    closed = ToolMessage(
        "Not answered", id="closed", tool_call_id="c1", additional_kwargs={"turngraph": {"turn_id": "t1"}}
    )
    tape = [user("u1"), calls("t1", "a1", ["c1"]), made_up, user("u2"), closed]
    seen = view(tape, [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")], S)
    assert_valid_history(seen.messages)
    assert [message.text for message in seen.messages if isinstance(message, ToolMessage)] == ["Not answered"]
    assert {"id": "do-not-render-1", "reason": "empty"} in seen.report["excluded"]


def test_a_missing_result_says_that_the_outcome_is_unknown():
    seen = view([user("u1"), calls("t1", "a1", ["c1", "c2"]), result("t1", "c2"), user("u2")], [], S)
    assert "Whether it took effect is not known" in seen.messages[3].text
    assert seen.messages[3].status == "error"
    assert seen.messages[4].text == "a result"
    assert_valid_history(seen.messages)


def test_duplicates_and_orphans_leave_with_a_reason():
    twice = ToolMessage("again", id="dup", tool_call_id="c1", additional_kwargs={"turngraph": {"turn_id": "t1"}})
    tape = [result("t1", "lost"), user("u1"), calls("t1", "a1", ["c1"]), result("t1", "c1"), twice]
    seen = view(tape, [turn_anchor("t1", "u1")], S)
    assert_valid_history(seen.messages)
    assert seen.messages[-1].text == "a result"
    assert seen.report["excluded"] == [{"id": "r-lost", "reason": "empty"}, {"id": "dup", "reason": "empty"}]


def test_providers_that_count_their_call_ids_anew_each_round_get_unique_ones():
    tape = [user("u1")]
    for n in range(3):
        tape += [
            AIMessage(
                "",
                id=f"a{n}",
                tool_calls=[{"name": "f", "args": {}, "id": "call_0"}, {"name": "g", "args": {}, "id": "call_0"}],
            )
        ]
        tape += [
            ToolMessage(f"f{n}", id=f"f{n}", tool_call_id="call_0"),
            ToolMessage(f"g{n}", id=f"g{n}", tool_call_id="call_0"),
        ]
    seen = view(tape, [], S)
    assert_valid_history(seen.messages)
    assert [text for text in texts_of(seen.messages) if text][2:] == [
        "f0",
        "g0",
        "f1",
        "g1",
        "f2",
        "g2",
    ]
    assert seen.messages[2].tool_calls[0]["id"] == "call_0"


def test_calls_without_an_id_get_one():
    tape = [user("u1"), AIMessage("", id="a", tool_calls=[{"name": "f", "args": {}, "id": None}]), user("u2")]
    assert_valid_history(view(tape, [], S).messages)


def test_call_blocks_never_contradict_renamed_calls():
    block = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
    made = [{"name": "f", "args": {}, "id": "c1"}]
    tape = [
        user("u1"),
        AIMessage([block], id="a", tool_calls=made),
        AIMessage([{"type": "text", "text": "x"}, block], id="b", tool_calls=made),
    ]
    seen = view(tape, [], S)
    assert seen.messages[2].content == [block]
    assert seen.messages[4].content == "x"
    assert_valid_history(seen.messages)


def test_a_result_that_is_marked_never_answers_a_call_of_another_turn():
    tape = [user("u1"), calls("t1", "a1", ["c1"]), user("u2"), result("t2", "c1", "of turn two")]
    seen = view(tape, [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")], S)
    assert "of turn two" not in texts_of(seen.messages)
    assert "not answered" in seen.messages[3].text
    assert_valid_history(seen.messages)
