"""problems_of: what is wrong with a JSON value by a JSON schema, for the keywords that answers are described with."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_MAX_DEPTH = 60


def problems_of(value: Any, schema: Any) -> list[str]:
    """Each problem with its path, such as `items[2].price: must be a number`; empty where the value fits.

    Keywords that are not known (formats, `$dynamicRef`) allow everything. Never raises.
    """
    return list(_problems(value, schema, schema, "", 0))


def _problems(value: Any, schema: Any, root: Any, path: str, depth: int) -> Iterator[str]:
    if schema is True or not isinstance(schema, Mapping):
        if schema is False:
            yield f"{_at(path)}: is not allowed here"
        return
    if depth > _MAX_DEPTH:
        return
    if isinstance(reference := schema.get("$ref"), str):
        target = _resolved(reference, root)
        if target is not None:
            yield from _problems(value, target, root, path, depth + 1)
    yield from _own(value, schema, path)
    if isinstance(value, dict):
        yield from _fields(value, schema, root, path, depth)
    if isinstance(value, list):
        yield from _items(value, schema, root, path, depth)
    yield from _combined(value, schema, root, path, depth)


def _resolved(reference: str, root: Any) -> Any:
    if reference == "#":
        return root
    found = root
    for step in reference.removeprefix("#/").split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or step not in found:
            return None
        found = found[step]
    return found


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _whole(value: Any) -> bool:
    return _number(value) and (isinstance(value, int) or (math.isfinite(value) and value.is_integer()))


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": _number,
    "integer": _whole,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


def _own(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """The checks that look at the value alone."""
    kinds = schema.get("type")
    if kinds is not None:
        names = [kinds] if isinstance(kinds, str) else list(kinds)
        if not any(name not in _TYPES or _TYPES[name](value) for name in names):
            yield f"{_at(path)}: must be {' or '.join(names)}"
            return
    if "enum" in schema and not any(_same(value, each) for each in schema["enum"]):
        yield f"{_at(path)}: must be one of {', '.join(map(repr, schema['enum'][:20]))}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{_at(path)}: must be {schema['const']!r}"
    for keyword, applies, fits, said in _BOUNDS:
        limit = schema.get(keyword)
        if limit is not None and not isinstance(limit, bool) and applies(value) and not fits(value, limit):
            yield f"{_at(path)}: {said} {limit}"
    if isinstance(value, str) and isinstance(pattern := schema.get("pattern"), str):
        try:
            found = re.search(pattern, value)
        except re.error:
            return
        if found is None:
            yield f"{_at(path)}: must match the pattern {pattern}"


_BOUNDS: tuple[tuple[str, Callable[[Any], bool], Callable[[Any, Any], bool], str], ...] = (
    ("minimum", _number, lambda value, limit: value >= limit, "must be at least"),
    ("maximum", _number, lambda value, limit: value <= limit, "must be at most"),
    ("exclusiveMinimum", _number, lambda value, limit: value > limit, "must be above"),
    ("exclusiveMaximum", _number, lambda value, limit: value < limit, "must be below"),
    ("multipleOf", _number, lambda value, limit: math.isclose(value / limit, round(value / limit)) if limit else True,
     "must be a multiple of"),
    ("minLength", _TYPES["string"], lambda value, limit: len(value) >= limit, "must have a length of at least"),
    ("maxLength", _TYPES["string"], lambda value, limit: len(value) <= limit, "must have a length of at most"),
    ("minItems", _TYPES["array"], lambda value, limit: len(value) >= limit, "must have at least this many items:"),
    ("maxItems", _TYPES["array"], lambda value, limit: len(value) <= limit, "must have at most this many items:"),
    ("minProperties", _TYPES["object"], lambda value, limit: len(value) >= limit, "needs at least this many fields:"),
    ("maxProperties", _TYPES["object"], lambda value, limit: len(value) <= limit, "may have at most this many fields:"),
)  # fmt: skip


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _fields(value: dict[str, Any], schema: Mapping[str, Any], root: Any, path: str, depth: int) -> Iterator[str]:
    known = schema.get("properties") or {}
    for name in schema.get("required") or ():
        if name not in value:
            yield f"{_at(f'{path}.{name}')}: is missing"
    patterns = schema.get("patternProperties") or {}
    for name, each in value.items():
        where = f"{path}.{name}"
        matching = [known[name]] if name in known else []
        matching += [inner for pattern, inner in patterns.items() if re.search(pattern, name)]
        if not matching and schema.get("additionalProperties") is False:
            yield f"{_at(where)}: is not a field of this object (fields: {', '.join(sorted(known)) or 'none'})"
        elif not matching:
            matching = [schema.get("additionalProperties", True)]
        for inner in matching:
            yield from _problems(each, inner, root, where, depth + 1)


def _items(value: list[Any], schema: Mapping[str, Any], root: Any, path: str, depth: int) -> Iterator[str]:
    first = schema.get("prefixItems") or []
    for at, each in enumerate(value):
        inner = first[at] if at < len(first) else schema.get("items", True)
        yield from _problems(each, inner, root, f"{path}[{at}]", depth + 1)
    if schema.get("uniqueItems") is True and any(_same(a, b) for at, a in enumerate(value) for b in value[:at]):
        yield f"{_at(path)}: items must differ from each other"


def _combined(value: Any, schema: Mapping[str, Any], root: Any, path: str, depth: int) -> Iterator[str]:
    def fits(inner: Any) -> bool:
        return next(_problems(value, inner, root, path, depth + 1), None) is None

    for inner in schema.get("allOf") or ():
        yield from _problems(value, inner, root, path, depth + 1)
    if choices := schema.get("anyOf"):
        yield from _nearest(value, choices, root, path, depth)
    if (choices := schema.get("oneOf")) and (count := sum(map(fits, choices))) != 1:
        if count:
            yield f"{_at(path)}: fits more than one of the allowed forms"
        else:
            yield from _nearest(value, choices, root, path, depth)
    if "not" in schema and fits(schema["not"]):
        yield f"{_at(path)}: has a form that is not allowed"
    if "if" in schema:
        branch = "then" if fits(schema["if"]) else "else"
        if branch in schema:
            yield from _problems(value, schema[branch], root, path, depth + 1)


def _nearest(value: Any, choices: Any, root: Any, path: str, depth: int) -> list[str]:
    """Nothing where one of the choices fits, else the problems of the one that fits best."""
    found = [list(_problems(value, each, root, path, depth + 1)) for each in choices]
    return min(found, key=len)


def _at(path: str) -> str:
    return path.removeprefix(".") or "the value"
