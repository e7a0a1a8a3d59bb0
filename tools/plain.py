"""Any Python value as plain JSON that every store takes."""

import dataclasses
import json
import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from turngraph.tools import texts
from turngraph.tools.clean import clean

_MAX_DEPTH = 60


def as_json(value: Any, depth: int = 0) -> Any:
    """Any value as plain JSON that can be stored. Dates, paths and numbers of other kinds become their text, objects
    their public fields, bytes a placeholder; what is nested deeper than 60 levels (a cycle, say) is left out."""
    if value is None or isinstance(value, bool) or type(value) is int:
        return value
    if isinstance(value, str):
        return clean(str(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if depth >= _MAX_DEPTH:
        return "[nested too deeply]"
    match value:
        case bytes() | bytearray() | memoryview():
            return texts.placeholder(f"{len(bytes(value)):,} bytes")
        case Enum():
            return as_json(value.value, depth + 1)
        case Mapping():
            return {clean(str(key)): as_json(item, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [as_json(item, depth + 1) for item in value]
        case set() | frozenset():
            return sorted((as_json(item, depth + 1) for item in value), key=lambda item: json.dumps(item))
    return _object(value, depth)


def _object(value: Any, depth: int) -> Any:
    """An object: its fields where it is a record, its text where it has one of its own, else what it is."""
    kind = type(value)
    try:
        if isinstance(value, BaseMessage):
            return as_json(value.content, depth + 1)
        if isinstance(value, BaseModel):
            return as_json(value.model_dump(mode="json"), depth + 1)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            return as_json(fields, depth + 1)
        if isinstance(value, BaseException):
            return clean(f"{kind.__name__}: {value}")
        if "__str__" in _own_names(kind) or "__repr__" in _own_names(kind):
            text = str(value)
            return texts.placeholder(f"{kind.__name__} object") if " at 0x" in text else clean(text)
        public = {name: item for name, item in vars(value).items() if not name.startswith("_")}
        return as_json(public, depth + 1) if public else texts.placeholder(f"{kind.__name__} object")
    except Exception:  # noqa: BLE001 - a tool's object may be broken in any way, its call still needs a result
        return texts.placeholder(f"{kind.__name__} object")


def _own_names(kind: type) -> set[str]:
    """The names that a class or its bases define themselves, `object` aside."""
    return {name for base in kind.__mro__[:-1] for name in vars(base)}
