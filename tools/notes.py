"""The user's notes file: one appended line block per note."""

import os
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

MAX_CHARACTERS = 10_000
FILE = "notes.md"
VARIABLE = "TURNGRAPH_NOTES"

_lock = threading.Lock()


def notes_folder(environment: Mapping[str, str]) -> Path:
    """The folder that TURNGRAPH_NOTES names, else the user's data folder of this platform."""
    chosen = environment.get(VARIABLE, "").strip()
    if chosen:
        return Path(chosen).expanduser()
    home = Path.home()
    if sys.platform == "win32":
        base = Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Application Support"
    else:
        base = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    return base / "turngraph"


def append_note(text: str, *, now: datetime | None = None) -> str:
    """Appends a note in one write, safe against other threads and processes; says where it is.

    Raises ValueError for an empty note or one of more than MAX_CHARACTERS.
    """
    note = text.replace("\r\n", "\n").strip()
    if not note:
        raise ValueError("The note is empty.")
    if len(note) > MAX_CHARACTERS:
        raise ValueError(f"The note has {len(note)} characters; at most {MAX_CHARACTERS} are saved.")
    body = note.replace("\n", "\n  ")
    line = f"- {now or datetime.now(UTC):%Y-%m-%d %H:%M} {body}\n".encode("utf-8", "replace")
    folder = notes_folder(os.environ)
    with _lock:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / FILE
        # One write to a file opened for appending is not torn apart by another process that does the same.
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)
    return f"Saved to {path}: {note[:200]}"
