"""From drafts of calls, in whatever dialect they were written, to calls with a name and arguments."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turngraph.llm.text_markup import Draft

_ARGUMENT_KEYS = ("arguments", "parameters", "args")
_NOT_ARGUMENTS = frozenset({"name", "type", "id", "index", *_ARGUMENT_KEYS})
_NAME_BEGUN = re.compile(r"""["'](?:name|function)["']\s*:\s*["'](?P<name>[^"'\\]*)(?P<end>["']?)""")

Schemas = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class RawTextCall:
    """One call found in text; nothing in it is checked.

    `arguments` is text where it is no whole JSON object. `raw` is the markup of the whole block, on the first call of
    a block only. A call that is not `complete` was cut off by the end of the text: it must not run, and its
    arguments are never whole JSON.
    """

    name: str
    arguments: str | dict[str, Any]
    raw: str
    complete: bool = True


@dataclass(frozen=True)
class _Call:
    name: str
    arguments: str | dict[str, Any]
    complete: bool = True


def calls_of(
    drafts: Sequence[Draft],
    *,
    raw: str,
    known: Callable[[str], bool],
    possible: Callable[[str], bool],
    schemas: Schemas,
) -> list[RawTextCall]:
    """The calls of one block; empty where none of them is of a known tool, since the block is text then.

    A call of an unknown tool, or of none, beside one of a known tool is reported: its sibling shows what is meant.
    """
    calls = [call for draft in drafts for call in _calls_of_draft(draft, possible, schemas)]
    if not any(known(call.name) or (not call.complete and not call.name) for call in calls):
        return []
    return [
        RawTextCall(call.name, call.arguments, "" if place else raw, call.complete) for place, call in enumerate(calls)
    ]


def whole_message_call(text: str, known: Callable[[str], bool]) -> tuple[str, str | dict[str, Any]] | None:
    """Name and arguments of a JSON object that is nothing but a call of a known tool."""
    value = _parsed(text)
    if not isinstance(value, dict) or not isinstance(name := value.get("name"), str) or not known(name):
        return None
    keys = [key for key in _ARGUMENT_KEYS if key in value]
    if len(keys) != 1 or value.keys() - {"name", "type", "id", keys[0]}:
        return None
    return name, _argument_value(value[keys[0]])


def name_begun(payload: str) -> tuple[str, bool]:
    """The name in JSON text that may be broken or cut, and whether the name itself is whole."""
    found = _NAME_BEGUN.search(payload)
    return (found["name"], bool(found["end"])) if found else ("", False)


def _calls_of_draft(draft: Draft, possible: Callable[[str], bool], schemas: Schemas) -> list[_Call]:
    if draft.name is None:
        return _calls_of_json(draft.payload or "", draft.whole, possible)
    if draft.payload is not None:
        value = _parsed(draft.payload) if draft.whole else None
        return [_Call(draft.name, value if isinstance(value, dict) else draft.payload, draft.whole)]
    if not draft.whole:
        return [_Call(draft.name, "", False)]
    properties = schemas.get(draft.name, {}).get("properties")
    fields = properties if isinstance(properties, Mapping) else {}
    return [_Call(draft.name, {key: _value(text, flag, fields.get(key)) for key, text, flag in draft.values})]


def _calls_of_json(payload: str, whole: bool, possible: Callable[[str], bool]) -> list[_Call]:
    """Calls in JSON text. Broken text gives one call if its name can be told, with the text as its arguments."""
    value = _parsed(payload)
    if whole and value is not None:
        return [_call_of_object(each) for each in (value if isinstance(value, list) else [value])]
    name, told = name_begun(payload)
    if told:
        return [_Call(name, payload, whole)]
    return [_Call("", payload, whole)] if whole or possible(name) else []


def _call_of_object(value: Any) -> _Call:
    """`{name, arguments}` under their usual keys, inside `function` too, or the arguments beside the name."""
    if not isinstance(value, dict):
        return _Call("", json.dumps(value))
    inner = value.get("function")
    if isinstance(inner, dict):
        return _call_of_object(inner)
    name = value.get("name", inner)
    if not isinstance(name, str):
        return _Call("", value)
    for key in _ARGUMENT_KEYS:
        if key in value:
            return _Call(name, _argument_value(value[key]))
    rest = {key: each for key, each in value.items() if key not in _NOT_ARGUMENTS and each is not inner}
    return _Call(name, rest)


def _argument_value(value: Any) -> str | dict[str, Any]:
    if value is None:
        return {}
    return value if isinstance(value, dict | str) else json.dumps(value)


def _value(text: str, is_string: bool | None, schema: Any) -> Any:
    """The value of a parameter that was written as text.

    What the markup says of its type holds, then the tool's schema. Without both only lists and objects are read as
    JSON: numbers and words stay text, which a tool's own validation turns into what it wants.
    """
    if is_string is None:
        text = text.removeprefix("\n").removesuffix("\n")
    types = _types(schema)
    if is_string or (is_string is None and "string" in types):
        return text
    if is_string is None and not types and text.lstrip()[:1] not in ("{", "["):
        return text
    value = _parsed(text)
    return text if value is None and text.strip() != "null" else value


def _types(schema: Any) -> set[str]:
    """JSON types that a schema allows, as far as it says so itself."""
    if not isinstance(schema, Mapping):
        return set()
    said = schema.get("type")
    found = {said} if isinstance(said, str) else {each for each in said or () if isinstance(each, str)}
    for key in ("anyOf", "oneOf"):
        for each in schema.get(key) or ():
            found |= _types(each)
    if not found and any(isinstance(each, str) for each in schema.get("enum") or ()):
        found.add("string")
    return found


def _parsed(text: str) -> Any:
    """The JSON value, None where the text is none. Raw line breaks inside strings are taken."""
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
