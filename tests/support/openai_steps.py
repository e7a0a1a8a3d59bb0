"""What a scripted server does with one request: a step is a list of stream items, or a whole body."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Frame:
    """A whole `data:` frame, as it is."""

    data: Any


@dataclass(frozen=True)
class Line:
    """Raw text in the stream, as it is: comments, garbage, half frames. Bytes for what is not UTF-8."""

    text: str | bytes


@dataclass(frozen=True)
class Wait:
    """Nothing for some seconds; None waits until the client goes or the server stops."""

    seconds: float | None = None


@dataclass(frozen=True)
class Break:
    """The connection ends here, without the end that HTTP wants. `reset` sends a TCP reset."""

    reset: bool = False


Item: TypeAlias = Json | Frame | Line | Wait | Break
"""A plain dict is a delta of choice 0."""

DEFAULT_USAGE: Json = {"default": True}
"""Counted by the server, sent only where the request asked for it."""


@dataclass(frozen=True)
class Step:
    """The answer to one request. `body` (any JSON, or bytes) replaces the stream: errors, JSON to a stream request."""

    items: tuple[Item, ...] = ()
    finish: str | None = "stop"
    usage: Json | Sequence[Json] | None = field(default_factory=lambda: DEFAULT_USAGE)
    usage_in_finish: bool = False
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    delay: float = 0.0
    chunk_delay: float = 0.0
    done_marker: bool = True
    opening: bool = True
    end_frame: bool = True
    name: str = ""

    def with_(self, **changes: Any) -> "Step":
        """A copy with other fields, for what the helpers do not name."""
        return replace(self, **changes)


def split(text: str, chunks: int | Sequence[str] | None) -> list[str]:
    """The text in pieces of that many characters, in the given pieces, or whole."""
    if chunks is None:
        return [text] if text else []
    if isinstance(chunks, int):
        return [text[at : at + chunks] for at in range(0, len(text), chunks)]
    return list(chunks)


def _reasoning(text: str, name: str, chunks: int | Sequence[str] | None) -> list[Item]:
    if name == "reasoning_details":
        return [
            {name: [{"type": "reasoning.text", "text": piece, "index": 0, "format": "unknown"}]}
            for piece in split(text, chunks)
        ]
    return [{name: piece} for piece in split(text, chunks)]


def _text_items(
    text: str,
    chunks: int | Sequence[str] | None,
    reasoning: str,
    reasoning_field: str,
    think: str,
) -> list[Item]:
    items = _reasoning(reasoning, reasoning_field, chunks if isinstance(chunks, int) else None)
    if think:
        text = f"<think>{think}</think>{text}"
    return [*items, *({"content": piece} for piece in split(text, chunks))]


def say(
    text: str = "",
    *,
    chunks: int | Sequence[str] | None = None,
    reasoning: str = "",
    reasoning_field: str = "reasoning_content",
    think: str = "",
    finish: str | None = "stop",
    **fields: Any,
) -> Step:
    """Text in pieces. `reasoning` goes into `reasoning_field`; `think` goes inline, in tags, before the text."""
    return Step(
        tuple(_text_items(text, chunks, reasoning, reasoning_field, think)),
        finish=finish,
        name=f"say {text[:40]!r}",
        **fields,
    )


def call(
    *calls: tuple[str, Any] | Json,
    text: str = "",
    chunks: int | Sequence[str] | None = None,
    reasoning: str = "",
    reasoning_field: str = "reasoning_content",
    think: str = "",
    argument_chunk: int | None = None,
    ids: Sequence[str | None] | None = None,
    finish: str | None = "tool_calls",
    **fields: Any,
) -> Step:
    """Tool calls as OpenAI streams them. A call is `(name, args)` (args as dict, or as raw text), or a raw delta
    dict `{index?, id?, name?, arguments?}`. `argument_chunk` cuts the arguments into pieces of that many characters."""
    items = _text_items(text, chunks, reasoning, reasoning_field, think)
    for at, each in enumerate(calls):
        if isinstance(each, dict):
            items.append({"tool_calls": [_raw_call(each)]})
            continue
        name, args = each
        arguments = args if isinstance(args, str) else json.dumps(args)
        call_id = ids[at] if ids is not None else f"call_{at}_{name}"
        first, *rest = split(arguments, argument_chunk) or [""]
        head: Json = {"index": at, "type": "function", "function": {"name": name, "arguments": first}}
        if call_id is not None:
            head["id"] = call_id
        items.append({"tool_calls": [head]})
        items += [{"tool_calls": [{"index": at, "function": {"arguments": piece}}]} for piece in rest]
    return Step(tuple(items), finish=finish, name=f"call {[_name(each) for each in calls]}", **fields)


def _name(each: tuple[str, Any] | Json) -> Any:
    return each.get("name") if isinstance(each, dict) else each[0]


def _raw_call(each: Json) -> Json:
    """`name` and `arguments` move into `function`; everything else stays as it was given."""
    function = {key: each[key] for key in ("name", "arguments") if key in each}
    rest = {key: value for key, value in each.items() if key not in ("name", "arguments")}
    return {**rest, "function": function} if function else rest


def error(status: int, body: Any = None, *, headers: Mapping[str, str] | None = None, **fields: Any) -> Step:
    """An HTTP error. `body` None gives OpenAI's shape; a str becomes its message; bytes go out as they are."""
    if body is None or isinstance(body, str):
        kind = "invalid_request_error" if status < 500 else "server_error"
        body = {"error": {"message": body or f"scripted error {status}", "type": kind, "param": None, "code": None}}
    return Step(status=status, body=body, headers=dict(headers or {}), name=f"error {status}", **fields)


