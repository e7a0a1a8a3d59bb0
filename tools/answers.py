"""From whatever a client resumed with to one decision per call. Pure."""

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from turngraph.state.decisions import Decision, PausePayload, PendingRequest
from turngraph.state.errors import ResumeError
from turngraph.tools import texts
from turngraph.tools.answer_shapes import (
    as_decision,
    is_message_list,
    looks_like_decision,
    only_text,
    said_by_messages,
    unwrapped,
)
from turngraph.tools.ask import ASK_USER, Question, check_answers
from turngraph.tools.clean import clean_json, plain_text


def normalise_resume(value: Any, payload: PausePayload, tools: Collection[str] | None = None) -> dict[str, Decision]:
    """The decisions by call id; each carries the `digest` of the request that it answers.

    Taken: `{"decisions": [...]}` with one entry per pending request, in order; `{"decisions": {call_id: ...}}` for
    some of them; and for one pending request every shape whose meaning is certain: a decision, a text, None or ""
    (no answer), JSON text, a number, true or false, `answers`, a message or a list of messages, any of them in a list
    of one, and older clients' accept, ignore and response. `{"type": "abandon"}` answers all. `tools`: the names that
    an edited call may have; None leaves that to the plan.
    Raises ResumeError, with what would be right, for everything else; never another exception. Nothing is changed.
    """
    requests = payload["turngraph"]["requests"]
    if not requests:
        raise ResumeError("Nothing waits for an answer.")
    try:
        decisions = _by_call(unwrapped(value), payload)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:  # numbers and nestings that JSON refuses
        raise ResumeError(f"The answer cannot be read ({type(error).__name__}). {_how(payload)}") from None
    if tools is not None:
        for decision in decisions.values():
            if decision["type"] == "edit" and (name := decision["edited_action"]["name"]) not in tools:
                raise ResumeError(f"The edited call names the tool {name!r}; there are {', '.join(sorted(tools))}.")
    return decisions


def _by_call(value: Any, payload: PausePayload) -> dict[str, Decision]:
    """The decisions that the outermost shape holds."""
    requests = payload["turngraph"]["requests"]
    if isinstance(value, Mapping) and "decisions" in value:
        _refuse_stale_turn(value, payload)
        return _listed(unwrapped(value["decisions"], lists=False), payload)
    if isinstance(value, Mapping) and as_decision(value).get("type") == "abandon":
        return {request["call_id"]: _bound({"type": "abandon"}, request) for request in requests}
    if isinstance(value, list) and len(value) == len(requests) and all(looks_like_decision(item) for item in value):
        return _listed(value, payload)
    if len(requests) > 1:
        raise ResumeError(f"{len(requests)} calls wait, and it is not certain which one this answers. {_how(payload)}")
    return {requests[0]["call_id"]: _one(value, 0, payload)}


def _refuse_stale_turn(value: Mapping[str, Any], payload: PausePayload) -> None:
    turn = value.get("turn_id")
    if turn is not None and turn != payload["turngraph"]["turn_id"]:
        raise ResumeError(f"This answers another turn ({turn!r}); its pause is over. {_how(payload)}")


def _listed(decisions: Any, payload: PausePayload) -> dict[str, Decision]:
    """`decisions` as a list (one entry per request) or by call id (some of them)."""
    requests = payload["turngraph"]["requests"]
    if isinstance(decisions, Mapping) and looks_like_decision(decisions) and len(requests) == 1:
        decisions = [decisions]
    if isinstance(decisions, Mapping):
        if not decisions:
            raise ResumeError(f"'decisions' is empty. {_how(payload)}")
        at = {request["call_id"]: index for index, request in enumerate(requests)}
        if unknown := [str(key) for key in decisions if key not in at]:
            raise ResumeError(f"No call with the id {unknown[0]!r} waits for an answer. {_how(payload)}")
        return {call_id: _one(decision, at[call_id], payload, listed=True) for call_id, decision in decisions.items()}
    if not isinstance(decisions, list):
        raise ResumeError(f"'decisions' must be a list, or an object by call id. {_how(payload)}")
    if len(decisions) != len(requests):
        raise ResumeError(f"{len(decisions)} decisions were given and {len(requests)} calls wait. {_how(payload)}")
    return {request["call_id"]: _one(decisions[at], at, payload, listed=True) for at, request in enumerate(requests)}


