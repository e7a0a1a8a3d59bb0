"""What a tool gave back or raised, taken apart: the value, its artifact, writes to the state, and errors in words."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import ToolMessage, convert_to_messages
from langchain_core.tools import BaseTool
from langchain_core.utils.pydantic import model_json_schema
from langgraph.types import Command
from pydantic import ValidationError

_log = logging.getLogger(__name__)

_SHOWN = 80
"""Characters of a wrong value that an error message quotes."""


@dataclass(frozen=True)
class Given:
    """A tool's return value as it is, its artifact, and what a Command wants written besides."""

    value: Any
    artifact: Any = None
    update: dict[str, Any] = field(default_factory=dict)
    failed: bool = False
    """The tool itself returned a tool message with status "error"."""


def read_given(value: Any, artifact: Any, call: Mapping[str, Any]) -> Given:
    """Takes a return value apart. Messages and Commands, alone or in a list, give the content of this call's message.

    Tool messages for other calls are dropped: a call has exactly one result. Where none is for this call, the only
    one there is counts, whatever its id. A Command without any gives None. `goto` of a Command is not followed; a turn
    has no nodes of the user's.
    """
    parts = value if isinstance(value, list) and value and all(map(_is_control, value)) else [value]
    if not _is_control(parts[0]):
        return Given(value, artifact)
    found: ToolMessage | None = None
    strangers: list[ToolMessage] = []
    update: dict[str, Any] = {}
    others: list[Any] = []
    for part in parts:
        if isinstance(part, Command):
            if part.goto:
                _log.warning("The tool %s returned a Command with goto, which a turn does not follow.", call["name"])
            fields = _update_of(part)
            messages = convert_to_messages(_as_list(fields.pop("messages", [])))
            update.update(fields)
        else:
            messages = [part]
        for message in messages:
            if not isinstance(message, ToolMessage):
                others.append(message)
            elif message.tool_call_id == call["id"] and found is None:
                found = message
            else:
                strangers.append(message)
    if found is None and len(strangers) == 1:
        found = strangers[0]
    if others:
        update["messages"] = others
    if found is None:
        return Given(None, None, update)
    return Given(found.content, found.artifact, update, found.status == "error")


def _is_control(value: Any) -> bool:
    return isinstance(value, ToolMessage | Command)


def _update_of(command: Command[Any]) -> dict[str, Any]:
    """A Command's update as a dict: of a dict, of (key, value) pairs, of a list of messages, or of an object."""
    update = command.update
    if update is None:
        return {}
    if isinstance(update, list) and not all(isinstance(item, tuple) and len(item) == 2 for item in update):
        return {"messages": update}
    return dict(command._update_as_tuples())


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def describe(error: BaseException) -> str:
    """An error in words for the model: type and text; of a group every member. Not redacted."""
    if isinstance(error, BaseExceptionGroup):
        members = "; ".join(describe(member) for member in error.exceptions)
        return f"{type(error).__name__}: {error.message}: {members}"
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an exception of a tool may be broken itself
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def describe_arguments(error: ValidationError, tool: BaseTool, hidden: Sequence[str] | frozenset[str]) -> str:
    """What is wrong with a call's arguments, field by field, and which fields the tool takes."""
    wrong = []
    for item in error.errors(include_url=False, include_context=False):
        if item["loc"] and item["loc"][0] in hidden:
            continue
        where = ".".join(str(step) for step in item["loc"]) or "arguments"
        given = "" if item["type"] == "missing" else f" (given: {_quoted(item['input'])})"
        wrong.append(f"{where}: {item['msg']}{given}")
    if not wrong:
        return f"The tool {tool.name} could not be given what it needs of the turn: {error.errors()[0]['msg']}."
    return f"Wrong arguments for {tool.name}: {'; '.join(wrong)}. {_fields(tool)}"


def _quoted(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _fields(tool: BaseTool) -> str:
    """The fields that the model may give, required ones marked."""
    schema = tool.tool_call_schema
    if not isinstance(schema, dict):
        schema = model_json_schema(schema)
    required = schema.get("required", [])
    names = [f"{name} (required)" if name in required else name for name in schema.get("properties", {})]
    return f"Fields: {', '.join(names)}." if names else "It takes no fields."
