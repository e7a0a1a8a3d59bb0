"""A strict reader of an outgoing message list: what the strictest providers refuse, each refusal an assertion."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

_ROLES = {SystemMessage: "system", HumanMessage: "user", AIMessage: "assistant", ToolMessage: "tool"}


@dataclass(frozen=True)
class _Row:
    role: str
    content: Any
    calls: tuple[tuple[Any, Any, Any], ...] = ()
    """(id, name, arguments): arguments as a JSON string or an object."""
    answers: Any = None


def assert_valid_history(
    messages: Sequence[BaseMessage | Mapping[str, Any]],
    *,
    system: bool = True,
    alternate: bool = False,
    string_tool_content: bool = True,
) -> None:
    """Fails where a strict provider would refuse the list. Takes LangChain messages or OpenAI chat dicts.

    Exactly one system message, first (none at all with `system=False`); no assistant message last; each call answered
    exactly once, directly after its message, in call order; no other results; no empty texts; call ids unique;
    arguments JSON objects. With `alternate`: user first, and never two user or two assistant messages side by side,
    nor a user message after a result.
    """
    rows = [_row(message) for message in messages]
    roles = [row.role for row in rows]
    assert roles.count("system") == int(system), f"system messages: {roles.count('system')} in {roles}"
    assert not system or roles[0] == "system", f"the system message is not first: {roles}"
    assert any(role != "system" for role in roles), "nothing but a system message"
    assert roles[-1] != "assistant", f"the assistant is last: {roles}"
    first = next(role for role in roles if role != "system")
    assert first == "user", f"the conversation opens with {first}: {roles}"
    for at, row in enumerate(rows):
        _assert_content(at, row, string_tool_content)
    _assert_calls(rows)
    if alternate:
        for before, after in pairwise(role for role in roles if role != "system"):
            assert before != after or before == "tool", f"two {before} messages side by side: {roles}"
            assert (before, after) != ("tool", "user"), f"a user message directly after a result: {roles}"


def _row(message: BaseMessage | Mapping[str, Any]) -> _Row:
    if isinstance(message, BaseMessage):
        kind = next((role for cls, role in _ROLES.items() if isinstance(message, cls)), None)
        assert kind is not None, f"a {type(message).__name__} cannot be sent"
        left = {"turngraph", "raw_text", "tool_calls", "function_call"} & set(message.additional_kwargs)
        assert not left, f"additional_kwargs that are not for the model: {left}"
        if isinstance(message, AIMessage):
            assert not message.invalid_tool_calls, "invalid tool calls would be sent"
            calls = tuple((call["id"], call["name"], call["args"]) for call in message.tool_calls)
            return _Row("assistant", message.content, calls)
        return _Row(kind, message.content, answers=getattr(message, "tool_call_id", None))
    role = "system" if message.get("role") == "developer" else message.get("role")
    assert role in _ROLES.values(), f"unknown role {role!r}"
    made = message.get("tool_calls") or ()
    calls = tuple(
        (c.get("id"), c.get("function", {}).get("name"), c.get("function", {}).get("arguments")) for c in made
    )
    return _Row(str(role), message.get("content"), calls, message.get("tool_call_id"))


def _assert_content(at: int, row: _Row, string_tool_content: bool) -> None:
    where = f"message {at} ({row.role})"
    if row.role == "tool" and string_tool_content:
        assert isinstance(row.content, str), f"{where}: content is not a string: {row.content!r}"
    if isinstance(row.content, list):
        for block in row.content:
            text = block if isinstance(block, str) else block.get("text", "-") if block.get("type") == "text" else "-"
            assert str(text).strip(), f"{where}: an empty text block"
    empty = row.content is None or not row.content or (isinstance(row.content, str) and not row.content.strip())
    assert not empty or row.calls, f"{where}: no content and no calls"
    raw = json.dumps(row.content, ensure_ascii=False)
    assert "\\u0000" not in raw, f"{where}: NUL"
    assert not any("\ud800" <= char <= "\udfff" for char in raw), f"{where}: a lone surrogate"


def _assert_calls(rows: Sequence[_Row]) -> None:
    seen: set[str] = set()
    waiting: list[str] = []
    for at, row in enumerate(rows):
        if row.role == "tool":
            assert waiting, f"message {at}: a result that answers no call: {row.answers!r}"
            assert row.answers == waiting[0], f"message {at}: result of {row.answers!r}, expected {waiting[0]!r}"
            waiting.pop(0)
            continue
        assert not waiting, f"message {at} ({row.role}) stands before the results of {waiting}"
        for call_id, name, arguments in row.calls:
            assert isinstance(call_id, str), f"message {at}: call id {call_id!r}"
            assert call_id, f"message {at}: an empty call id"
            assert name, f"message {at}: a call without a name"
            assert call_id not in seen, f"message {at}: call id {call_id!r} is not unique"
            seen.add(call_id)
            waiting.append(call_id)
            parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
            assert isinstance(parsed, dict), f"message {at}: arguments are no JSON object: {arguments!r}"
            json.dumps(parsed, allow_nan=False).encode()
    assert not waiting, f"unanswered calls at the end: {waiting}"
