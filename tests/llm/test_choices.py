"""One answer is read where a server writes several; servers that number chunks instead lose nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngraph.llm.choices import FirstChoice


def taken(numbers: list[int | None]) -> list[int]:
    """Places of the chunks that are read."""
    choice = FirstChoice()
    return [at for at, number in enumerate(numbers) if choice.takes(number)]


@given(st.integers(0, 3), st.lists(st.booleans(), max_size=10))
def test_one_number_or_none_takes_all(number: int, named: list[bool]) -> None:
    assert taken([number if each else None for each in named]) == list(range(len(named)))


@given(st.integers(0, 3), st.integers(0, 20))
def test_numbers_that_count_take_all(start: int, length: int) -> None:
    assert taken(list(range(start, start + length))) == list(range(length))


@given(st.lists(st.integers(0, 2), max_size=20))
def test_numbers_that_come_again_take_the_first_only(numbers: list[int]) -> None:
    opened: list[int | None] = [0, 1, 2, *numbers]  # each answer opens with a chunk that names the role
    assert taken(opened) == [0, 1, 2, *(at for at, each in enumerate(opened) if at > 2 and each == 0)]


@pytest.mark.parametrize(
    ("numbers", "places"),
    [([0, 0, 1, 0, 1], [0, 1, 3]), ([1, 1, 0, 1], [0, 1, 3]), ([0, 0, 1, 1], [0, 1]), ([0, 0, 1, 2], [0, 1])],
)
def test_answers_one_after_the_other(numbers: list[int | None], places: list[int]) -> None:
    assert taken(numbers) == places
