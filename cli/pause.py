"""A pause as text, and the exact commands that answer it from a shell. Pure."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turngraph.cli.answers import is_turn_payload, pending, question_ids
from turngraph.cli.text import call_text, one_line, plural
from turngraph.state.decisions import PausePayload, PendingRequest

_LONGEST_EDIT = 500
"""Characters of JSON up to which a command line with the arguments in it is of use to a person."""
_LONGEST_REQUEST = 2_500


@dataclass(frozen=True)
class Place:
    """Where a thread lives, and how this program was called: what a command needs to come back to it."""

    thread: str
    database: str | None = None
    """The path that --db named; None where the default one is used."""
    program: str = "turngraph"
    """As a shell finds it, quoted."""

    def command(self, verb: str, *arguments: str) -> str:
        """A command line for a shell."""
        return f"{self.program} {shlex.join([verb, self.thread, *self._where(), *arguments])}"

    def next_message(self) -> str:
        """The command line for the thread's next turn."""
        return f'{self.program} {shlex.join(["run", "--thread", self.thread, *self._where()])} "..."'

    def _where(self) -> list[str]:
        return ["--db", self.database] if self.database else []


def pause_text(value: Any, place: Place) -> str:
    """What waits for a person, and the commands that go on."""
    if not is_turn_payload(value):
        shown = one_line(json.dumps(value, ensure_ascii=False, default=str), 1_000)
        lines = [f"Paused: a tool asks on thread {place.thread}:", f"  {shown}"]
        commands = [place.command("resume", "--respond", "TEXT")]
    else:
        count = len(value["turngraph"]["requests"])
        lines = [f"Paused: {plural(count, 'request')} for a person on thread {place.thread}."]
        if error := value["turngraph"].get("error"):
            lines.append(f"The last answer was refused: {one_line(error, 500)}")
        for request, action in pending(value):
            lines += request_lines(request, action)
        commands = resume_commands(value, place)
    heading = "Go on with one of:" if len(commands) > 1 else "Go on with:"
    return "\n".join([*lines, heading, *(f"  {command}" for command in commands)])


def request_lines(request: PendingRequest, action: Mapping[str, Any]) -> list[str]:
    """One request as it is shown: the call, or the questions with their options."""
    if request["kind"] == "permission":
        described = action.get("description") or call_text(action["name"], action["args"], _LONGEST_REQUEST)
        return [f"  ? {one_line(described, _LONGEST_REQUEST)}"]
    lines = []
    for question, question_id in zip(request.get("questions") or [], question_ids(request), strict=True):
        lines.append(f"  [{question_id}] {one_line(str(question.get('question', '')), 1_000)}")
        lines += option_lines(question)
    return lines


def option_lines(question: Mapping[str, Any]) -> list[str]:
    """The options of a question, numbered from 1."""
    lines = []
    for at, option in enumerate(question.get("options") or [], 1):
        described = f" - {one_line(option['description'], 200)}" if option.get("description") else ""
        lines.append(f"    {at}. {one_line(str(option.get('label', '')), 200)}{described}")
    return lines


def resume_commands(payload: PausePayload, place: Place) -> list[str]:
    """Complete commands, the one that simply goes on first."""
    requests = pending(payload)
    questions = [request for request, _ in requests if request["kind"] == "ask_user"]
    actions = [action for request, action in requests if request["kind"] == "permission"]
    answers = [part for request in questions for part in _answers(request)]
    go_on = [*(["--approve"] if actions else []), *answers]
    commands = [place.command("resume", *go_on)]
    if actions:
        commands.append(place.command("resume", "--reject", "the reason", *answers))
    if len(actions) == 1 and len(arguments := json.dumps(actions[0]["args"], default=str)) <= _LONGEST_EDIT:
        commands.append(place.command("resume", "--edit", arguments, *answers))
    if len(requests) > 1:
        commands.append(place.command("resume", "--call", requests[0][0]["call_id"], *_one(requests[0][0])))
    return [*commands, place.command("resume", "--abandon")]


def _one(request: PendingRequest) -> list[str]:
    return ["--approve"] if request["kind"] == "permission" else _answers(request)


def _answers(request: PendingRequest) -> list[str]:
    """`--answer ID=TEXT` for each question, with its first option where it has some."""
    parts = []
    for question, question_id in zip(request.get("questions") or [], question_ids(request), strict=True):
        options = question.get("options") or []
        label = str(options[0].get("label", "")) if options else ""
        parts += ["--answer", f"{question_id}={label if label and one_line(label, len(label)) == label else 'TEXT'}"]
    return parts
