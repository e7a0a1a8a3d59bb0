"""Tool calls: fragments in every shape seen in the wild, and the safe calls that are made of them."""

import itertools
import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from turngraph.llm.calls import (
    CallAssembler,
    CallFragment,
    NormalisedCalls,
    RawCall,
    from_langchain,
    normalise_calls,
)
from turngraph.llm.json_scanner import JsonScanner

Delta = tuple[Any, Any, Any, Any]


def assembled(*deltas: Delta) -> list[tuple[Any, Any, Any]]:
    assembler = CallAssembler()
    for index, call_id, name, arguments in deltas:
        assembler.feed(CallFragment(index, call_id, name, arguments))
    return [(call.id, call.name, call.arguments) for call in assembler.finish()]


def ids() -> Callable[[], str]:
    numbers = itertools.count()
    return lambda: f"new_{next(numbers)}"


def normalised(
    *raw: RawCall, offered: tuple[str, ...] = ("t", "search"), taken: tuple[str, ...] = (), cut: bool = False
) -> NormalisedCalls:
    return normalise_calls(raw, offered=offered, taken_ids=taken, cut=cut, new_id=ids())


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        pytest.param(
            [(0, "A", "f", ""), (0, None, None, '{"a"'), (0, None, None, ":1}")], [("A", "f", '{"a":1}')], id="openai"
        ),
        pytest.param(
            [(0, "A", "f", '{"a":1}'), (0, "B", "f", '{"a":2}')],
            [("A", "f", '{"a":1}'), ("B", "f", '{"a":2}')],
            id="one index, two ids",
        ),
        pytest.param(
            [(0, None, "f", '{"a":1}'), (0, None, "f", '{"a":2}'), (0, "", "g", "{}")],
            [(None, "f", '{"a":1}'), (None, "f", '{"a":2}'), (None, "g", "{}")],
            id="one index, no ids",
        ),
        pytest.param(
            [(None, None, "f", '{"a":1}'), (None, None, "g", '{"a":2}')],
            [(None, "f", '{"a":1}'), (None, "g", '{"a":2}')],
            id="no index, no ids",
        ),
        pytest.param(
            [(0, None, "f", '{"a":1}{"a":'), (0, None, None, "2}")],
            [(None, "f", '{"a":1}'), (None, "f", '{"a":2}')],
            id="glued payloads",
        ),
        pytest.param(
            [(0, "A", None, ""), (0, None, "read_file", "{}")], [("A", "read_file", "{}")], id="null name first"
        ),
        pytest.param(
            [(0, "A", "", ""), (0, None, "read_file", "{}")], [("A", "read_file", "{}")], id="empty name first"
        ),
        pytest.param(
            [(0, "A", "read_file", ""), (0, None, None, "{}")], [("A", "read_file", "{}")], id="null name later"
        ),
        pytest.param(
            [(0, "A", "get_weather", '{"a"'), (0, "A", "get_weather", ":1"), (0, "A", "get_weather", "}")],
            [("A", "get_weather", '{"a":1}')],
            id="name and id repeated",
        ),
        pytest.param(
            [(0, None, "get_weather", '{"a"'), (0, None, "get_weather", ":1}")],
            [(None, "get_weather", '{"a":1}')],
            id="name repeated, no id",
        ),
        pytest.param([(0, "A", None, "{}")], [("A", None, "{}")], id="no name ever"),
        pytest.param([("0", "A", "f", '{"a"'), (0, None, None, ":1}")], [("A", "f", '{"a":1}')], id="index as text"),
        pytest.param([(0, "A", "f", '{"a"'), (None, None, None, ":1}")], [("A", "f", '{"a":1}')], id="index dropped"),
        pytest.param([(None, "A", "f", '{"a"'), (0, None, None, ":1}")], [("A", "f", '{"a":1}')], id="index later"),
        pytest.param([(0, None, "f", '{"a"'), (0, "A", None, ":1}")], [("A", "f", '{"a":1}')], id="id later"),
        pytest.param([(0, None, "f", '{"a":1}'), (0, "A", None, "")], [("A", "f", '{"a":1}')], id="id last"),
        pytest.param(
            [(0, "r1", "f", ""), (0, "r2", None, '{"a"'), (0, "r3", None, ":1}"), (0, "r4", None, "")],
            [("r1", "f", '{"a":1}')],
            id="a random id on each chunk",
        ),
        pytest.param(
            [(0, "A", "f", '{"a"'), (1, "B", "g", '{"b"'), (0, None, None, ":1}"), (1, None, None, ":2}")],
            [("A", "f", '{"a":1}'), ("B", "g", '{"b":2}')],
            id="interleaved by index",
        ),
        pytest.param(
            [(0, "A", "f", '{"a"'), (0, "B", "g", '{"b"'), (0, "A", None, ":1}"), (0, "B", None, ":2}")],
            [("A", "f", '{"a":1}'), ("B", "g", '{"b":2}')],
            id="interleaved by id",
        ),
        pytest.param(
            [(0, "X", "f", '{"a":1}'), (1, "X", "g", '{"b"'), (1, "X", None, ":2}")],
            [("X", "f", '{"a":1}'), ("X", "g", '{"b":2}')],
            id="one id for two indexes",
        ),
        pytest.param([(0, "A", "f", {"a": 1})], [("A", "f", {"a": 1})], id="arguments as object"),
        pytest.param(
            [(None, None, "f", {"a": 1}), (None, None, "f", {"a": 2})],
            [(None, "f", {"a": 1}), (None, "f", {"a": 2})],
            id="two objects",
        ),
        pytest.param([(0, "A", "f", [1])], [("A", "f", [1])], id="arguments as list"),
        pytest.param([(0, "A", "f", 7)], [("A", "f", "7")], id="arguments as number"),
        pytest.param([(0, "A", "f", None)], [("A", "f", None)], id="no arguments"),
        pytest.param(
            [(0, "A", "f", "{}"), (0, "A", None, '{"a"'), (0, "A", None, ":1}")],
            [("A", "f", '{"a":1}')],
            id="placeholder",
        ),
        pytest.param([(0, "A", "f", {}), (0, None, None, '{"a":1}')], [("A", "f", '{"a":1}')], id="placeholder object"),
        pytest.param(
            [(0, "A", "f", '{"a"'), (0, "A", None, ":1}"), (0, "A", "f", '{"a":1}')],
            [("A", "f", '{"a":1}')],
            id="repeated whole at the end",
        ),
        pytest.param(
            [(0, "A", "f", '{"a":1}'), (0, "A", "f", '{"a":2}')],
            [("A", "f", '{"a":1}'), ("A", "f", '{"a":2}')],
            id="one id, two payloads",
        ),
        pytest.param([(0, None, None, None), (0, None, "", "")], [], id="noise"),
        pytest.param(
            [(1, "B", "g", "{}"), (0, "A", "f", "{}")], [("B", "g", "{}"), ("A", "f", "{}")], id="order of arrival"
        ),
        pytest.param(
            [(0, "A", "f", '"{\\"a\\"'), (0, None, None, ': 1}"')], [("A", "f", '"{\\"a\\": 1}"')], id="text in text"
        ),
        pytest.param(
            [(0, "A", "f", '{"a":"}{"'), (0, None, None, ',"b":"\\'), (0, None, None, '"}{"}')],
            [("A", "f", '{"a":"}{","b":"\\"}{"}')],
            id="brackets inside strings",
        ),
        pytest.param([(0, "A", "f", '{"a":1}} {"b":2}')], [("A", "f", '{"a":1}} {"b":2}')], id="stray text stays"),
        pytest.param(
            [(0, "A", "f", '{"a":1}'), (0, None, None, "}"), (0, None, None, ' {"b":2}')],
            [("A", "f", '{"a":1}} {"b":2}')],
            id="stray text in pieces",
        ),
        pytest.param([(0, "A", "f", ""), (0, None, "g", "")], [("A", "f", None), (None, "g", None)], id="another name"),
    ],
)
def test_every_shape_of_fragments(deltas: list[Delta], calls: list[tuple[Any, Any, Any]]) -> None:
    assert [(i, n, a or None) for i, n, a in assembled(*deltas)] == calls


