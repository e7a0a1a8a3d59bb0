"""The payload of a pause: what waits, in the shape that human-in-the-loop UIs draw, and in words for people. Pure."""

import json
from collections.abc import Iterable
from typing import Any, cast

from turngraph.state.decisions import ActionRequest, PausePayload, PendingRequest, ReviewConfig
from turngraph.tools import texts
from turngraph.tools.plan import Wait

PAYLOAD_VERSION = 1
_SHOWN_ARGS = 2_000
"""Characters of arguments in a description; `args` beside it is whole."""


def build_payload(turn_id: str, waiting: Iterable[Wait], error: str | None = None) -> PausePayload:
    """The value of the one `interrupt()` of a batch. Law: its three lists are parallel, in the order of `waiting`."""
    waits = list(waiting)
    return {
        "action_requests": [_action(wait) for wait in waits],
        "review_configs": [_review(wait) for wait in waits],
        "turngraph": {
            "version": PAYLOAD_VERSION,
            "turn_id": turn_id,
            "error": error,
            "requests": [_request(wait) for wait in waits],
        },
    }


def _action(wait: Wait) -> ActionRequest:
    return {"name": wait.call["name"], "args": wait.call["args"], "description": describe(wait)}


def _review(wait: Wait) -> ReviewConfig:
    # A UI that draws no "respond" leaves a question without any field, so declining it with words is offered, too.
    allowed = ["reject", "respond"] if wait.kind == "ask_user" else ["approve", "edit", "reject", "respond"]
    return {"action_name": wait.call["name"], "allowed_decisions": allowed}


def _request(wait: Wait) -> PendingRequest:
    request: PendingRequest = {
        "call_id": wait.call["id"],
        "kind": wait.kind,
        "digest": wait.digest,
        "extra_decisions": ["abandon"] if wait.kind == "ask_user" else ["always", "abandon"],
    }
    if wait.kind == "ask_user":
        request["questions"] = [dict(question) for question in wait.questions]
    return request


def describe(wait: Wait) -> str:
    """What a person is asked, in words: the questions, or the call with its arguments."""
    if wait.kind == "ask_user":
        return texts.describe_questions([dict(question) for question in wait.questions])
    shown = json.dumps(wait.call["args"], ensure_ascii=False, default=str)
    if len(shown) > _SHOWN_ARGS:
        shown = f"{shown[:_SHOWN_ARGS]} … ({len(shown) - _SHOWN_ARGS:,} more characters, see args)"
    return (texts.describe_unknown if wait.unknown else texts.describe_call)(wait.call["name"], shown)


def question_text(payload: PausePayload) -> str:
    """What waits as one text: the questions where there are any, else the calls to allow; "" where nothing waits."""
    requests = cast(list[Any], payload["turngraph"]["requests"])
    shown = list(zip(requests, payload["action_requests"], strict=True))
    asked = [action["description"] for request, action in shown if request["kind"] == "ask_user"]
    return "\n\n".join(asked or [action["description"] for _, action in shown])
