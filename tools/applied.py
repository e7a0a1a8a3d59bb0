"""What a person's decision on a call leads to. Pure."""

import json
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from turngraph.state.calls import Call
from turngraph.state.decisions import Decision
from turngraph.state.words import ToolStatus
from turngraph.tools import texts
from turngraph.tools.ask import Question, answer_text
from turngraph.tools.permission import canonical_args


@dataclass(frozen=True)
class RunCall:
    """The call runs, as it was asked for or as it was edited; `note` stands before its result."""

    call: Call
    note: str = ""


@dataclass(frozen=True)
class SettleCall:
    """The call does not run; this is its result."""

    status: ToolStatus
    text: str


@dataclass(frozen=True)
class EndTurn:
    """The person ended the turn instead of deciding."""


Applied: TypeAlias = RunCall | SettleCall | EndTurn


def apply_decision(call: Call, decision: Decision, questions: list[Question] | None = None) -> Applied:
    """What a decision on a call leads to. `questions`: those of an `ask_user` call, None for any other tool."""
    match decision["type"]:
        case "approve" | "always":
            return RunCall(call)
        case "edit":
            action = cast(Any, decision)["edited_action"]
            ran: Call = {"id": call["id"], "name": action["name"], "args": action["args"]}
            same = (ran["name"], canonical_args(ran["args"])) == (call["name"], canonical_args(call["args"]))
            shown = json.dumps(ran["args"], ensure_ascii=False)
            return RunCall(ran, "" if same else texts.edited(ran["name"], shown))
        case "reject":
            message = cast(Any, decision).get("message", "")
            if questions is not None:
                return SettleCall("denied", texts.declined(message))
            return SettleCall("denied", texts.undecided() if message == texts.NO_ANSWER else texts.rejected(message))
        case "respond":
            message, answers = cast(Any, decision).get("message", ""), cast(Any, decision).get("answers", {})
            if questions is not None:
                return SettleCall("ok", answer_text(questions, answers, message))
            return SettleCall("ok", texts.responded(message))
        case "abandon":
            return EndTurn()
