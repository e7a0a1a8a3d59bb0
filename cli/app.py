"""The commands and their options. Nothing heavy is imported before a command runs."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from turngraph.cli.answers import Flags, resume_value
from turngraph.cli.pause import Place
from turngraph.cli.reading import list_threads, send_text, show_thread
from turngraph.cli.session import INTERRUPTED, OK, USAGE, Session, continue_turn, explained, resume_turn, run_turn
from turngraph.cli.terminal import forgiving
from turngraph.cli.threads import known_thread
from turngraph.cli.values import DATABASE_VARIABLE, UsageError, default_database, thread_id, turn_settings

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="One agent turn at a time: rounds, tools, pauses for a person, an answer and a receipt.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 paused for a person, 130 stopped by Ctrl-C.",
)

Thread = Annotated[str, typer.Argument(metavar="THREAD", help="The thread's id, or enough of its beginning.")]
Database = Annotated[
    Path | None,
    typer.Option("--db", metavar="PATH", help=f"SQLite file. Default: {DATABASE_VARIABLE}, else in the user's data."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Events as JSON lines on stdout; what is for a person on stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the answer on stdout.")]


@app.callback(invoke_without_command=True)
def common(
    version: Annotated[bool, typer.Option("--version", is_eager=True, help="Show the version and exit.")] = False,
) -> None:
    if version:
        from turngraph import __version__

        print(f"turngraph {__version__}")
        raise typer.Exit(OK)


@app.command()
def run(
    prompt: Annotated[str, typer.Argument(metavar="PROMPT", help="The message; - reads it from stdin.")],
    thread: Annotated[str | None, typer.Option(metavar="ID", help="Thread to go on with. Default: a new one.")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="openai:NAME, local, local:PATH.gguf or offline.")
    ] = None,
    db: Database = None,
    max_rounds: Annotated[int | None, typer.Option(metavar="N", help="LLM rounds before it has to finish.")] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="The system prompt.")] = None,
    permission_mode: Annotated[
        str | None, typer.Option(metavar="MODE", help="declared, ask_all or full_access.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any field of TurnSettings; repeatable.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Streams one turn and stores it."""

    def start(session: Session) -> int:
        named = {"model": model, "max_rounds": max_rounds, "system_prompt": system, "permission_mode": permission_mode}
        settings = turn_settings(setting or [], **named)
        text = sys.stdin.read() if prompt == "-" else prompt
        if not text.strip():
            raise UsageError("The prompt is empty.")
        return run_turn(session, text, settings)

    _on_thread(start, thread, db, as_json=as_json, quiet=quiet)


@app.command()
def resume(
    thread: Thread,
    db: Database = None,
    approve: Annotated[bool, typer.Option("--approve", help="Run the calls that wait.")] = False,
    always: Annotated[
        str | None, typer.Option(metavar="SCOPE", help="Approve, and from now on: call (these arguments) or tool.")
    ] = None,
    reject: Annotated[str | None, typer.Option(metavar="TEXT", help="Refuse them, with a reason.")] = None,
    respond: Annotated[str | None, typer.Option(metavar="TEXT", help="Answer in the tool's place.")] = None,
    edit: Annotated[str | None, typer.Option(metavar="JSON", help="Run the call with these arguments.")] = None,
    answer: Annotated[list[str] | None, typer.Option(metavar="ID=TEXT", help="Answer a question; repeatable.")] = None,
    abandon: Annotated[bool, typer.Option("--abandon", help="End the turn.")] = False,
    call: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Only this pending call; repeatable. Default: all.")
    ] = None,
    json_decisions: Annotated[
        str | None, typer.Option(metavar="JSON", help="Decisions as a list, or as a map by call id.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Answers what a paused thread asks, and goes on. Without an answer, asks at the terminal."""
    flags = Flags(
        approve=approve,
        always=always,
        reject=reject,
        respond=respond,
        edit=edit,
        answers=tuple(answer or ()),
        calls=tuple(call or ()),
        abandon=abandon,
        raw=json_decisions,
    )
    decide = None if flags.empty else lambda value: resume_value(flags, value)
    _on_thread(lambda session: resume_turn(session, decide), thread, db, as_json=as_json, quiet=quiet, known=True)


@app.command("continue")
def go_on(thread: Thread, db: Database = None, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Goes on with a turn that failed or broke off, or with queued input."""
    _on_thread(continue_turn, thread, db, as_json=as_json, quiet=quiet, known=True)


@app.command()
def send(
    thread: Thread, text: Annotated[str, typer.Argument(metavar="TEXT", help="The message.")], db: Database = None
) -> None:
    """Queues a message for a running turn, or for the thread's next one."""
    _on_thread(lambda session: send_text(session, text), thread, db, known=True)


@app.command()
def threads(
    db: Database = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, metavar="N", help="How many.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON lines.")] = False,
) -> None:
    """Lists threads, newest first."""
    _on_thread(lambda session: list_threads(session, limit, as_json=as_json), None, db)


@app.command()
def show(
    thread: Thread,
    db: Database = None,
    full: Annotated[bool, typer.Option("--full", help="Tool results whole.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Messages, receipts and what is pending, as JSON.")] = False,
) -> None:
    """Shows a thread's messages and receipts, and what waits for an answer."""
    _on_thread(lambda session: show_thread(session, full=full, as_json=as_json), thread, db, known=True)


def run_app() -> None:
    """Runs the command line; exits with its code."""
    forgiving(sys.stdout)
    forgiving(sys.stderr)
    app(prog_name="turngraph")


def _on_thread(
    work: Callable[[Session], int],
    thread: str | None,
    db: Path | None,
    *,
    as_json: bool = False,
    quiet: bool = False,
    known: bool = False,
) -> None:
    """Runs a command to its exit code; every error ends in one clear text. `known`: the thread must exist already,
    and may be named by the beginning of its id."""
    place = Place(thread or "?", program=program(sys.argv[0]))
    try:
        database = db or default_database(os.environ)
        named = thread_id(thread) if thread else new_thread()
        place = Place(known_thread(database, named) if known else named, str(db) if db else None, place.program)
        style = "json" if as_json else "quiet" if quiet else "human"
        interactive = style == "human" and sys.stdin.isatty() and sys.stdout.isatty()
        code = work(Session(place, database, style, interactive))
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader went away. What Python still holds for it must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = OK
    except Exception as error:  # noqa: BLE001 - the rim of the program
        code = _failed(error, place)
    raise typer.Exit(code)


def _failed(error: Exception, place: Place) -> int:
    text, code = explained(error, place)
    print(f"turngraph: {text}", file=sys.stderr)
    if code == USAGE:
        print("See: turngraph COMMAND --help", file=sys.stderr)
    return code


def new_thread() -> str:
    """A fresh thread id, short enough to type."""
    from uuid import uuid4

    return uuid4().hex[:12]


def program(called: str) -> str:
    """How a shell finds this program again: by name where the PATH leads to it, else as it was called."""
    name = Path(called).name
    if name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m turngraph.cli"
    found: Any = shutil.which(name)
    if found and os.path.exists(called) and os.path.samefile(found, called):
        return name
    return shlex.quote(called)
