"""Structured answers: any kind of schema, values out of any text, and a call that can only fill the schema."""

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from tests.support.openai_server import ScriptedServer, call, error, say
from turngraph.llm.call import ModelRequest
from turngraph.llm.fill import fill_format
from turngraph.llm.profile import PROFILES
from turngraph.llm.schema_check import problems_of
from turngraph.llm.scripted import ScriptedModel, ScriptedReply
from turngraph.llm.structured import OutputFormat, normalise_format

Start = Callable[..., ScriptedServer]


class Item(BaseModel):
    name: str
    price: float = Field(ge=0)


class Bill(BaseModel):
    """A bill."""

    items: list[Item]
    paid: bool = False


class Point(TypedDict):
    x: int
    y: int


SCHEMA = {
    "title": "Point",
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["x", "y"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def fresh() -> None:
    PROFILES.forget()


def made(fmt: Any) -> OutputFormat:
    normalised = normalise_format(fmt)
    assert normalised is not None
    return normalised


class TestFormats:
    @pytest.mark.parametrize(
        "fmt",
        [
            Point,
            SCHEMA,
            {"type": "json_schema", "json_schema": {"name": "Point", "schema": SCHEMA}},
            {"name": "Point", "schema": SCHEMA, "strict": True},
        ],
    )
    def test_one_meaning_in_every_form(self, fmt: Any) -> None:
        point = made(fmt)
        assert point.name == "Point"
        assert point.validate({"x": 1, "y": 2}) == ({"x": 1, "y": 2}, None)
        value, problem = point.validate({"x": "one"})
        assert value is None
        assert problem is not None
        assert "y" in problem
        json.dumps(point.json_schema)

    def test_pydantic_values_are_plain_json_with_defaults(self) -> None:
        bill = made(Bill)
        value, problem = bill.validate({"items": [{"name": "tea", "price": 2}]})
        assert problem is None
        assert json.loads(json.dumps(value)) == {"items": [{"name": "tea", "price": 2.0}], "paid": False}
        assert "items.0.price" in str(bill.validate({"items": [{"name": "tea", "price": -1}]})[1])

    def test_none_and_formats_pass_through(self) -> None:
        assert normalise_format(None) is None
        assert made(made(Bill)) is not None

    @pytest.mark.parametrize("fmt", [int, "Point", 3, [SCHEMA]])
    def test_what_is_no_format(self, fmt: Any) -> None:
        with pytest.raises(TypeError):
            normalise_format(fmt)

    def test_only_objects(self) -> None:
        with pytest.raises(ValueError, match="object"):
            normalise_format({"type": "array", "items": {}})

    def test_wire_shapes(self) -> None:
        bill = made(Bill)
        assert bill.native()["json_schema"]["name"] == "Bill"
        assert bill.as_tool()["function"]["parameters"] == bill.json_schema
        assert "items" in bill.asked_for()

    @given(st.text(max_size=20))
    @settings(max_examples=50, deadline=None)
    def test_names_are_ones_that_providers_take(self, title: str) -> None:
        name = made({**SCHEMA, "title": title}).name
        assert 1 <= len(name) <= 64
        assert all(char.isascii() and (char.isalnum() or char in "_-") for char in name)


class TestReading:
    @pytest.mark.parametrize(
        "text",
        [
            '{"x": 1, "y": 2}',
            '  {"x": 1, "y": 2}\n',
            'Here you are:\n```json\n{"x": 1, "y": 2}\n```\nDone.',
            '```\n{"x": 1, "y": 2}\n```',
            'First try:\n```json\n{"x": 1}\n```\nBetter:\n```json\n{"x": 1, "y": 2}\n```',
        ],
    )
    def test_whole_or_fenced(self, text: str) -> None:
        assert made(Point).read(text) == ({"x": 1, "y": 2}, None)

    @pytest.mark.parametrize("text", ["", "The point is at 1, 2.", '{"x": 1, "y"', "```json\n{\n```", "[" * 50_000])
    def test_no_json(self, text: str) -> None:
        assert made(Point).read(text) == (None, "The answer holds no JSON.")

    @pytest.mark.parametrize("text", ["[1, 2]", "null", "7", '{"x": 1}', '{"x": NaN, "y": 1}'])
    def test_other_json(self, text: str) -> None:
        value, problem = made(Point).read(text)
        assert value is None
        assert problem

    @given(st.text(max_size=60))
    @settings(max_examples=200, deadline=None)
    def test_never_raises(self, text: str) -> None:
        value, problem = made(SCHEMA).read(text)
        assert (value is None) == (problem is not None)


_LEAF = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "ab", "abc"]) | st.just(1.5)
_VALUE = st.recursive(
    _LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
_KIND = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
_SIMPLE = st.fixed_dictionaries(
    {},
    optional={
        "type": _KIND | st.lists(_KIND, min_size=1, max_size=2, unique=True),
        "enum": st.lists(_LEAF, min_size=1, max_size=3),
        "const": _LEAF,
        "minimum": st.integers(-3, 3),
        "exclusiveMaximum": st.integers(-3, 3),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["^a", "b$"]),
        "minItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
    },
)
_SCHEMAS = st.recursive(
    _SIMPLE | st.booleans(),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": _KIND,
            "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
        },
    ),
    max_leaves=5,
)


