"""What is cut where a request does not fit, and in which order."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage

from tests.context.tapes import calls, long_thread, result, says, texts_of, turn_anchor, user
from tests.support.strict import assert_valid_history
from turngraph.context import view
from turngraph.context.shorten import SMALLEST, shorten_args, shorten_text
from turngraph.context.tokens import count_text
from turngraph.context.trim import level_for
from turngraph.state.settings import ModelProfile, TurnSettings


def reasons(seen) -> dict[str, list[str]]:
    by: dict[str, list[str]] = {}
    for entry in seen.report["excluded"]:
        by.setdefault(entry["reason"], []).append(entry["id"])
    return by


def test_whole_turns_leave_from_the_oldest_down_to_the_low_water_mark():
    messages, anchors = long_thread(20, 2)
    limits = TurnSettings(context_window=3_000, max_output_tokens=300)
    seen = view(messages, anchors, limits)
    left = reasons(seen)["out_of_budget"]
    assert left == [message.id for message in messages][: len(left)]
    assert len(left) % 6 == 0, "a turn was cut in half"
    room = 3_000 - seen.report["reserved"]
    assert 0.3 * room < seen.report["used"] <= 0.6 * room
    assert [anchor["kind"] for anchor in seen.new_anchors] == ["trim"]


def test_protected_turns_stay_and_their_results_are_shortened_largest_first():
    tape = [
        user("u1"), says("t1", "a1", "x"),
        user("u2"), calls("t2", "a2", ["big", "small"]),
        result("t2", "big", "data " * 3_000), result("t2", "small", "data " * 60), says("t2", "a3", "y"),
        user("u3", "now"),
    ]  # fmt: skip
    anchors = [turn_anchor("t1", "u1"), turn_anchor("t2", "u2"), turn_anchor("t3", "u3")]
    seen = view(tape, anchors, TurnSettings(context_window=2_000, max_output_tokens=200))
    assert reasons(seen) == {"shortened": ["r-big"]}
    assert seen.messages[-1].text == "now"
    big = next(message for message in seen.messages if message.id == "r-big")
    assert big.text.startswith("data data")
    assert big.text.endswith("data ")
    assert 'read_tool_result(call_id="big"' in big.text
    assert seen.report["used"] <= 2_000 - seen.report["reserved"]


def test_the_newest_results_are_shortened_last_and_answers_never():
    answer = "the whole answer " * 100
    tape = [
        user("u1", "work"),
        calls("t1", "a1", ["old"]), result("t1", "old", "data " * 900),
        calls("t1", "a2", ["q"], name="ask_user"), result("t1", "q", answer, role="answer", name="ask_user"),
        calls("t1", "a3", ["new"]), result("t1", "new", "data " * 800),
    ]  # fmt: skip
    anchors = [turn_anchor("t1", "u1")]
    roomy = view(tape, anchors, TurnSettings(context_window=2_000, max_output_tokens=200))
    assert reasons(roomy) == {"shortened": ["r-old"]}
    tight = view(tape, anchors, TurnSettings(context_window=1_400, max_output_tokens=200))
    assert reasons(tight) == {"shortened": ["r-old", "r-new"]}
    assert answer in texts_of(tight.messages)
    named = {"id": "s", "kind": "shorten", "tokens": {"r-q": 200}, "why": ""}
    assert answer in texts_of(view(tape, [*anchors, named], TurnSettings()).messages)


def test_the_current_question_is_always_sent_whole():
    question = "why " * 3_000
    messages, anchors = long_thread(4, 1)
    seen = view([*messages, user("q", question)], [*anchors, turn_anchor("t", "q")], TurnSettings(context_window=1_000))
    assert seen.messages[-1].text == question
    assert seen.report["free"] == 0
    assert_valid_history(seen.messages)
    assert "answer 3" in texts_of(seen.messages), "protected turns stay"


def test_long_arguments_and_long_earlier_questions_are_the_last_to_be_shortened():
    written = AIMessage(
        "",
        id="a1",
        tool_calls=[{"name": "write", "args": {"path": "a.py", "text": "line " * 4_000}, "id": "w"}],
        additional_kwargs={"turngraph": {"turn_id": "t1"}},
    )
    tape = [user("u1", "long " * 2_000), written, result("t1", "w", "ok"), says("t1", "a2", "Done."), user("u2", "now")]
    seen = view(tape, [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")], TurnSettings(context_window=1_500))
    assert reasons(seen) == {"shortened": ["u1", "a1"]}
    args = seen.messages[2].tool_calls[0]["args"]
    assert args["path"] == "a.py"
    assert "left out here" in args["text"]
    assert len(json.dumps(args)) < 2_500
    assert seen.report["used"] <= 1_500 - seen.report["reserved"]


def test_without_protected_turns_only_the_running_one_stays():
    messages, anchors = long_thread(5, 1, 100)
    seen = view(messages, anchors, TurnSettings(context_window=700, max_output_tokens=100, protected_turns=0))
    assert [text for text in texts_of(seen.messages) if text.startswith("question")] == [messages[-4].text]


@given(st.lists(st.integers(SMALLEST + 1, 5_000), min_size=1, max_size=20), st.integers(1, 50_000))
@settings(max_examples=200, deadline=None)
def test_the_level_frees_enough_or_is_the_smallest(sizes, excess):
    level = level_for(sizes, excess)
    freed = sum(size - level for size in sizes if size > level)
    assert level >= SMALLEST
    assert freed >= excess or level == SMALLEST
    if level > SMALLEST:
        assert sum(size - level - 1 for size in sizes if size > level + 1) < excess


@given(st.text(max_size=4_000), st.integers(1, 40), st.integers(60, 400))
@settings(max_examples=150, deadline=None)
def test_a_shortened_text_fits_and_keeps_its_ends(text, times, tokens):
    text = text * times
    short = shorten_text(text, tokens, "c1")
    assert count_text(short) <= max(tokens, 60)
    if short != text:
        assert "left out here" in short
        head, tail = short.split("\n[... ")[0], short.split(" ...]\n")[-1]
        assert text.startswith(head) or "[... " in text
        assert text.endswith(tail) or "...]" in text


def test_shortened_arguments_keep_their_shape():
    args = {"a": "x " * 900, "b": ["y " * 900, 3], "c": {"d": "short"}}
    short = shorten_args(args, 300)
    assert short.keys() == args.keys()
    assert short["b"][1] == 3
    assert short["c"] == {"d": "short"}
    assert count_text(short["a"]) <= 150
    assert shorten_args(args, 10_000) is args


def test_images_of_earlier_questions_and_block_results_make_room_too():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    tape = [
        HumanMessage([{"type": "text", "text": "Compare."}, *[image] * 5], id="u1"),
        calls("t1", "a1", ["c1"]),
        result("t1", "c1").model_copy(update={"content": [{"type": "text", "text": "data " * 1_500}, image]}),
        says("t1", "f1", "Alike."),
        HumanMessage([{"type": "text", "text": "And this?"}, image], id="u2"),
    ]
    anchors = [turn_anchor("t1", "u1"), turn_anchor("t2", "u2")]
    limits = TurnSettings(context_window=4_000, max_output_tokens=200)
    seen = view(tape, anchors, limits, profile=ModelProfile(string_tool_content=False))
    assert reasons(seen) == {"shortened": ["u1", "r-c1"]}
    assert seen.messages[1].text.startswith("Compare.\n[image_url content, not shown]")
    assert seen.messages[-1].content[1] == image
    assert seen.report["used"] <= 4_000 - seen.report["reserved"]
