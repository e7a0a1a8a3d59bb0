"""What the offline model finds in a request: the user's own words, the results so far, an order to finish."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

NOTE_LABEL = "[Instruction from the system that runs this turn, not from the user]"
SEED_LABEL = "[Context gathered for this message]"
BLOCK_LABELS = ("[Summary of the earlier conversation]", "[Context checkpoint]")
"""How a rendered request marks what no user wrote."""

_FINISH = re.compile(r"\bFinish now(?:: (?P<why>[^.\n]+))?", re.I)
_NOT_RUN = re.compile(r"^(?:Rejected|Denied|Not run|Not answered|Cancelled|Outcome unknown|The user declined)\b")


@dataclass(frozen=True)
class Result:
    """One call and how it ended. `refused`: it did not run. `failed`: it ran and failed."""

    name: str
    args: dict[str, Any]
    text: str
    outcome: Literal["ok", "failed", "refused"]


@dataclass(frozen=True)
class Reading:
    """`question` is the user's last message; `pending` is what no call was made for yet."""

    question: str
    pending: str
    results: tuple[Result, ...]
    finish_reason: str


def read(messages: Sequence[BaseMessage]) -> Reading:
    """Everything after the last finished answer. An instruction holds only where it stands after the user's words."""
    start = max((at for at, each in enumerate(messages) if _ends_turn(each)), default=-1) + 1
    current = messages[start:]
    if not any(isinstance(each, HumanMessage) and user_text(each) for each in current):
        current = messages  # the answer was cut and is being continued, or a caller left the answer last
    asked = [(at, text) for at, each in enumerate(current) if (text := user_text(each))]
    called = max((at for at, each in enumerate(current) if isinstance(each, AIMessage) and each.tool_calls), default=-1)
    pending = "\n".join(text for at, text in asked if at > called)
    since = asked[-1][0] if asked else 0
    reasons = [match for each in current[since:] if (match := _FINISH.search(_instructions(each)))]
    finish = (reasons[-1]["why"] or "I was told to finish") if reasons else ""
    return Reading(asked[-1][1] if asked else "", pending, tuple(_results(current)), finish)


def user_text(message: BaseMessage) -> str:
    """What a user wrote in a message; empty for every other message, and for what a turn wrote in the user's place."""
    if not isinstance(message, HumanMessage) or message.text.startswith(BLOCK_LABELS):
        return ""
    text = str(message.text)
    for label in (NOTE_LABEL, SEED_LABEL):
        text = text.partition(label)[0]
    return text.strip()


def _instructions(message: BaseMessage) -> str:
    if not isinstance(message, HumanMessage):
        return ""
    return message.text.partition(NOTE_LABEL)[2]


def _ends_turn(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and not message.tool_calls and bool(message.text.strip())


def _results(messages: Sequence[BaseMessage]) -> list[Result]:
    calls = {
        call["id"]: (call["name"], dict(call["args"]))
        for each in messages
        if isinstance(each, AIMessage)
        for call in each.tool_calls
    }
    results = []
    for each in messages:
        if isinstance(each, ToolMessage):
            name, args = calls.get(each.tool_call_id, (each.name or "tool", {}))
            results.append(Result(name, args, each.text.strip(), _outcome(each)))
    return results


def _outcome(message: ToolMessage) -> Literal["ok", "failed", "refused"]:
    if _NOT_RUN.match(message.text.strip()):
        return "refused"
    return "failed" if message.status == "error" else "ok"
