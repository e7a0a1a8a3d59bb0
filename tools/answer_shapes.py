"""The raw shapes that clients resume with: wrappings, messages, older spellings. Nobody else looks at them."""

import json
from collections.abc import Mapping
from typing import Any

from langchain_core.messages import BaseMessage

_DECISIONS = frozenset({"approve", "edit", "reject", "always", "respond", "abandon"})
_OLDER = {"accept": "approve", "ignore": "reject", "response": "respond"}
_TEXT_KEYS = frozenset({"answer", "message", "text", "content", "response", "value"})
_DEPTH = 8


def unwrapped(value: Any, *, lists: bool = True) -> Any:
    """The value without what only wraps it: a list of one, a tuple, JSON text of a decision.

    A list of messages stays a list. JSON text that is not a decision stays the text that somebody typed.
    """
    for _ in range(_DEPTH):
        if isinstance(value, tuple):
            value = list(value)
        if isinstance(value, list) and len(value) == 1 and lists and not is_message_list(value):
            value = value[0]
        elif isinstance(value, str) and (decoded := _json_decision(value)) is not None:
            value = decoded
        else:
            break
    return value


def only_text(value: Any) -> Any:
    """The text in an object that holds nothing else, such as {"answer": "x"}; any other value as it is."""
    if isinstance(value, Mapping) and len(value) == 1:
        key, text = next(iter(value.items()))
        if key in _TEXT_KEYS and (text is None or isinstance(text, str | int | float | bool)):
            return text
    return value


def _json_decision(text: str) -> Any:
    """The decisions that a text holds as JSON; None for any other text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    inner = value[0] if isinstance(value, list) and value else value
    return value if isinstance(inner, dict) and ("decisions" in inner or looks_like_decision(inner)) else None


def looks_like_decision(value: Any) -> bool:
    """Whether a value is an object whose `type` is a decision's, by today's or an older name."""
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("type"), str)
        and (value["type"] in _DECISIONS or value["type"] in _OLDER)
    )


def as_decision(value: Mapping[str, Any]) -> dict[str, Any]:
    """The object with older clients' names brought to today's: accept, ignore, response, and `args` of an edit."""
    decision = dict(value)
    kind, args = decision.get("type"), decision.get("args")
    if not isinstance(kind, str):
        return decision
    decision["type"] = _OLDER.get(kind, kind)
    if kind == "response" and "message" not in decision:
        decision["message"] = args
    if kind == "edit" and "edited_action" not in decision and isinstance(args, Mapping) and "action" in args:
        decision["edited_action"] = {"name": args["action"], "args": args.get("args")}
    return decision


def is_message_list(value: Any) -> bool:
    """Whether a value is a message, or a list of messages, as objects or as their JSON."""
    items = value if isinstance(value, list | tuple) else [value]
    return bool(items) and all(_is_message(item) for item in items)


def _is_message(item: Any) -> bool:
    if isinstance(item, BaseMessage):
        return True
    if not isinstance(item, Mapping) or "content" not in item or looks_like_decision(item):
        return False
    return isinstance(item.get("role"), str) or item.get("type") in ("human", "ai", "system", "tool", "HumanMessage")


def said_by_messages(value: Any) -> str:
    """What a list of messages answers: the text of the last one that a person wrote, else of the last one."""
    items = list(value) if isinstance(value, list | tuple) else [value]
    people = [item for item in items if _role(item) in ("human", "user", "HumanMessage")]
    last = (people or items)[-1]
    content = last.content if isinstance(last, BaseMessage) else last["content"]
    return _content_text(content)


def _role(item: Any) -> str:
    if isinstance(item, BaseMessage):
        return item.type
    return str(item.get("role") or item.get("type"))


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else [content]
    parts = [
        block if isinstance(block, str) else block.get("text") for block in blocks if isinstance(block, str | Mapping)
    ]
    return "\n".join(part for part in parts if isinstance(part, str))
