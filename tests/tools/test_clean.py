"""Clean text: stored and sent by anything, otherwise unchanged."""

from hypothesis import given
from hypothesis import strategies as st

from turngraph.tools.clean import clean, clean_json, plain_text

any_text = st.text(st.characters(codec=None, categories=None)) | st.text()


@given(any_text)
def test_clean_text_is_utf8_without_nul_and_clean_already(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    assert "\x00" not in cleaned
    assert clean(cleaned) == cleaned


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_other_text_is_not_touched(text: str) -> None:
    assert clean(text) == text


def test_a_pair_of_surrogates_is_the_character_that_it_means() -> None:
    assert clean("\ud83d\ude00 \ud83d \ude00\x00") == "😀 \ufffd \ufffd"


def test_every_text_of_a_json_value() -> None:
    assert clean_json({"a\x00": ["\ud800", 1, None, {"b": "\x00"}]}) == {"a": ["\ufffd", 1, None, {"b": ""}]}


def test_plain_values_as_text() -> None:
    assert [plain_text(value) for value in (None, "x\x00", 7, False, {"a": "é"})] == [
        "",
        "x",
        "7",
        "false",
        '{"a": "é"}',
    ]