def _one(raw: Any, at: int, payload: PausePayload, *, listed: bool = False) -> Decision:
    """The decision on one request, whatever shape it came in; `listed`: it stood among `decisions`."""
    request, action = payload["turngraph"]["requests"][at], payload["action_requests"][at]

    def refuse(what: str) -> ResumeError:
        return ResumeError(f"The answer to {action['name']} (call {request['call_id']}) {what}. {_how(payload)}")

    raw = unwrapped(raw)
    raw = said_by_messages(raw) if is_message_list(raw) else raw
    if isinstance(raw, Mapping):
        raw = as_decision(raw)
        if listed and isinstance(raw.get("type"), str) and not looks_like_decision(raw):
            raise refuse(f"has the unknown type {raw['type']!r}")
        if "type" in raw or "answers" in raw:
            _refuse_stale(raw, request, refuse)
    reader = _question_answer if request["kind"] == "ask_user" else _permission_answer
    return _bound(reader(raw, request, action["name"], refuse), request)


def _refuse_stale(raw: Mapping[str, Any], request: PendingRequest, refuse: Callable[[str], ResumeError]) -> None:
    """A decision may name the call and the digest that it was made for; it must be this one then."""
    for key, right in (
        ("call_id", request["call_id"]),
        ("tool_call_id", request["call_id"]),
        ("digest", request["digest"]),
    ):
        if raw.get(key) is not None and raw[key] != right:
            raise refuse(f"names another {key.replace('_', ' ')} ({raw[key]!r}); the right one is {right!r}")


_YES = frozenset({"approve", "approved", "accept", "accepted", "allow", "yes", "y", "ok", "true"})
_NO = frozenset({"reject", "rejected", "deny", "denied", "ignore", "no", "n", "false"})


def _permission_answer(
    raw: Any, _request: PendingRequest, name: str, refuse: Callable[[str], ResumeError]
) -> dict[str, Any]:
    """A decision on a call that asks. Only an unmistakable yes runs it; other words are told to the model instead."""
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {"type": "reject", "message": texts.NO_ANSWER}
    if isinstance(raw, bool):
        return {"type": "approve"} if raw else {"type": "reject", "message": ""}
    if isinstance(raw, str):
        word = raw.strip().rstrip(".!").casefold()
        if word in _YES:
            return {"type": "approve"}
        return {"type": "reject", "message": "" if word in _NO else raw}
    if not isinstance(raw, Mapping):
        raise refuse("does not say whether the call may run")
    match raw.get("type"):
        case "approve" | "abandon" as kind:
            return {"type": kind}
        case "edit":
            return _edit(raw, name, refuse)
        case "reject":
            return {"type": "reject", "message": _message(raw, refuse)}
        case "always" if raw.get("scope") in ("call", "tool"):
            return {"type": "always", "scope": raw["scope"]}
        case "always":
            raise refuse('must state the \'scope\' of "always": "call" (these arguments) or "tool" (any)')
        case "respond" if "answers" in raw:
            raise refuse("holds 'answers', but this call asks for permission; use 'message'")
        case "respond":
            return {"type": "respond", "message": _message(raw, refuse)}
        case None:
            raise refuse("has no 'type'")
        case other:
            raise refuse(f"has the unknown type {other!r}")


def _edit(raw: Mapping[str, Any], name: str, refuse: Callable[[str], ResumeError]) -> dict[str, Any]:
    """An edited call: `{"type": "edit", "edited_action": {"name": ..., "args": {...}}}`."""
    action = raw.get("edited_action")
    if not isinstance(action, Mapping):
        raise refuse('needs "edited_action": {"name": ..., "args": {...}}')
    named, args = action.get("name", name), action.get("args")
    if not isinstance(named, str) or not named:
        raise refuse("must name a tool in 'edited_action'")
    if named == ASK_USER:
        raise refuse("cannot turn the call into a question")
    if isinstance(args, str):
        args = _json_object(args)
    if not isinstance(args, Mapping):
        raise refuse("must have an object as 'args' in 'edited_action'")
    return {"type": "edit", "edited_action": {"name": named, "args": _plain(args, refuse)}}