JSON_LEAF = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=4)


@st.composite
def cut_up(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    edges = [0, *cuts, len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


@settings(max_examples=200, deadline=None)
@given(st.data(), st.lists(OBJECTS, min_size=1, max_size=4), st.sampled_from(["index", "id", "name", "none", "all"]))
def test_any_cut_of_the_same_calls_gives_the_same_calls(data: st.DataObject, payloads: list[Any], style: str) -> None:
    texts = [json.dumps(each) for each in payloads]
    deltas: list[Delta] = []
    for at, text in enumerate(texts):
        index = at if style in ("index", "all") else 0
        call_id = f"c{at}" if style in ("id", "all", "index") else None
        for number, piece in enumerate(data.draw(cut_up(text))):
            first = number == 0
            labelled = first or style == "all"
            name = f"f{at}" if labelled else None
            deltas.append((index if style != "none" else None, call_id if labelled else None, name, piece))
    whole = [(f"c{at}" if style in ("id", "all", "index") else None, f"f{at}", text) for at, text in enumerate(texts)]
    assert assembled(*deltas) == whole


@settings(max_examples=100, deadline=None)
@given(st.data(), st.lists(OBJECTS.filter(bool), min_size=1, max_size=4))
def test_glued_payloads_do_not_depend_on_the_cut(data: st.DataObject, payloads: list[Any]) -> None:
    texts = [json.dumps(each) for each in payloads]
    pieces = data.draw(cut_up("".join(texts)))
    deltas: list[Delta] = [(0, None, "f" if number == 0 else None, piece) for number, piece in enumerate(pieces)]
    assert assembled(*deltas) == [(None, "f", text) for text in texts]


@settings(max_examples=200, deadline=None)
@given(st.data(), st.text(alphabet='{}[]"\\ ,:1a', max_size=30))
def test_the_scanner_depends_on_the_text_only(data: st.DataObject, text: str) -> None:
    def extents(pieces: list[str]) -> tuple[str, int]:
        scanner, taken = JsonScanner(), 0
        for piece in pieces:
            end = scanner.feed(piece)
            taken += end
            if end < len(piece):
                break
        return scanner.extent, len("".join(pieces)[:taken].rstrip())

    assert extents(data.draw(cut_up(text))) == extents([text])


FRAGMENTS = st.builds(
    CallFragment,
    st.sampled_from([None, 0, 1, "0", "x", -1]),
    st.sampled_from([None, "", "A", "B", "null"]),
    st.sampled_from([None, "", "t", "search", "bad name", " "]),
    st.sampled_from(
        [None, "", "{}", '{"a"', ":1}", "null", "[1]", '"{}"', "x", "{", "}", {}, {"a": 1}, [1], "\ud800\x00"]
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(FRAGMENTS, max_size=12), st.booleans())
def test_any_fragments_become_storable_calls(fragments: list[CallFragment], cut: bool) -> None:
    assembler = CallAssembler()
    for each in fragments:
        assembler.feed(each)
    raw = assembler.finish()
    done = normalised(*raw, taken=("A", "new_0"), cut=cut)
    check_laws(raw, done, {"A", "new_0"})


RAW_CALLS = st.builds(
    RawCall,
    st.none() | st.text(max_size=4),
    st.none() | st.sampled_from(["t", "search", "x", ""]),
    st.one_of(st.none(), st.text(max_size=20), OBJECTS, st.lists(JSON, max_size=2), OBJECTS.map(json.dumps)),
)


def check_laws(raw: list[RawCall], done: NormalisedCalls, taken: set[str]) -> None:
    made = [call["id"] for call in done.calls]
    assert len(made) == len(raw) == len(set(made))
    assert taken.isdisjoint(made)
    assert set(done.problems) <= set(made)
    assert set(done.renamed.values()) <= set(made)
    for call in done.calls:
        assert json.loads(json.dumps(call["args"], allow_nan=False)) == call["args"]
        assert isinstance(call["args"], dict)
        json.dumps(call, ensure_ascii=False).encode()
        assert call["name"]
        if call["id"] not in done.problems:
            assert call["name"] in ("t", "search")
        else:
            assert done.problems[call["id"]]["text"]


@settings(max_examples=200, deadline=None)
@given(st.lists(RAW_CALLS, max_size=6), st.booleans())
def test_laws_of_normalising(raw: list[RawCall], cut: bool) -> None:
    done = normalised(*raw, taken=("A",), cut=cut)
    check_laws(raw, done, {"A"})
    serde = JsonPlusSerializer()
    assert serde.loads_typed(serde.dumps_typed(done.calls)) == done.calls


@settings(max_examples=150, deadline=None)
@given(st.data(), OBJECTS)
def test_streamed_and_whole_are_the_same(data: st.DataObject, payload: dict[str, Any]) -> None:
    text = json.dumps(payload)
    deltas: list[Delta] = [(0, "A", "t", "")]
    deltas += [(0, None, None, piece) for piece in data.draw(cut_up(text))]
    assembler = CallAssembler()
    for each in deltas:
        assembler.feed(CallFragment(*each))
    streamed = normalised(*assembler.finish())
    assert streamed == normalised(RawCall("A", "t", text)) == normalised(RawCall("A", "t", payload))


@pytest.mark.parametrize(
    "arguments", ["", "  ", "\n", "null", " null ", None, '"null"', '""', "{}", '"{}"', {}], ids=repr
)
def test_blank_and_null_mean_no_arguments(arguments: Any) -> None:
    done = normalised(RawCall("a", "t", arguments))
    assert done.calls == [{"id": "a", "name": "t", "args": {}}]
    assert not done.problems


def test_a_string_that_holds_an_object_is_unwrapped_once() -> None:
    assert normalised(RawCall("a", "t", '"{\\"q\\": 1}"')).calls[0]["args"] == {"q": 1}
    twice = json.dumps(json.dumps(json.dumps({"q": 1})))
    assert normalised(RawCall("a", "t", twice)).problems["a"]["code"] == "bad_arguments"


def test_a_text_parameter_that_holds_json_is_left_alone() -> None:
    args = {"body": '{"q": 1}', "n": "null", "e": ""}
    assert normalised(RawCall("a", "t", json.dumps(args))).calls[0]["args"] == args


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("[1]", "a list"),
        ("7", "a number"),
        ("true", "a boolean"),
        ('"words"', "not valid JSON"),
        ('"[1]"', "a list"),
        ([1], "a list"),
        ('{"q": "tru', "not valid JSON"),
        ("{q: 1}", "not valid JSON"),
        ('{"a":1}{"b":2}', "not valid JSON"),
        ('{"a": NaN}', "NaN or infinity"),
        ('{"a": [1e999]}', "NaN or infinity"),
        ({"a": float("inf")}, "NaN or infinity"),
        ({"a": {1, 2}}, "JSON does not have"),
        (f'{{"a": {2**64}}}', "64 bits"),
        (f'{{"a": {"9" * 5000}}}', "too many digits"),
        ('{"a":' * 150 + "1" + "}" * 150, "levels deep"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
        ("[" * 100_000, ""),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_bad_arguments_are_stored_empty_and_explained(arguments: Any, said: str) -> None:
    done = normalised(RawCall("a", "t", arguments), RawCall("b", "search", '{"q": 1}'))
    assert done.calls == [{"id": "a", "name": "t", "args": {}}, {"id": "b", "name": "search", "args": {"q": 1}}]
    assert set(done.problems) == {"a"}
    assert done.problems["a"]["code"] == "bad_arguments"
    assert said in done.problems["a"]["text"]
    assert len(done.problems["a"]["text"]) < 400


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    assert normalised(RawCall("a", "t", loop)).problems["a"]["code"] == "bad_arguments"


def test_a_hundred_levels_can_be_stored() -> None:
    text = '{"a":' * 100 + "1" + "}" * 100
    done = normalised(RawCall("a", "t", text))
    assert not done.problems
    message = AIMessage("", tool_calls=[{**done.calls[0], "type": "tool_call"}])
    serde = JsonPlusSerializer()
    assert serde.loads_typed(serde.dumps_typed(message)) == message


@pytest.mark.parametrize(
    "arguments", ['{"path": "a', '{"path": "a"', "{", "", None, "  ", "nul", '"{\\"a', '{"a": [1, {}']
)
def test_a_call_that_was_cut_is_never_run_or_closed(arguments: Any) -> None:
    done = normalised(RawCall("a", "t", arguments), cut=True)
    assert done.calls[0]["args"] == {}
    assert done.problems["a"]["code"] == "cut_off"
    assert "cut off" in done.problems["a"]["text"]
    assert "less" in done.problems["a"]["text"]


def test_a_cut_call_with_half_a_name_is_told_that_it_was_cut() -> None:
    assert normalised(RawCall("a", "sea", ""), cut=True).problems["a"]["code"] == "cut_off"


@pytest.mark.parametrize("arguments", ["{}", '{"a": 1}', "null", {}, {"a": 1}])
def test_whole_calls_run_although_the_output_was_cut(arguments: Any) -> None:
    done = normalised(RawCall("a", "t", arguments), RawCall("b", "t", '{"x'), cut=True)
    assert set(done.problems) == {"b"}


def test_whole_but_wrong_arguments_are_no_cut() -> None:
    assert normalised(RawCall("a", "t", "{q: 1}"), cut=True).problems["a"]["code"] == "bad_arguments"
    assert normalised(RawCall("a", "t", "[1]"), cut=True).problems["a"]["code"] == "bad_arguments"


def test_unknown_names_are_answered_with_the_valid_ones() -> None:
    done = normalised(
        RawCall("a", "invalid tool", "{}"), RawCall("b", "", '{"q": 1}'), RawCall("c", "serch", "{}"),
        RawCall("d", "search", "{}"), RawCall("e", None, None),
    )  # fmt: skip
    assert [call["name"] for call in done.calls] == ["invalid_tool", "unnamed_tool", "serch", "search", "unnamed_tool"]
    assert set(done.problems) == {"a", "b", "c", "e"}
    assert {problem["code"] for problem in done.problems.values()} == {"unknown_tool"}
    assert '"invalid tool"' in done.problems["a"]["text"]
    assert "search, t" in done.problems["a"]["text"]
    assert "Did you mean search?" in done.problems["c"]["text"]
    assert "no tool" in done.problems["b"]["text"]
    assert done.calls[1]["args"] == {"q": 1}


def test_the_list_of_names_is_bounded() -> None:
    offered = tuple(f"tool_{at:04}" for at in range(3000))
    text = normalised(RawCall("a", "tool_99999", "{}"), offered=offered).problems["a"]["text"]
    assert len(text) < 1500
    assert "2960 more" in text
    text = normalised(RawCall("a", "x" * 10_000, "{}"), offered=()).problems["a"]["text"]
    assert len(text) < 300
    assert "No tool can be called" in text


@pytest.mark.parametrize(
    "name", ["a b", "x" * 100, "über", "\ud800", "f\x00g", "../../etc", "日本", "functions.t", "-", '"', "t\n"]
)
def test_stored_names_are_taken_by_strict_providers(name: str) -> None:
    call = normalised(RawCall("a", name, "{}")).calls[0]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["name"])


def test_a_name_with_space_around_it_is_known() -> None:
    assert normalised(RawCall("a", " search\n", "{}")).calls[0]["name"] == "search"


def test_ids_are_unique_and_free() -> None:
    done = normalised(
        RawCall("x", "t", "{}"), RawCall("x", "t", "{}"), RawCall("old", "t", "{}"), RawCall(None, "t", "{}"),
        RawCall(" ", "t", "{}"), RawCall("y", "t", "{}"), taken=("old", "new_1"),
    )  # fmt: skip
    assert [call["id"] for call in done.calls] == ["x", "new_0", "new_1_2", "new_2", "new_3", "y"]
    assert done.renamed == {"x": "new_0", "old": "new_1_2"}
    constant = normalise_calls(
        [RawCall(None, "t", "{}")] * 3, offered=["t"], taken_ids=(), cut=False, new_id=lambda: "same"
    )
    assert [call["id"] for call in constant.calls] == ["same", "same_2", "same_3"]


def test_text_that_cannot_be_stored_is_cleaned() -> None:
    done = normalised(RawCall("a\x00\ud800", "t", '{"k\\u0000": ["\\ud800x", {"y": "\\u0000z"}]}'))
    assert done.calls == [{"id": "a", "name": "t", "args": {"k": ["x", {"y": "z"}]}}]
    assert normalised(RawCall("a", "t", '{"a": "\\ud83d\\ude00"}')).calls[0]["args"] == {"a": "😀"}
    assert normalised(RawCall("a", "t", '{"a": "two\nlines"}')).calls[0]["args"] == {"a": "two\nlines"}


def test_calls_of_a_foreign_message_are_taken_in_order() -> None:
    message = AIMessage(
        "",
        tool_calls=[{"name": "t", "args": {"a": 1}, "id": "2"}],
        invalid_tool_calls=[
            {"name": "t", "args": '{"q": "tru', "id": "1", "error": "no"},
            {"name": None, "args": None, "id": None, "error": None},
        ],
        additional_kwargs={"tool_calls": [{"id": "1"}, {"id": "2"}]},
    )
    raw = from_langchain(message)
    assert raw == [RawCall("1", "t", '{"q": "tru'), RawCall("2", "t", {"a": 1}), RawCall(None, None, None)]
    done = normalised(*raw)
    assert [call["args"] for call in done.calls] == [{}, {"a": 1}, {}]
    assert set(done.problems) == {"1", "new_0"}
    blocks = [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "1"}, {"type": "tool_use", "id": "2"}]
    reordered = AIMessage(blocks, tool_calls=message.tool_calls, invalid_tool_calls=message.invalid_tool_calls)  # type: ignore[arg-type]
    assert [call.id for call in from_langchain(reordered)] == ["1", "2", None]
    assert from_langchain(AIMessage("no calls")) == []


def test_text_that_langchain_closed_is_taken_as_it_came() -> None:
    chunk = AIMessageChunk(
        "",
        tool_call_chunks=[{"name": "t", "args": '{"path": "a', "id": "1", "index": 0, "type": "tool_call_chunk"}],
    )
    assert chunk.tool_calls[0]["args"] == {"path": "a"}
    raw = from_langchain(chunk)
    assert raw == [RawCall("1", "t", '{"path": "a')]
    assert normalised(*raw).problems["1"]["code"] == "bad_arguments"
    assert normalised(*raw, cut=True).problems["1"]["code"] == "cut_off"


def test_long_arguments_take_linear_time() -> None:
    def seconds(size: int) -> float:
        assembler = CallAssembler()
        start = time.perf_counter()
        assembler.feed(CallFragment(0, "A", "t", '{"a": ['))
        for _ in range(size):
            assembler.feed(CallFragment(0, "A", "t", '"x\\"",{"b": []},'))
        assembler.feed(CallFragment(0, "A", "t", "1]}"))
        for _ in range(size):
            assembler.feed(CallFragment(0, "A", "t", " "))
        assert len(normalised(*assembler.finish()).calls[0]["args"]["a"]) == 2 * size + 1
        return time.perf_counter() - start

    seconds(200)
    assert seconds(20_000) < 150 * seconds(1_000)  # 20 where linear, 400 where quadratic
    start = time.perf_counter()
    glued = assembled((0, None, "t", '{"a":1}' * 20_000))
    assert len(glued) == 20_000
    assert time.perf_counter() - start < 5
