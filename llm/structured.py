"""Structured answers: a schema from pydantic, TypedDict or JSON schema, and the value that a text holds for it."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel, TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from turngraph.llm.schema_check import problems_of

Validated: TypeAlias = tuple[Any, str | None]
"""The value as plain JSON and None, or None and what is wrong with it, in words for the model."""

_FENCE = re.compile(r"```[ \t]*(?:json[c5]?|JSON)?[ \t]*\r?\n(.*?)```", re.DOTALL)
_MAX_SHOWN = 8


@dataclass(frozen=True)
class OutputFormat:
    """What an answer must be. `json_schema` describes an object; `validate` takes any parsed JSON and never raises."""

    name: str
    description: str
    json_schema: dict[str, Any]
    validate: Callable[[Any], Validated]

    def read(self, text: str) -> Validated:
        """The value in a text: the whole text, or the last fenced block, as JSON."""
        found = list(_candidates(text))
        if not found:
            return None, "The answer holds no JSON."
        errors: list[str] = []
        for value in found:
            made, error = self.validate(value)
            if error is None:
                return made, None
            errors.append(error)
        return None, errors[0]

    def native(self) -> dict[str, Any]:
        """The `response_format` parameter of the OpenAI wire. Not strict: strict mode takes few schemas."""
        schema = {"name": self.name, "description": self.description, "schema": self.json_schema}
        return {"type": "json_schema", "json_schema": {key: value for key, value in schema.items() if value}}

    def as_tool(self) -> dict[str, Any]:
        """A tool whose arguments are the value."""
        function = {"name": self.name, "description": self.description or "The answer.", "parameters": self.json_schema}
        return {"type": "function", "function": function}

    def asked_for(self) -> str:
        """The instruction to write nothing but the value."""
        schema = json.dumps(self.json_schema, ensure_ascii=False)
        return f"Write the answer as one JSON object and nothing else. It must fit this JSON schema:\n{schema}"


def normalise_format(fmt: Any) -> OutputFormat | None:
    """The format of a pydantic model class, a TypedDict class or a JSON schema (also wrapped as OpenAI does it).

    None stays None. Raises TypeError for anything else, and ValueError for a schema that describes no object.
    """
    if fmt is None or isinstance(fmt, OutputFormat):
        return fmt
    if isinstance(fmt, type) and (issubclass(fmt, BaseModel) or is_typeddict(fmt)):
        adapter: TypeAdapter[Any] = TypeAdapter(fmt)
        schema = adapter.json_schema()
        return _checked(fmt.__name__, schema, lambda value: _by_adapter(adapter, value))
    if isinstance(fmt, Mapping):
        schema = _unwrapped(fmt)
        return _checked(str(schema.get("title") or "answer"), schema, lambda value: _by_schema(schema, value))
    raise TypeError(f"response_format takes a pydantic model class, a TypedDict class or a JSON schema, not {fmt!r}")


def _checked(name: str, schema: dict[str, Any], validate: Callable[[Any], Validated]) -> OutputFormat:
    if schema.get("type", "object") != "object":
        raise ValueError(f"response_format must describe an object, not {schema.get('type')!r}")
    named = re.sub(r"[^a-zA-Z0-9_-]+", "_", name).strip("_")[:64] or "answer"
    return OutputFormat(named, str(schema.get("description") or ""), schema, validate)


def _unwrapped(fmt: Mapping[str, Any]) -> dict[str, Any]:
    """The schema itself, out of the wrappings that OpenAI's parameters have."""
    inner = fmt.get("json_schema", fmt)
    if isinstance(inner, Mapping) and isinstance(inner.get("schema"), Mapping):
        return {"title": inner.get("name", "answer"), **inner["schema"]}
    return dict(inner)


def _by_adapter(adapter: TypeAdapter[Any], value: Any) -> Validated:
    """Checked by pydantic. The value is what pydantic made of it, as JSON: defaults filled in, nothing else."""
    try:
        return adapter.dump_python(adapter.validate_json(json.dumps(value)), mode="json"), None
    except ValidationError as error:
        return None, _listed(f"{_where(each['loc'])}: {each['msg']}" for each in error.errors(include_url=False))
    except (ValueError, TypeError, RecursionError) as error:
        return None, f"The value cannot be used: {error}"


def _where(path: tuple[int | str, ...]) -> str:
    return ".".join(str(step) for step in path) or "the value"


def _listed(errors: Any) -> str:
    found = list(errors)
    more = f" (and {len(found) - _MAX_SHOWN} more)" if len(found) > _MAX_SHOWN else ""
    return "; ".join(found[:_MAX_SHOWN]) + more


def _by_schema(schema: dict[str, Any], value: Any) -> Validated:
    errors = problems_of(value, schema)
    return (None, _listed(errors)) if errors else (value, None)


def _candidates(text: str) -> Iterator[Any]:
    """JSON values that a text may mean, likeliest first: the whole text, then its fenced blocks from the last on."""
    for candidate in (text, *reversed(_FENCE.findall(text))):
        try:
            yield json.loads(candidate.strip())
        except (ValueError, RecursionError):
            continue