def raw(items: Iterable[Any], *, finish: str | None = None, **fields: Any) -> Step:
    """A stream given frame by frame and nothing added to it: no opening delta, no end frame, no `[DONE]`.

    A dict is a whole frame, a str or bytes a raw line, a float or int a pause in seconds, and stream items are kept.
    """
    made: list[Item] = []
    for each in items:
        if isinstance(each, (Frame, Line, Wait, Break)):
            made.append(each)
        elif isinstance(each, (str, bytes)):
            made.append(Line(each))
        elif isinstance(each, (int, float)):
            made.append(Wait(float(each)))
        else:
            made.append(Frame(each))
    defaults: Json = {"usage": None, "done_marker": False, "opening": False, "end_frame": finish is not None}
    return Step(tuple(made), finish=finish, name="raw", **{**defaults, **fields})


def broken(step: Step, *, after: int | None = None, reset: bool = False) -> Step:
    """The step, with the connection broken after that many of its items (None: after all of them)."""
    kept = step.items if after is None else step.items[:after]
    return step.with_(items=(*kept, Break(reset)), name=f"broken {step.name}")


def hanging(step: Step | None = None, *, after: int | None = None) -> Step:
    """The step, silent for ever after that many of its items (None: after all). No step: no answer at all."""
    if step is None:
        return Step((Wait(None),), opening=False, name="hang")
    kept = step.items if after is None else step.items[:after]
    return step.with_(items=(*kept, Wait(None)), name=f"hanging {step.name}")


def text_frame(text: str, **more: Any) -> Json:
    """A whole frame with a text delta, for `raw`."""
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more}


def message_of(step: Step) -> Json:
    """The one message that a request without `stream` gets: deltas joined, calls put together by index.

    Bodies of frames given to `raw` count too, by their `choices[0].delta`.
    """
    message: Json = {"role": "assistant", "content": None}
    calls: dict[Any, Json] = {}
    for item in step.items:
        delta = item if isinstance(item, dict) else _delta(item)
        for key, value in delta.items():
            if key == "tool_calls":
                for fragment in value:
                    _put(calls, fragment)
            elif isinstance(value, str) and key != "role":
                message[key] = (message.get(key) or "") + value
            elif isinstance(value, list):
                message[key] = [*(message.get(key) or []), *value]
    if calls:
        message["tool_calls"] = list(calls.values())
    return message


def _delta(item: Item) -> Json:
    choices = item.data.get("choices") if isinstance(item, Frame) and isinstance(item.data, dict) else None
    return (choices[0].get("delta") or {}) if choices else {}


def _put(calls: dict[Any, Json], fragment: Json) -> None:
    key = fragment.get("index", fragment.get("id", len(calls)))
    if key not in calls:
        calls[key] = json.loads(json.dumps({k: v for k, v in fragment.items() if k != "index"}))
        return
    function, more = calls[key].setdefault("function", {}), fragment.get("function", {})
    function["arguments"] = function.get("arguments", "") + (more.get("arguments") or "")
    if more.get("name"):
        function["name"] = more["name"]


Script: TypeAlias = Step | Callable[[Any], Step]
"""A step, or a function from the recorded request to a step."""
