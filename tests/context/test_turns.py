"""Delimiting turns, and the helpers that read one."""

from hypothesis import given, settings
from langchain_core.messages import AIMessage, HumanMessage

from tests.context.tapes import anchor_lists, calls, result, says, tapes, turn_anchor, user
from turngraph.context.tape import read_tape
from turngraph.context.turns import find_turns, keys_of, last_visible_text, turn_messages


@given(tapes, anchor_lists)
@settings(max_examples=200, deadline=None)
def test_spans_are_in_order_and_every_message_has_one(tape, anchors):
    turns = find_turns(tape, keys_of(tape), anchors)
    starts = [span.start for span in turns.spans]
    assert starts == sorted(set(starts))
    assert len(turns.owner) == len(tape)
    assert all(0 <= owner < len(turns.spans) for owner in turns.owner)


@given(tapes, anchor_lists)
@settings(max_examples=200, deadline=None)
def test_each_message_is_read_once(tape, anchors):
    read = read_tape(tape, anchors)
    units = [entry.key for turn in read.turns for unit in turn.units for entry in unit.entries if entry.index >= 0]
    everything = [*units, *(entry.key for entry in read.systems), *(entry.key for entry in read.spare)]
    assert sorted(everything) == sorted(message.id for message in tape)


def test_without_anchors_each_human_message_starts_a_turn():
    tape = [
        AIMessage("hello", id="g"),
        user("u1"),
        AIMessage("a", id="a1"),
        user("u2"),
        user("u3"),
        AIMessage("b", id="a2"),
    ]
    assert find_turns(tape, keys_of(tape), []).owner == [0, 1, 1, 2, 3, 3]


def test_a_steered_message_opens_no_turn_and_history_before_the_first_anchor_is_split():
    tape = [
        user("h1"),
        AIMessage("x", id="x"),
        user("u1"),
        calls("t1", "a1", ["c1"]),
        user("steer"),
        result("t1", "c1"),
        user("u2"),
    ]
    turns = find_turns(tape, keys_of(tape), [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")])
    assert turns.owner == [0, 0, 1, 1, 1, 1, 2]


def test_a_late_result_belongs_to_the_turn_that_it_is_marked_with():
    tape = [user("u1"), calls("t1", "a1", ["c1"]), user("u2"), result("t1", "c1")]
    anchors = [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")]
    assert find_turns(tape, keys_of(tape), anchors).owner == [0, 0, 1, 0]
    assert [message.id for message in turn_messages(tape, anchors, "t1")] == ["u1", "a1", "r-c1"]
    assert [message.id for message in turn_messages(tape, anchors, "t2")] == ["u2"]
    assert turn_messages(tape, anchors, "unknown") == []


def test_a_turn_whose_first_message_is_gone_starts_at_what_is_left_of_it():
    tape = [user("u1"), says("t1", "a1", "x"), calls("t2", "a2", ["c1"]), result("t2", "c1")]
    anchors = [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")]
    assert find_turns(tape, keys_of(tape), anchors).owner == [0, 0, 1, 1]


def test_a_turn_that_is_answered_again_is_one_turn_with_the_newer_anchor():
    anchors = [turn_anchor("t1", "u1", seed="old"), turn_anchor("t2", "u1", seed="new")]
    turns = find_turns([user("u1")], ["u1"], anchors)
    assert [(span.ids, span.anchor["seed"]) for span in turns.spans] == [({"t1", "t2"}, "new")]


def test_last_visible_text_is_of_this_turn_and_not_blank():
    tape = [
        says("t1", "a0", "earlier turn"),
        HumanMessage("q", id="u"),
        calls("t2", "a1", ["c1"], text="Looking into it."),
        result("t2", "c1"),
        says("t2", "a2", " \n", role="empty"),
    ]
    assert last_visible_text(tape, "t2") == "Looking into it."
    assert last_visible_text(tape, "t1") == "earlier turn"
    assert last_visible_text(tape, "t3") == ""
