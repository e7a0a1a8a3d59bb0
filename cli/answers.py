"""Options of `turngraph resume` as the value that a pause is resumed with. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from turngraph.cli.values import UsageError
from turngraph.state.decisions import ActionRequest, Decision, PausePayload, PendingRequest


@dataclass(frozen=True)
class Flags:
    """What was typed. `calls` narrows everything but `raw` to some of the pending calls."""

    approve: bool = False
    always: str | None = None
    reject: str | None = None
    respond: str | None = None
    edit: str | None = None
    answers: Sequence[str] = ()
    calls: Sequence[str] = ()
    abandon: bool = False
    raw: str | None = None

    @property
    def chosen(self) -> list[str]:
        """The options that say what to do with a call; at most one of them may be given."""
        given = {
            "--approve": self.approve,
            "--always": self.always is not None,
            "--reject": self.reject is not None,
            "--respond": self.respond is not None,
            "--edit": self.edit is not None,
            "--abandon": self.abandon,
            "--json-decisions": self.raw is not None,
        }
        return [option for option, is_given in given.items() if is_given]

    @property
    def empty(self) -> bool:
        """Whether nothing was decided: a person has to be asked."""
        return not self.chosen and not self.answers


def is_turn_payload(value: Any) -> bool:
    """Whether a pause is turngraph's own; a tool's own `interrupt()` may carry anything."""
    return isinstance(value, dict) and "turngraph" in value and "action_requests" in value


def pending(payload: PausePayload) -> list[tuple[PendingRequest, ActionRequest]]:
    """The requests of a pause with the call that each is about, in call order."""
    return list(zip(payload["turngraph"]["requests"], payload["action_requests"], strict=True))


def resume_value(flags: Flags, payload: Any) -> Any:
    """The value for `Command(resume=...)`. Raises UsageError where the options do not fit what is pending."""
    if len(flags.chosen) > 1:
        raise UsageError(f"Give one of {', '.join(flags.chosen)}, or one at a time with --call ID.")
    if flags.raw is not None:
        return _raw(flags.raw, is_turn_payload(payload))
    if not is_turn_payload(payload):
        if flags.respond is None:
            raise UsageError("A tool asks this in its own way: answer with --respond TEXT or --json-decisions JSON.")
        return flags.respond
    requests = _chosen_requests(flags, pending(payload))
    decisions = _answered(flags.answers, requests)
    if flags.abandon:
        decisions[requests[0][0]["call_id"]] = {"type": "abandon"}
    elif flags.chosen:
        allowed = {each["call_id"]: set(config["allowed_decisions"]) for each, config in _configs(payload)}
        for request, action in requests:
            decision = _decision(flags, action)
            if request["call_id"] not in decisions and _fits(decision, request, allowed[request["call_id"]]):
                decisions[request["call_id"]] = decision
    if not decisions:
        what = flags.chosen[0] if flags.chosen else "--answer"
        raise UsageError(f"{what} fits none of the pending requests: {', '.join(_named(pending(payload)))}.")
    if sum(decision["type"] == "edit" for decision in decisions.values()) > 1:
        raise UsageError("--edit needs --call ID where several calls wait.")
    return {"decisions": decisions}


def _configs(payload: PausePayload) -> list[tuple[PendingRequest, Any]]:
    return list(zip(payload["turngraph"]["requests"], payload["review_configs"], strict=True))


def _raw(text: str, ours: bool) -> Any:
    """JSON as it was typed: a list or a map of decisions, or the whole resume value."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--json-decisions is not JSON: {error}") from error
    wrapped = isinstance(value, dict) and "decisions" in value
    return value if wrapped or not ours else {"decisions": value}


def _chosen_requests(
    flags: Flags, requests: list[tuple[PendingRequest, ActionRequest]]
) -> list[tuple[PendingRequest, ActionRequest]]:
    """The requests that the options are about: all, or those of `--call` (an id or its unambiguous beginning)."""
    if not flags.calls:
        return requests
    chosen = []
    for wanted in flags.calls:
        exact = [each for each in requests if each[0]["call_id"] == wanted]
        found = exact or [each for each in requests if each[0]["call_id"].startswith(wanted)]
        if len(found) != 1:
            raise UsageError(f"--call {wanted}: pending are {', '.join(_named(requests))}.")
        chosen += [each for each in found if each not in chosen]
    return chosen


def _named(requests: list[tuple[PendingRequest, ActionRequest]]) -> list[str]:
    return [f"{request['call_id']} ({action['name']})" for request, action in requests]


def question_ids(request: PendingRequest) -> list[str]:
    """The ids of the questions of one `ask_user` call."""
    return [str(each.get("id") or f"q{at}") for at, each in enumerate(request.get("questions") or [], 1)]


def _answered(texts: Sequence[str], requests: list[tuple[PendingRequest, ActionRequest]]) -> dict[str, Decision]:
    """`ID=TEXT` texts as answers of the `ask_user` calls that hold these questions; an id given twice makes a list."""
    answers: dict[str, dict[str, str | list[str]]] = {}
    for each in texts:
        question, sign, text = each.partition("=")
        if not sign:
            raise UsageError(f"--answer takes ID=TEXT, not {each!r}.")
        holders = [request["call_id"] for request, _ in requests if question in question_ids(request)]
        if len(holders) != 1:
            known = [known for request, _ in requests for known in question_ids(request)]
            hint = "narrow it with --call ID" if holders else f"pending questions: {', '.join(known) or 'none'}"
            raise UsageError(f"--answer {question}: {hint}.")
        given = answers.setdefault(holders[0], {})
        before = given.get(question)
        given[question] = text if before is None else [*([before] if isinstance(before, str) else before), text]
    return {call_id: {"type": "respond", "answers": given} for call_id, given in answers.items()}


def _decision(flags: Flags, action: ActionRequest) -> Decision:
    """The one decision that the options stand for."""
    if flags.always is not None:
        if flags.always not in ("call", "tool"):
            raise UsageError(f"--always takes call or tool, not {flags.always!r}.")
        return {"type": "always", "scope": cast(Any, flags.always)}
    if flags.reject is not None:
        return {"type": "reject", "message": flags.reject}
    if flags.respond is not None:
        return {"type": "respond", "message": flags.respond}
    if flags.edit is not None:
        return edited(flags.edit, action)
    return {"type": "approve"}


def edited(text: str, action: ActionRequest) -> Decision:
    """An edit from JSON: the arguments alone, or `{"name": ..., "args": {...}}`."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"The edited arguments are not JSON: {error}") from error
    if not isinstance(value, Mapping):
        raise UsageError("The edited arguments must be a JSON object.")
    whole = set(value) == {"name", "args"} and isinstance(value["args"], dict) and isinstance(value["name"], str)
    name, args = (value["name"], value["args"]) if whole else (action["name"], dict(value))
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def _fits(decision: Decision, request: PendingRequest, allowed: set[str]) -> bool:
    """Whether a decision that was meant for all pending calls can be meant for this one."""
    if decision["type"] in ("always", "abandon"):
        return decision["type"] in request["extra_decisions"]
    return decision["type"] in allowed
