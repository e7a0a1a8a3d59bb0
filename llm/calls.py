"""Tool calls of a model made safe: a unique id, a known name, a JSON object as arguments, or a stated problem."""

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, AIMessageChunk

from turngraph.llm.call_assembler import CallAssembler, CallFragment, Payload, RawCall
from turngraph.llm.json_scanner import JsonScanner
from turngraph.llm.storable import clean_text
from turngraph.state.calls import Call, CallProblem

__all__ = ["CallAssembler", "CallFragment", "NormalisedCalls", "RawCall", "from_langchain", "normalise_calls"]

MAX_DEPTH = 100
"""Levels of nesting in arguments; msgpack and pydantic give up at about twice that."""

_INTEGERS = range(-(2**63), 2**64)
"""What msgpack can store."""

_SHOWN_NAMES = 40
_PROVIDER_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True)
class NormalisedCalls:
    """`calls[i]` is raw call `i`, storable as it is. A call whose id is in `problems` must not run.

    `renamed` maps an id that collided to the id that its call has now (the last one, where one id came three times).
    """

    calls: list[Call] = field(default_factory=list)
    problems: dict[str, CallProblem] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)


class _BadArgumentsError(ValueError):
    """The arguments are no JSON object; the text goes to the model."""


def normalise_calls(
    raw: Sequence[RawCall],
    *,
    offered: Collection[str],
    taken_ids: Collection[str],
    cut: bool,
    new_id: Callable[[], str],
) -> NormalisedCalls:
    """The calls of one message, in order, each either ready to run or with its problem.

    `offered`: names that may be called now. `taken_ids`: ids of earlier calls of the thread. `cut`: the output
    stops before its own end (`is_cut`); then a call whose text is not whole, blank text included, is `cut_off`.
    Blank and null arguments mean `{}`; text that holds a JSON string is unwrapped once. JSON is never repaired.

    Laws: ids are unique and not in `taken_ids`; every `args` survives a round trip through JSON and msgpack; a bad
    call changes nothing about its siblings.
    """
    out = NormalisedCalls()
    used = set(taken_ids)
    for each in raw:
        asked = clean_text(each.id or "").strip()
        call_id = asked if asked and asked not in used else _fresh(new_id, used)
        if asked and call_id != asked:
            out.renamed[asked] = call_id
        used.add(call_id)
        args, problem = _arguments(each.arguments, cut)
        name = clean_text(each.name or "").strip()
        if name not in offered and (problem is None or problem["code"] != "cut_off"):
            problem = CallProblem(code="unknown_tool", text=_unknown(name, offered))
        stored = name if name in offered else _provider_name(name)
        out.calls.append(Call(id=call_id, name=stored, args=args))
        if problem is not None:
            out.problems[call_id] = problem
    return out


def _fresh(new_id: Callable[[], str], used: Collection[str]) -> str:
    """An id that is not used yet, even where `new_id` repeats itself."""
    made = new_id()
    candidate, count = made, 1
    while candidate in used or not candidate:
        count += 1
        candidate = f"{made or 'call'}_{count}"
    return candidate


def _provider_name(asked: str) -> str:
    """A name that every provider takes in history, as near as can be to what was asked."""
    if _PROVIDER_NAME.fullmatch(asked):
        return asked
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", asked).strip("_")[:64] or "unnamed_tool"


def _unknown(asked: str, offered: Collection[str]) -> str:
    """What the model is told about a name that it cannot call: the names that look like it first."""
    shown = asked if len(asked) <= 80 else asked[:80] + "…"
    said = f"There is no tool named {json.dumps(shown, ensure_ascii=False)}." if asked else "The call names no tool."
    names = sorted(offered)
    if not names:
        return f"{said} No tool can be called now."
    folded = {name.lower(): name for name in reversed(names)}
    close = [folded[each] for each in get_close_matches(asked.lower()[:80], folded, n=3, cutoff=0.6)]
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    listed = close + [name for name in names if name not in close]
    more = f" and {len(listed) - _SHOWN_NAMES} more" if len(listed) > _SHOWN_NAMES else ""
    return f"{said}{hint} Tools that can be called: {', '.join(listed[:_SHOWN_NAMES])}{more}."


_Parsed: TypeAlias = tuple[dict[str, Any], CallProblem | None]


