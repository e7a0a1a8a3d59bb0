"""The commands that run no turn: list threads, show one, queue a message."""

import asyncio
import json
import sys
from datetime import datetime

from turngraph.cli.pause import pause_text
from turngraph.cli.render import Piece
from turngraph.cli.session import OK, Session
from turngraph.cli.terminal import colours, painted
from turngraph.cli.text import one_line


def list_threads(session: Session, limit: int, *, as_json: bool) -> int:
    """Prints the threads of the database, newest first."""
    from turngraph.cli import work
    from turngraph.cli.tape import summary

    if not session.database.exists():
        found = []
    else:
        found = asyncio.run(work.read_threads(session.database, limit))
    rows = [summary(thread, snapshot) for thread, snapshot in found]
    if as_json:
        for row in rows:
            print(json.dumps(row, default=str))
    elif not rows:
        print("No threads yet.")
    else:
        _table(rows)
    return OK


def _table(rows: list[dict[str, object]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    lines = [
        [
            one_line(str(cell))
            for cell in (row["thread_id"], local_time(str(row["updated"])), row["turns"], row["status"])
        ]
        for row in rows
    ]
    table = Table(box=box.SIMPLE, pad_edge=False)
    for at, title in enumerate(("thread", "last step", "turns", "status")):
        table.add_column(title, no_wrap=True, min_width=max(len(title), *(len(line[at]) for line in lines)))
    table.add_column("first question", no_wrap=True, overflow="ellipsis", ratio=1)
    for line, row in zip(lines, rows, strict=True):
        table.add_row(*(Text(cell) for cell in [*line, one_line(str(row["question"]))]))
    Console().print(table)


def local_time(stamp: str) -> str:
    """An ISO time in the reader's time zone, to the minute."""
    return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M")


def show_thread(session: Session, *, full: bool, as_json: bool) -> int:
    """Prints a thread's tape, receipts and pause."""
    from turngraph.cli import work
    from turngraph.cli.tape import pending_of, tape_json, tape_pieces

    thread = session.place.thread
    snapshot = asyncio.run(work.read_thread(session.database, thread))
    if as_json:
        print(json.dumps(tape_json(thread, snapshot), default=str, indent=2))
        return OK
    _print(tape_pieces(snapshot.values, full=full))
    for value in pending_of(snapshot):
        print(pause_text(value, session.place))
    if snapshot.next and not pending_of(snapshot):
        print(f"This turn is not over. Go on: {session.place.command('continue')}")
    return OK


def _print(pieces: list[Piece]) -> None:
    paint = painted if colours(sys.stdout) else lambda piece: piece.text
    sys.stdout.write("".join(map(paint, pieces)))


def send_text(session: Session, text: str) -> int:
    """Queues a message for a thread."""
    from turngraph.cli import work

    thread = session.place.thread
    if asyncio.run(work.queue_input(session.database, thread, text)):
        print("Queued: the running turn takes it after its tools.")
    else:
        print("Queued: the thread's next turn takes it.")
    print(f"  if nothing runs: {session.place.command('continue')}")
    return OK
