"""`ask_user`: what the model may send, what it is told, and what the answers become."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.utils.function_calling import convert_to_openai_tool

from turngraph.tools.ask import answer_text, ask_user, check_answers, parse_questions


def test_the_schema_says_what_may_be_asked() -> None:
    schema = convert_to_openai_tool(ask_user)["function"]
    questions = schema["parameters"]["properties"]["questions"]
    assert schema["name"] == "ask_user"
    assert (questions["minItems"], questions["maxItems"]) == (1, 4)
    assert questions["items"]["properties"]["options"]["maxItems"] == 8
    assert set(questions["items"]["properties"]) == {"question", "id", "options", "multiple", "free_text"}


async def test_it_is_never_run_as_a_function() -> None:
    with pytest.raises(NotImplementedError, match="person"):
        ask_user.invoke({"questions": [{"question": "?"}]})
    with pytest.raises(NotImplementedError, match="person"):
        await ask_user.ainvoke({"questions": [{"question": "?"}]})


FULL = {"id": "q1", "question": "Which?", "options": [], "multiple": False, "free_text": True}


@pytest.mark.parametrize(
    "args",
    [
        {"questions": [{"question": "Which?"}]},
        {"questions": [{"question": " Which? ", "id": None, "options": None, "multiple": None, "free_text": None}]},
        {"questions": ["Which?"]},
        {"questions": {"question": "Which?"}},
        {"questions": "Which?"},
        {"questions": '[{"question": "Which?"}]'},
        {"question": "Which?"},
    ],
)
def test_slips_that_leave_no_doubt_are_taken(args: dict[str, Any]) -> None:
    assert parse_questions(args) == [FULL]


def test_options_and_ids_are_filled_in() -> None:
    parsed = parse_questions(
        {
            "questions": [
                {"question": "A?", "options": ["x", {"label": 2, "description": " why "}], "free_text": False},
                {"question": "B?", "id": "q3", "multiple": True},
                {"question": "C?"},
            ]
        }
    )
    assert parsed == [
        {
            "id": "q1",
            "question": "A?",
            "options": [{"label": "x"}, {"label": "2", "description": "why"}],
            "multiple": False,
            "free_text": False,
        },
        {**FULL, "id": "q3", "question": "B?", "multiple": True},
        {**FULL, "id": "q3_1", "question": "C?"},
    ]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({}, "1 to 4"),
        ({"questions": []}, "1 to 4"),
        ({"questions": "  "}, "1 to 4"),
        ({"questions": 7}, "1 to 4"),
        ({"questions": [{"question": f"{n}?"} for n in range(5)]}, "at most 4"),
        ({"questions": [7]}, "question 1 must be an object"),
        ({"questions": [{"question": "ok"}, {"question": " "}]}, "question 2 has no text"),
        ({"questions": [{"text": "Which?"}]}, "question 1 has no text"),
        ({"questions": [{"question": "Which?", "options": list("abcdefghi")}]}, "at most 8"),
        ({"questions": [{"question": "Which?", "options": {"a": 1}}]}, "must be a list"),
        ({"questions": [{"question": "Which?", "options": [""]}]}, "'label'"),
        ({"questions": [{"question": "Which?", "options": ["a", "a"]}]}, "same label"),
        ({"questions": [{"question": "Which?", "free_text": False}]}, "no options"),
        ({"questions": [{"question": "Which?", "multiple": "yes"}]}, "'multiple'"),
        ({"questions": [{"question": "Which?", "id": ["a"]}]}, "'id'"),
        ({"questions": [{"question": "A?", "id": "x"}, {"question": "B?", "id": "x"}]}, "same 'id'"),
    ],
)
def test_what_cannot_be_asked_is_told_to_the_model(args: dict[str, Any], says: str) -> None:
    problem = parse_questions(args)
    assert isinstance(problem, dict)
    assert problem["code"] == "bad_arguments"
    assert says in problem["text"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(["question", "questions", "options", "label", "id", "multiple"]), inner)
    ),
    max_leaves=15,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["question", "questions"]), anything))
def test_any_arguments_give_questions_that_can_be_answered_or_a_problem(args: dict[str, Any]) -> None:
    parsed = parse_questions(args)
    if isinstance(parsed, dict):
        assert parsed["text"]
        return
    assert 1 <= len(parsed) <= 4
    assert len({question["id"] for question in parsed}) == len(parsed)
    for question in parsed:
        assert question["id"]
        assert question["question"].strip()
        assert question["options"] or question["free_text"]
    blank = check_answers(parsed, {})
    assert isinstance(blank, dict)
    assert list(blank) == [question["id"] for question in parsed]
    assert answer_text(parsed, blank) == "The user gave no answer."


def asked(*questions: dict[str, Any]) -> Any:
    parsed = parse_questions({"questions": list(questions)})
    assert isinstance(parsed, list)
    return parsed


def test_answers_are_texts_or_lists_of_texts() -> None:
    both = asked({"question": "A?", "options": ["Red"]}, {"question": "B?", "multiple": True, "options": ["S", "L"]})
    assert check_answers(both, {"q1": "red", "q2": ["s", "XL", ""]}) == {"q1": "Red", "q2": ["S", "XL"]}
    assert check_answers(both, {"q1": 3, "q2": "L"}) == {"q1": "3", "q2": ["L"]}
    assert check_answers(both, {"q1": ["red"]}) == {"q1": "Red", "q2": []}


def test_the_text_of_the_answers() -> None:
    one = asked({"question": "A?"})
    two = asked({"question": "A?"}, {"question": "B?", "multiple": True})
    assert answer_text(one, {"q1": "yes"}) == "yes"
    assert answer_text(two, {"q1": "yes", "q2": ["a", "b"]}) == "A?\nyes\n\nB?\na, b"
    assert answer_text(two, {"q1": "yes", "q2": []}) == "A?\nyes\n\nB?\n(no answer)"
    assert answer_text(two, {}, "whatever you like") == "whatever you like"
    assert answer_text(one, {"q1": "yes"}, "but hurry").endswith("yes\n\nbut hurry")
    assert answer_text(one, {"q1": "\n "}) == "The user gave no answer."
