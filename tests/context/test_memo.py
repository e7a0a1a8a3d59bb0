"""What is remembered of a message is never shown for another one, and keeps no message alive."""

import gc
import weakref

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from tests.context.tapes import anchor_lists, says, tapes, user
from turngraph.context import count_tokens, view
from turngraph.context.memo import Memo
from turngraph.context.tokens import count_message
from turngraph.state.settings import ModelProfile, TurnSettings

S = TurnSettings()


class Thing:
    """Something that can be referred to weakly."""


def test_a_memo_knows_its_objects_only_and_lets_them_go():
    memo: Memo[int] = Memo()
    things = [Thing() for _ in range(50)]
    for number, thing in enumerate(things):
        assert memo.get(thing) is None
        assert memo.put(thing, number) == number
    assert [memo.get(thing) for thing in things] == list(range(50))
    del things, thing
    gc.collect()
    assert len(memo) == 0
    assert memo.put(7, 1) == 1
    assert memo.get(7) is None


@given(tapes, anchor_lists, st.sampled_from([None, True, False]), st.sampled_from([None, True]))
@settings(max_examples=150, deadline=None)
def test_a_view_from_memory_is_the_view_of_fresh_copies(tape, anchors, back, alternate):
    profile = ModelProfile(reasoning_back=back, alternate_roles=alternate)
    first = view(tape, anchors, S, profile=profile)
    again = view(list(tape), list(anchors), S, profile=profile)
    fresh = view([message.model_copy(deep=True) for message in tape], anchors, S, profile=profile)
    assert first == again == fresh
    other = view(tape, anchors, S, profile=ModelProfile(reasoning_back=False, system_messages=False))
    assert other == view(
        [m.model_copy() for m in tape], anchors, S, profile=ModelProfile(reasoning_back=False, system_messages=False)
    )
    assert view(tape, anchors, S, profile=profile) == first


@given(tapes)
@settings(max_examples=100, deadline=None)
def test_counts_from_memory_are_counts_from_scratch(tape):
    assert count_tokens(tape) == count_tokens(tape) == sum(count_message(message) for message in tape)


def test_an_edited_message_is_seen():
    tape = [user("u1"), says("t", "a1", "old"), user("u2")]
    assert "old" in str(view(tape, [], S).messages)
    edited = [tape[0], tape[1].model_copy(update={"content": "new"}), tape[2]]
    assert "new" in str(view(edited, [], S).messages)
    tape[1].content = "set in place"
    seen = view(tape, [], S)
    assert "set in place" in str(seen.messages)
    assert count_tokens([tape[1]]) == count_message(tape[1])
    tape[1].additional_kwargs = {"raw_text": "<think>t</think>raw"}
    assert "raw" in str(view(tape, [], S).messages)


def test_no_tape_is_kept_alive_for_long():
    gone = weakref.ref(tape[0]) if (tape := [HumanMessage("x", id="u1"), AIMessage("y", id="a1")]) else None
    view(tape, [], S)
    del tape
    for number in range(6):
        view([user(f"other{number}")], [], S)
    gc.collect()
    assert gone is not None
    assert gone() is None


def test_a_tool_whose_description_changes_is_counted_again():
    @tool
    def look(place: str) -> str:
        """Look."""
        return place

    before = count_tokens([], [look])
    assert count_tokens([], [look]) == before
    look.description = "Look at a place for a long time, and say what there is to see. " * 5
    assert count_tokens([], [look]) > before + 40


def test_calls_that_were_read_from_the_text_are_sent_once():
    markup = '<tool_call>{"name": "search", "arguments": {}}</tool_call>'
    call = {"name": "search", "args": {}, "id": "c1"}
    kwargs = {"raw_text": f"<think>hm</think>I search. {markup}", "calls_in_text": True}
    said = AIMessage("I search. ", id="a1", tool_calls=[call], additional_kwargs=kwargs)
    sent = view([user("u1"), said, user("u2")], [], S).messages[2]
    assert markup not in str(sent.content)
    assert sent.tool_calls
    assert sent.additional_kwargs == {}