@given(_VALUE, _SCHEMAS)
@settings(max_examples=300, deadline=None)
def test_the_check_agrees_with_the_reference_implementation(value: Any, schema: Any) -> None:
    valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (problems_of(value, schema) == []) == valid


def test_references_and_paths() -> None:
    schema = {
        "$defs": {
            "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}}}
        },
        "properties": {"root": {"$ref": "#/$defs/node"}, "list": {"items": {"type": "number"}}},
    }
    assert problems_of({"root": {"next": {"next": {"n": 1}}}, "list": [1]}, schema) == []
    assert problems_of({"root": {"next": {"n": "x"}}, "list": [1, "2"]}, schema) == [
        "root.next.n: must be integer",
        "list[1]: must be number",
    ]
    assert problems_of(1, {"$ref": "#"}) == []


class TestFilling:
    @staticmethod
    def request(**fields: Any) -> ModelRequest:
        return ModelRequest([HumanMessage("Where?")], **fields)

    async def test_the_native_mode(self, openai_server: Start) -> None:
        server = openai_server([say('{"x": 1, "y": 2}')])
        model = ChatOpenAI(base_url=server.url, api_key="x", model="m")
        filled = await fill_format(model, self.request(), made(Point))
        assert (filled.value, filled.error) == ({"x": 1, "y": 2}, None)
        assert filled.usage["output_tokens"] > 0
        assert server.requests[0].body["response_format"]["json_schema"]["name"] == "Point"

    async def test_the_native_mode_refused(self, openai_server: Start) -> None:
        body = {
            "error": {"message": "This model does not support response_format json_schema", "param": "response_format"}
        }
        server = openai_server(
            [error(400, body), say('```json\n{"x": 1, "y": 2}\n```'), call(("Point", {"x": 3, "y": 4}))]
        )
        model = ChatOpenAI(base_url=server.url, api_key="x", model="m")
        assert (await fill_format(model, self.request(), made(Point))).value == {"x": 1, "y": 2}
        assert (await fill_format(model, self.request(), made(Point))).value == {"x": 3, "y": 4}
        assert ["response_format" in each.body for each in server.requests] == [True, False, False]
        assert server.requests[2].body["tool_choice"]["function"]["name"] == "Point"

    async def test_other_models_fill_the_arguments_of_one_tool(self) -> None:
        model = ScriptedModel([ScriptedReply(calls=[("Point", {"x": 1, "y": 2})])])
        assert (await fill_format(model, self.request(), made(Point))).value == {"x": 1, "y": 2}
        assert model.requests[0].tool_names == ["Point"]
        assert model.requests[0].tool_choice == "Point"

    async def test_a_mismatch_is_named_twice_at_most(self) -> None:
        model = ScriptedModel(['{"x": 1}', "no", ScriptedReply(calls=[("Point", {"x": "?"})]), "never"])
        filled = await fill_format(model, self.request(), made(Point))
        assert filled.value is None
        assert filled.error is not None
        assert "x" in filled.error
        assert len(model.requests) == 3
        assert "y" in model.requests[1].messages[-1].text
        assert "no JSON" in model.requests[2].messages[-1].text

    async def test_a_corrected_value_counts(self) -> None:
        model = ScriptedModel(['{"x": 1}', '{"x": 1, "y": 2}'])
        assert (await fill_format(model, self.request(), made(Point))).value == {"x": 1, "y": 2}