def _json_object(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _plain(args: Mapping[str, Any], refuse: Callable[[str], ResumeError]) -> dict[str, Any]:
    """The edited arguments as plain JSON."""
    try:
        return cast(dict[str, Any], clean_json(json.loads(json.dumps(dict(args)))))
    except (TypeError, ValueError) as error:
        raise refuse(f"has arguments that are not JSON ({error})") from None


def _message(raw: Mapping[str, Any], refuse: Callable[[str], ResumeError]) -> str:
    """The `message` of a decision as text; missing or None is blank."""
    message = raw.get("message")
    if message is None:
        return ""
    if is_message_list(message):
        message = said_by_messages(message)
    if not isinstance(message, str | int | float | bool):
        raise refuse("must have a text as 'message'")
    return plain_text(message)


def _question_answer(
    raw: Any, request: PendingRequest, _name: str, refuse: Callable[[str], ResumeError]
) -> dict[str, Any]:
    """An answer to the questions of `ask_user`; blank is an answer, too."""
    questions = cast(list[Question], request.get("questions", []))
    if isinstance(raw, Mapping) and looks_like_decision(raw):
        match raw.get("type"):
            case "abandon":
                return {"type": "abandon"}
            case "reject":
                return {"type": "reject", "message": _message(raw, refuse)}
            case "respond" if raw.get("answers") is not None:
                answer = _answers(raw["answers"], questions, refuse)
                message = _message(raw, refuse)
                return {**answer, "message": message} if message else answer
            case "respond":
                return _whole(raw.get("message"), questions, refuse)
            case other:
                raise refuse(f'has the type {other!r}, but a question is answered by "respond"')
    if isinstance(raw, Mapping) and set(raw) & {question["id"] for question in questions}:
        return _answers(raw, questions, refuse)
    if isinstance(raw, Mapping) and isinstance(raw.get("answers"), Mapping):
        return _answers(raw["answers"], questions, refuse)
    raw = only_text(raw)
    if isinstance(raw, Mapping | list) and not raw:
        raise refuse('is empty; a blank answer is "" or null')
    return _whole(raw, questions, refuse)


def _answers(raw: Any, questions: list[Question], refuse: Callable[[str], ResumeError]) -> dict[str, Any]:
    """Answers by question id."""
    if not isinstance(raw, Mapping):
        raise refuse("must have 'answers' by question id")
    checked = check_answers(questions, raw)
    if isinstance(checked, str):
        raise refuse(f"cannot be taken: {checked}")
    return {"type": "respond", "answers": checked}


def _whole(raw: Any, questions: list[Question], refuse: Callable[[str], ResumeError]) -> dict[str, Any]:
    """One answer to all that was asked: a text, a number, a choice. With several questions it is kept as one text."""
    if isinstance(raw, Mapping) or (
        isinstance(raw, list) and not all(isinstance(item, str | int | float) for item in raw)
    ):
        if len(questions) > 1:
            raise refuse(f"is not by question id; the ids are {', '.join(question['id'] for question in questions)}")
        raw = plain_text(raw)
    if len(questions) == 1:
        return _answers({questions[0]["id"]: raw}, questions, refuse)
    if isinstance(raw, list):
        if len(raw) != len(questions):
            raise refuse(f"has {len(raw)} entries for {len(questions)} questions")
        return _answers(
            {question["id"]: item for question, item in zip(questions, raw, strict=True)}, questions, refuse
        )
    return {"type": "respond", "message": plain_text(raw)}


def _bound(decision: Mapping[str, Any], request: PendingRequest) -> Decision:
    """The decision bound to the digest of what the person was shown."""
    return cast(Decision, {**decision, "digest": request["digest"]})


def _how(payload: PausePayload) -> str:
    """What would be right, for the people who read the error."""
    waiting = ", ".join(
        f"{request['call_id']} ({action['name']})"
        for request, action in zip(payload["turngraph"]["requests"], payload["action_requests"], strict=True)
    )
    kinds = {request["kind"] for request in payload["turngraph"]["requests"]}
    example = '{"type": "respond", "message": "..."}' if kinds == {"ask_user"} else '{"type": "approve"}'
    return (
        f'Resume with {{"decisions": [{example}, ...]}}, one per waiting call in order, or '
        f'{{"decisions": {{call id: {example}}}}} for some. Waiting: {waiting}.'
    )