def _arguments(payload: Payload, cut: bool) -> _Parsed:
    """The arguments as a storable object, or `{}` and the problem."""
    if cut and not _is_whole(payload):
        return {}, CallProblem(
            code="cut_off",
            text="The output was cut off before the arguments of this call were whole, so the call was not run. "
            "Call again and send less at once: shorter arguments, or the work in several smaller calls.",
        )
    try:
        return _object(payload), None
    except _BadArgumentsError as problem:
        return {}, CallProblem(
            code="bad_arguments",
            text=f"The arguments of this call {problem}, so the call was not run. "
            "Call again with one valid JSON object as arguments.",
        )


def _is_whole(payload: Payload) -> bool:
    """False for text that may go on: nothing yet, an open bracket or quote, a word or number that is no JSON yet."""
    if payload is None:
        return False
    if not isinstance(payload, str):
        return True
    scanner = JsonScanner()
    scanner.feed(payload)
    if scanner.extent == "open":
        try:
            _parse(payload)
        except _BadArgumentsError:
            return False
    return scanner.extent != "blank"


def _object(payload: Payload) -> dict[str, Any]:
    if payload is not None and not isinstance(payload, str):
        payload = _dumped(payload)
    value = _parse(payload or "")
    if isinstance(value, str):
        value = _parse(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        kinds = {list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
        raise _BadArgumentsError(f"are {kinds[type(value)]}, not an object with named fields")
    try:
        return {clean_text(key): _stored(each, 1) for key, each in value.items()}
    except RecursionError:
        raise _BadArgumentsError("are nested too deeply") from None


def _dumped(value: Mapping[str, Any] | list[Any]) -> str:
    """A parsed value as JSON text, so that one path checks everything."""
    try:
        return json.dumps(dict(value) if isinstance(value, Mapping) else value)
    except RecursionError:
        raise _BadArgumentsError("are nested too deeply") from None
    except (TypeError, ValueError):
        raise _BadArgumentsError("hold a value that JSON does not have") from None


def _parse(text: str) -> Any:
    """One JSON value; blank is None. Raw line breaks inside strings are taken, since their meaning is certain."""
    if not text.strip():
        return None
    try:
        return json.loads(text.strip(), strict=False)
    except json.JSONDecodeError as error:
        raise _BadArgumentsError(f"are not valid JSON ({error.msg} at character {error.pos})") from None
    except ValueError:
        raise _BadArgumentsError("hold a number with too many digits") from None
    except RecursionError:
        raise _BadArgumentsError("are nested too deeply") from None


def _stored(value: Any, depth: int) -> Any:
    """The value with text that can be stored; raises where a part of it can not."""
    match value:
        case str():
            return clean_text(value)
        case float() if not math.isfinite(value):
            raise _BadArgumentsError("hold a number that JSON does not have (NaN or infinity)")
        case int() if value not in _INTEGERS:
            raise _BadArgumentsError("hold a whole number beyond 64 bits; write it as a string")
        case dict() | list() if depth >= MAX_DEPTH:
            raise _BadArgumentsError(f"are nested more than {MAX_DEPTH} levels deep")
        case dict():
            return {clean_text(key): _stored(each, depth + 1) for key, each in value.items()}
        case list():
            return [_stored(each, depth + 1) for each in value]
        case _:
            return value


def from_langchain(message: AIMessage) -> list[RawCall]:
    """The calls of a finished message of any LangChain model, valid and invalid ones, in the order of the model.

    A streamed message keeps the raw text of its calls beside the parsed ones, and LangChain closes text that was cut
    when it parses: there the raw text is taken.
    """
    if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
        chunks = message.tool_call_chunks
        return [RawCall(each.get("id"), each.get("name"), each.get("args")) for each in chunks]
    found = [RawCall(each.get("id"), each.get("name"), each.get("args")) for each in message.tool_calls]
    found += [RawCall(each.get("id"), each.get("name"), each.get("args")) for each in message.invalid_tool_calls]
    if not message.invalid_tool_calls:
        return found
    places: dict[str, int] = {}
    for call_id in _ids_in_order(message):
        places.setdefault(call_id, len(places))
    return sorted(found, key=lambda call: places.get(call.id or "", len(places)))


def _ids_in_order(message: AIMessage) -> Iterator[str]:
    """Ids of calls as the provider's own records in the message have them."""
    recorded = message.additional_kwargs.get("tool_calls")
    blocks = message.content if isinstance(message.content, list) else []
    for entry in [*(recorded if isinstance(recorded, list) else []), *blocks]:
        if isinstance(entry, Mapping) and isinstance(call_id := entry.get("id"), str):
            yield call_id
