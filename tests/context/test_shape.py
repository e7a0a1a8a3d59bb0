"""The shape that a provider takes."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from tests.context.tapes import calls, result, says, texts_of, turn_anchor, user
from tests.support.openai_strict import Rules, refusal
from tests.support.strict import assert_valid_history
from turngraph.context import view
from turngraph.context.shape import clean, clean_json, tool_content
from turngraph.state.settings import ModelProfile, TurnSettings

S = TurnSettings(system_prompt="Base.")
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}


@pytest.mark.parametrize(("content", "expected"), [
    ("text", "text"),
    ("", "(no output)"),
    (" \n", "(no output)"),
    ([], "(no output)"),
    ([{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}], "a\nb"),
    (["a", "b"], "a\nb"),
    ([{"type": "text", "text": "see"}, IMAGE], "see\n[image_url content, not shown]"),
    ([{"type": "json", "json": {"k": 1}}], '{"type": "json", "json": {"k": 1}}'),
    ([{"rows": 3}], '{"rows": 3}'),
    ("a\x00b\udc00c", "a\ufffdb\ufffdc"),
])  # fmt: skip
def test_a_tool_message_is_one_string(content, expected):
    assert tool_content(content, ModelProfile()) == expected


def test_blocks_stay_where_the_model_takes_them():
    profile = ModelProfile(string_tool_content=False)
    assert tool_content([{"type": "text", "text": ""}, IMAGE], profile) == [IMAGE]
    assert tool_content([{"type": "text", "text": ""}], profile) == "(no output)"


def test_assistant_blocks_lose_empty_text_and_become_one_string_where_they_are_only_text():
    tape = [
        user("u1"),
        AIMessage([{"type": "text", "text": "a"}, {"type": "text", "text": ""}, "b"], id="a"),
        user("u2"),
    ]
    assert view(tape, [], S).messages[2].content == "ab"


def test_thinking_blocks_go_back_unless_the_profile_says_no():
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    tape = [
        user("u1"),
        AIMessage([thinking, {"type": "text", "text": "a"}], id="a"),
        AIMessage([thinking], id="b"),
        user("u2"),
    ]
    assert view(tape, [], S).messages[2].content == [thinking, {"type": "text", "text": "a"}]
    bare = view(tape, [], S, profile=ModelProfile(reasoning_back=False))
    assert texts_of(bare.messages[1:]) == ["a question", "a", "a question"]
    assert bare.report["excluded"] == [{"id": "b", "reason": "empty"}]


def test_empty_user_messages_are_sent_as_such():
    seen = view(
        [
            HumanMessage("", id="u1"),
            HumanMessage([{"type": "text", "text": " "}], id="u2"),
            HumanMessage([IMAGE], id="u3"),
        ],
        [],
        S,
    )
    assert [message.content for message in seen.messages[1:]] == ["(empty message)", "(empty message)", [IMAGE]]


def test_nothing_of_ours_is_sent():
    tape = [user("u1"), calls("t1", "a1", ["c1"]), result("t1", "c1"), says("t1", "a2", "x", raw_text="x"), user("u2")]
    for message in view(tape, [turn_anchor("t1", "u1")], S).messages:
        assert message.additional_kwargs == {}
    assert all("turngraph" in message.additional_kwargs for message in tape[1:4])


def test_characters_and_numbers_that_cannot_be_sent():
    assert clean("plain") == "plain"
    assert clean("é\x00\ud83d") == "é\ufffd\ufffd"
    assert clean_json({"a\x00": [float("nan"), float("inf"), 1.5, True, None, ("\ud800",)]}) == {
        "a\ufffd": [None, None, 1.5, True, None, ["\ufffd"]]
    }
    tape = [
        HumanMessage("bad \ud800\x00", id="u"),
        AIMessage("", id="a", tool_calls=[{"name": "f", "args": {"x": "\udfff"}, "id": "c"}]),
    ]
    assert_valid_history(view(tape, [], S).messages)


def as_openai(messages) -> list[dict]:
    from langchain_openai.chat_models.base import _convert_message_to_dict

    return [_convert_message_to_dict(message) for message in messages]


def test_strict_alternation():
    tape = [
        user("u0", "one"), user("u1", "two"),
        calls("t1", "a1", ["c1"], text="Looking."), result("t1", "c1"),
        user("s1", "three"), says("t1", "p1", "The ans", role="part"), says("t1", "p2", "wer.", role="finish"),
        says("t1", "p3", "Another."),
        user("u2", "four"), calls("t2", "a2", ["c2"]), result("t2", "c2"),
    ]  # fmt: skip
    note = {"id": "n", "kind": "note", "turn_id": "t2", "after_message_id": "r-c2", "text": "Settle."}
    anchors = [turn_anchor("t1", "u1"), turn_anchor("t2", "u2"), note]
    seen = view(tape, anchors, S, profile=ModelProfile(alternate_roles=True))
    assert_valid_history(seen.messages, alternate=True)
    shown = texts_of(seen.messages)
    assert shown[1] == "one\n\ntwo"
    assert shown[4:7] == ["Understood.", "three", "The answer.\n\nAnother."]
    assert [m.type for m in seen.messages[-4:]] == ["ai", "tool", "ai", "human"]
    assert refusal({"messages": as_openai(seen.messages)}, Rules(strict=True, alternate_roles=True)) is None
    assert set(seen.included) == {message.id for message in tape}


def test_a_model_without_system_messages_gets_the_text_in_front_of_the_first_question():
    seen = view([HumanMessage([IMAGE], id="u1")], [], S, profile=ModelProfile(system_messages=False))
    assert seen.messages[0].content == [{"type": "text", "text": "Base."}, IMAGE]
    assert_valid_history(seen.messages, system=False)
    plain = view([user("u1", "hi")], [], S, profile=ModelProfile(system_messages=False))
    assert texts_of(plain.messages) == ["Base.\n\nhi"]


def test_a_conversation_that_the_assistant_opened_gets_an_opening():
    seen = view([AIMessage("Welcome!", id="w"), user("u1")], [], S)
    assert [message.type for message in seen.messages] == ["system", "human", "ai", "human"]


def test_the_profile_of_the_settings_holds_where_none_is_given():
    given = TurnSettings(system_prompt="Base.", model_profile=ModelProfile(system_messages=False))
    assert texts_of(view([user("u1", "hi")], [], given).messages) == ["Base.\n\nhi"]


def test_a_result_keeps_the_name_and_status_of_its_call():
    bare = ToolMessage("x", id="r", tool_call_id="c1", status="error")
    seen = view([user("u1"), calls("t1", "a1", ["c1"]), bare], [], S)
    assert (seen.messages[3].name, seen.messages[3].status) == ("search", "error")
