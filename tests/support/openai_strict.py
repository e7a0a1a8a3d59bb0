"""What strict providers refuse in a chat-completions request; pure checks over the parsed body."""

import json
from dataclasses import dataclass
from itertools import pairwise
from math import ceil
from typing import Any


@dataclass(frozen=True)
class Rules:
    """Which refusals a server makes. `strict` is what most strict providers share; the rest are single habits."""

    strict: bool = False
    no_tools: bool = False
    no_tool_choice: bool = False
    no_stream_options: bool = False
    no_temperature: bool = False
    alternate_roles: bool = False
    max_context: int | None = None


@dataclass(frozen=True)
class Refusal:
    """An HTTP error in OpenAI's shape."""

    message: str
    param: str | None = None
    code: str | None = None
    status: int = 400

    def body(self) -> dict[str, Any]:
        kind = "invalid_request_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def count(body: dict[str, Any]) -> int:
    """The server's own tokens of a request: a quarter of the bytes of messages and tools, rounded up."""
    text = json.dumps([body.get("messages", []), body.get("tools", [])], ensure_ascii=False)
    return ceil(len(text.encode("utf-8", "surrogatepass")) / 4)


def refusal(body: dict[str, Any], rules: Rules) -> Refusal | None:
    """The first thing that a server with these rules refuses, None where it takes the request."""
    if rules.no_tools and (body.get("tools") or body.get("functions")):
        return Refusal(f"{body.get('model')} does not support tools", "tools")
    if rules.no_tool_choice and "tool_choice" in body:
        return Refusal(
            "Unsupported parameter: 'tool_choice' is not supported with this model.",
            "tool_choice",
            "unsupported_parameter",
        )
    if rules.no_stream_options and "stream_options" in body:
        return Refusal("Unrecognized request argument supplied: stream_options", "stream_options", "unknown_parameter")
    if rules.no_temperature and "temperature" in body:
        return Refusal(
            "Unsupported value: 'temperature' does not support this value with this model.",
            "temperature",
            "unsupported_value",
        )
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return Refusal("'messages' must be a list with at least one message", "messages")
    if rules.max_context is not None and (used := count(body)) > rules.max_context:
        return Refusal(
            f"This model's maximum context length is {rules.max_context} tokens. However, your messages resulted"
            f" in {used} tokens. Please reduce the length of the messages.",
            "messages",
            "context_length_exceeded",
        )
    problem = None
    if rules.strict:
        problem = _system(messages) or _ends(messages) or _contents(messages) or _calls(messages) or _tools(body)
    if problem is None and rules.alternate_roles:
        problem = _alternation(messages)
    return problem


def _system(messages: list[dict[str, Any]]) -> Refusal | None:
    at = [n for n, each in enumerate(messages) if each.get("role") in ("system", "developer")]
    if len(at) > 1:
        return Refusal(f"only one system message is allowed, found {len(at)}", f"messages.[{at[1]}]")
    if at and at[0] != 0:
        return Refusal("System message must be at the beginning.", f"messages.[{at[0]}]")
    return None


def _ends(messages: list[dict[str, Any]]) -> Refusal | None:
    if messages[-1].get("role") == "assistant":
        return Refusal("the last message must not be from the assistant; prefill is not supported", "messages")
    if all(each.get("role") in ("system", "developer") for each in messages):
        return Refusal("at least one message must not be a system message", "messages")
    return None


def _contents(messages: list[dict[str, Any]]) -> Refusal | None:
    for n, each in enumerate(messages):
        role, content, where = each.get("role"), each.get("content"), f"messages.[{n}].content"
        if role == "tool" and not isinstance(content, str):
            return Refusal("tool message content must be a string", where)
        if isinstance(content, list) and any(
            part.get("type") == "text" and not str(part.get("text", "")).strip() for part in content
        ):
            return Refusal("text content blocks must be non-empty", where)
        empty = content is None or content == [] or (isinstance(content, str) and not content.strip())
        if empty and not (role == "assistant" and each.get("tool_calls")) and role != "tool":
            return Refusal(f"message content of role {role} must not be empty", where)
        if any(char == "\0" or "\ud800" <= char <= "\udfff" for text in _strings(content) for char in text):
            return Refusal("message content holds characters that are not valid text", where)
    return None


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in _strings(each)]


def _calls(messages: list[dict[str, Any]]) -> Refusal | None:
    """Each call is answered exactly once, by the tool messages that follow its message directly."""
    waiting: list[str] = []
    for n, each in enumerate(messages):
        where = f"messages.[{n}]"
        if each.get("role") == "tool":
            if each.get("tool_call_id") not in waiting:
                return Refusal(
                    "messages with role 'tool' must answer a preceding message with 'tool_calls'", f"{where}.role"
                )
            waiting.remove(each["tool_call_id"])
            continue
        if waiting:
            return _unanswered(waiting, where)
        for made in each.get("tool_calls") or []:
            problem = _bad_call(made, waiting, f"{where}.tool_calls")
            if problem:
                return problem
            waiting.append(made["id"])
    return _unanswered(waiting, "messages") if waiting else None


def _unanswered(waiting: list[str], where: str) -> Refusal:
    return Refusal(
        "an assistant message with 'tool_calls' must be followed by tool messages for each 'tool_call_id';"
        f" no response for: {', '.join(waiting)}",
        where,
    )


def _bad_call(made: dict[str, Any], seen: list[str], where: str) -> Refusal | None:
    function = made.get("function") or {}
    if not made.get("id") or not function.get("name"):
        return Refusal("a tool call needs an id and a function name", where)
    if made["id"] in seen:
        return Refusal(f"tool call id {made['id']} is not unique", where)
    try:
        arguments = json.loads(function.get("arguments") or "")
    except ValueError:
        return Refusal("function arguments must be valid JSON", f"{where}.function.arguments")
    if not isinstance(arguments, dict):
        return Refusal("function arguments must be a JSON object", f"{where}.function.arguments")
    return None


def _tools(body: dict[str, Any]) -> Refusal | None:
    names = [(each.get("function") or {}).get("name") for each in body.get("tools") or []]
    if len(names) != len(set(names)):
        return Refusal("tool names must be unique", "tools")
    if "tools" in body and not names:
        return Refusal("[] is too short - 'tools'", "tools")
    if body.get("tool_choice") and not names:
        return Refusal("'tool_choice' is only allowed when 'tools' are specified", "tool_choice")
    return None


def _alternation(messages: list[dict[str, Any]]) -> Refusal | None:
    """user first after the system message, and never two user or two assistant messages side by side."""
    roles = [each.get("role") for each in messages if each.get("role") not in ("system", "developer")]
    neighbours = pairwise(roles)
    if roles[:1] != ["user"] or any(a == b and a in ("user", "assistant") for a, b in neighbours):
        return Refusal("conversation roles must alternate user/assistant/user/assistant/...", "messages")
    return None
