"""Asks a person at a terminal what a pause asks. Reading and writing are handed in."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from turngraph.cli.answers import edited, is_turn_payload, pending, question_ids
from turngraph.cli.pause import option_lines, request_lines
from turngraph.cli.text import one_line
from turngraph.cli.values import UsageError
from turngraph.state.decisions import ActionRequest, Decision, PendingRequest

Read = Callable[[str], str]
Write = Callable[[str], None]

_CHOICES = {
    "approve": "[y] approve",
    "edit": "[e] edit",
    "reject": "[n] reject",
    "respond": "[r] answer in its place",
    "always": "[a] always for these arguments, [A] always for this tool",
    "abandon": "[q] end the turn",
}


class Later(Exception):
    """The person wants to answer another time."""


def ask(value: Any, read: Read, write: Write) -> Any:
    """The resume value for a pause, request by request. Raises Later at the end of input.

    Abandoning one request abandons the turn, so nothing more is asked then.
    """
    try:
        if not is_turn_payload(value):
            write(one_line(json.dumps(value, ensure_ascii=False, default=str), 1_000))
            return read("answer> ")
        if error := value["turngraph"].get("error"):
            write(f"The last answer was refused: {one_line(error, 500)}")
        decisions: dict[str, Decision] = {}
        for at, (request, action) in enumerate(pending(value)):
            allowed = [*value["review_configs"][at]["allowed_decisions"], *request["extra_decisions"]]
            decision = _answers(request, read, write) if request["kind"] == "ask_user" else None
            decisions[request["call_id"]] = decision or _permission(request, action, allowed, read, write)
            if decisions[request["call_id"]]["type"] == "abandon":
                return {"decisions": {request["call_id"]: {"type": "abandon"}}}
        return {"decisions": decisions}
    except EOFError as end:
        raise Later from end


def _permission(
    request: PendingRequest, action: ActionRequest, allowed: list[str], read: Read, write: Write
) -> Decision:
    """One permission, asked until the answer is one."""
    for line in request_lines(request, action):
        write(line)
    write("  " + ", ".join(text for decision, text in _CHOICES.items() if decision in allowed))
    while True:
        key = read("> ").strip()
        try:
            decision = _chosen(key, action, read)
        except UsageError as error:
            write(f"  {error}")
            continue
        if decision is not None and decision["type"] in allowed:
            return decision
        write(f"  {key!r} is not one of the choices.")


def _chosen(key: str, action: ActionRequest, read: Read) -> Decision | None:
    """The decision that a key stands for, with what it needs to know; None for no such key."""
    if key == "A":
        return {"type": "always", "scope": "tool"}
    match key.lower():
        case "y" | "yes" | "approve":
            return {"type": "approve"}
        case "n" | "no" | "reject":
            return {"type": "reject", "message": read("reason (may be empty)> ")}
        case "e" | "edit":
            current = json.dumps(action["args"], ensure_ascii=False, default=str)
            return edited(read(f"arguments as JSON (now {one_line(current, 500)})> "), action)
        case "r" | "respond":
            return {"type": "respond", "message": read("answer> ")}
        case "a" | "always":
            return {"type": "always", "scope": "call"}
        case "q" | "quit" | "abandon":
            return {"type": "abandon"}
        case _:
            return None


def _answers(request: PendingRequest, read: Read, write: Write) -> Decision:
    """The answers to the questions of one `ask_user` call; a blank line is no answer to a question."""
    answers: dict[str, str | list[str]] = {}
    for question, question_id in zip(request.get("questions") or [], question_ids(request), strict=True):
        write(f"  {one_line(str(question.get('question', '')), 1_000)}")
        for line in option_lines(question):
            write(line)
        while True:
            try:
                answers[question_id] = picked(question, read(_prompt(question)))
                break
            except UsageError as error:
                write(f"  {error}")
    return {"type": "respond", "answers": answers}


def _prompt(question: Mapping[str, Any]) -> str:
    if not question.get("options"):
        return "answer> "
    kind = "numbers, with commas" if question.get("multiple") else "number"
    return f"{kind} or text> " if question.get("free_text", True) else f"{kind}> "


def picked(question: Mapping[str, Any], text: str) -> str | list[str]:
    """What was typed as an answer: numbers become the labels of their options, other text stays.

    Raises UsageError for text that is no option where the question takes options only, and for a number too high.
    """
    labels = [str(option.get("label", "")) for option in question.get("options") or []]
    text = text.strip()
    if not labels or not text:
        return text
    parts = [part.strip() for part in text.split(",")] if question.get("multiple") else [text]
    if all((part.isdecimal() and 1 <= int(part) <= len(labels)) or part in labels for part in parts):
        chosen = [part if part in labels else labels[int(part) - 1] for part in parts]
        return chosen if question.get("multiple") else chosen[0]
    if not question.get("free_text", True):
        raise UsageError(f"Choose from 1 to {len(labels)}.")
    return text
