"""From a typed command to an exit code: runs legs, asks at a terminal, says how to go on."""

import asyncio
import sqlite3
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turngraph.cli.ask import Later, ask
from turngraph.cli.pause import Place, pause_text
from turngraph.cli.terminal import Human, JsonLines, Silent, Sink
from turngraph.cli.text import visible
from turngraph.cli.values import UsageError
from turngraph.state.errors import InputError, ProviderError, ResumeError, TurnConflict

OK, FAILED, USAGE, PAUSED, INTERRUPTED = 0, 1, 2, 3, 130


@dataclass(frozen=True)
class Session:
    """One command on one thread, and how it shows itself."""

    place: Place
    database: Path
    style: str = "human"
    """human | json (events as JSON lines) | quiet (the answer alone)"""
    interactive: bool = False

    def sink(self) -> Sink:
        match self.style:
            case "json":
                return JsonLines()
            case "quiet":
                return Silent()
            case _:
                return Human()

    def say(self, text: str) -> None:
        """What is meant for the person, kept apart from the output where that is data."""
        print(text, file=sys.stdout if self.style == "human" else sys.stderr, flush=True)


def run_turn(session: Session, text: str, settings: Any) -> int:
    """A turn on a user's message."""
    from turngraph.cli import work

    message = {"messages": [("user", text)]}
    thread, sink = session.place.thread, session.sink()
    return _legs(session, lambda: work.run_leg(session.database, thread, message, settings, sink))


def resume_turn(session: Session, answer: Callable[[Any], Any] | None) -> int:
    """Answers a thread's pause. `answer` makes the resume value from what is asked; None: a person is asked."""
    from turngraph.cli import work

    thread = session.place.thread

    async def start() -> work.LegEnd:
        value = await work.pending_value(session.database, thread)
        if answer is None:
            return work.Paused(value)
        return await work.resume_leg(session.database, thread, answer(value), session.sink())

    return _legs(session, start)


def continue_turn(session: Session) -> int:
    """Goes on with a turn that broke off, or with queued input."""
    from turngraph.cli import work

    thread, sink = session.place.thread, session.sink()
    return _legs(session, lambda: work.continue_leg(session.database, thread, sink))


def _legs(session: Session, start: Callable[[], Any]) -> int:
    """Runs one leg after the other on one event loop, with a person's answers between them, to an exit code."""
    from turngraph.cli import work

    thread = session.place.thread
    with asyncio.Runner() as runner:  # one loop for all legs: HTTP clients are bound to the one they were made on
        while True:
            match runner.run(start()):
                case None:
                    session.say(f"Nothing is left to do on thread {thread}.")
                    return OK
                case work.Stopped(closed=closed):
                    session.say(stopped_text(session.place, closed=closed))
                    return INTERRUPTED
                case work.Paused(value=value):
                    answer = _asked(session, value)
                    if isinstance(answer, _NotNow):
                        return answer.code
                    start = _resumed(session, answer)
                case work.Ended(values=values) if _yielded(values):
                    start = _taken_up(session, values)
                case work.Ended(values=values):
                    _answer_shown(session, values)
                    return OK
                case other:
                    raise AssertionError(other)


def _resumed(session: Session, answer: Any) -> Callable[[], Any]:
    from turngraph.cli import work

    return lambda: work.resume_leg(session.database, session.place.thread, answer, session.sink())


def _taken_up(session: Session, values: Mapping[str, Any]) -> Callable[[], Any]:
    """The next turn, which answers the input that ended this one."""
    from turngraph.cli import work

    thread, settings = session.place.thread, work.last_settings(values)
    return lambda: work.run_leg(session.database, thread, {"messages": []}, settings, session.sink())


def _yielded(values: Mapping[str, Any]) -> bool:
    return (values.get("receipt") or {}).get("stop_reason") == "pending_input"


def _answer_shown(session: Session, values: Mapping[str, Any]) -> None:
    """The answer alone, or the command for the next message."""
    if session.style == "quiet":
        print(visible(values.get("answer", "")), flush=True)
    elif session.style == "human":
        session.say(f"  next message: {session.place.next_message()}")


@dataclass(frozen=True)
class _NotNow:
    """The pause stays; the process ends with this code."""

    code: int


def _asked(session: Session, value: Any) -> Any:
    """The person's answer, or `_NotNow` after the commands that answer later were printed."""
    if not session.interactive:
        session.say(pause_text(value, session.place))
        return _NotNow(PAUSED)
    try:
        return ask(value, input, session.say)
    except (Later, KeyboardInterrupt) as left:
        session.say("\n" + pause_text(value, session.place))
        return _NotNow(PAUSED if isinstance(left, Later) else INTERRUPTED)


def stopped_text(place: Place, *, closed: bool) -> str:
    """What Ctrl-C left, and how to go on from there."""
    again = place.next_message()
    if closed:
        return f"Stopped. What was done is kept on thread {place.thread}.\n  next message: {again}"
    carry_on = place.command("continue")
    return f"Stopped. Thread {place.thread} is kept.\n  go on: {carry_on}\n  or send a new message: {again}"


def explained(error: BaseException, place: Place) -> tuple[str, int]:
    """An error as one clear text and an exit code. Secrets are removed from it."""
    if isinstance(error, UsageError):
        return str(error), USAGE
    from turngraph.tools.redact import redact

    text = redact(str(error)).strip() or type(error).__name__
    match error:
        case ResumeError() | InputError():
            return text, USAGE
        case ProviderError():
            return f"{text}\nThread {place.thread} is kept. Try again: {place.command('continue')}", FAILED
        case TurnConflict():
            return f'{text}\nTo give the running turn a message: {place.command("send")} "..."', FAILED
        case sqlite3.Error():
            return f"The database cannot be used: {text}", FAILED
        case ModuleNotFoundError():
            return f'{text}. Install what this command needs: pip install "turngraph[cli]"', FAILED
        case _:
            return f"{type(error).__name__}: {text}", FAILED
