"""What a person types as options, as values: settings, thread ids, the database's path. Pure."""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from turngraph.state.settings import TurnSettings

DATABASE_VARIABLE = "TURNGRAPH_DB"
_THREAD = re.compile(r"[A-Za-z0-9_][\w.:@/+-]{0,199}")


class UsageError(Exception):
    """What was typed cannot be used; the message says what would be right. Exit code 2."""


def default_database(environment: Mapping[str, str], platform: str = sys.platform) -> Path:
    """The database of the command line: TURNGRAPH_DB, else a file in the user's data folder as the platform has it."""
    if given := environment.get(DATABASE_VARIABLE):
        return Path(given).expanduser()
    home = Path(os.path.expanduser("~"))
    if platform == "win32":
        folder = Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        folder = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")
    return folder / "turngraph" / "threads.sqlite"


def thread_id(text: str) -> str:
    """The thread id as given. Raises UsageError for one that a shell or a terminal could not carry."""
    if not _THREAD.fullmatch(text):
        raise UsageError(
            f"{text!r} cannot be a thread id: it takes letters, digits and . : @ / + - _, "
            "at most 200 of them, and starts with a letter or a digit."
        )
    return text


def turn_settings(assignments: Sequence[str], **named: Any) -> TurnSettings:
    """Settings from `key=value` texts and named options (None: not given), which win.

    A value is JSON where it reads as JSON, else text; `permissions.NAME=allow` sets one entry of a dict field.
    Raises UsageError with the offending field and the known ones.
    """
    fields: dict[str, Any] = {}
    for assignment in assignments:
        key, sign, text = assignment.partition("=")
        if not sign or not key.strip():
            raise UsageError(f"--set takes key=value, not {assignment!r}.")
        _assign(fields, key.strip(), text)
    fields |= {name: value for name, value in named.items() if value is not None}
    try:
        return TurnSettings.model_validate(fields)
    except ValueError as error:
        raise UsageError(_reasons(error)) from error


def _assign(fields: dict[str, Any], key: str, text: str) -> None:
    """Sets one field, or one entry of a field that is a dict."""
    field, dot, entry = key.partition(".")
    if not dot:
        fields[field] = text if _takes_text_only(field) else _json_or_text(text)
        return
    inner = fields.setdefault(field, {})
    if not isinstance(inner, dict):
        raise UsageError(f"--set {key}: {field} was already given whole.")
    inner[entry] = _json_or_text(text)


def _takes_text_only(field: str) -> bool:
    """Whether a field is a plain string, so that 123 or true are text for it."""
    annotation = TurnSettings.model_fields[field].annotation if field in TurnSettings.model_fields else None
    return annotation is str or set(get_args(annotation)) == {str, type(None)}


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _reasons(error: ValueError) -> str:
    """A validation error in one line per field, without the library's own decoration."""
    listed = getattr(error, "errors", None)
    if listed is None:
        return str(error)
    lines = []
    for each in listed():
        where = ".".join(str(part) for part in each["loc"])
        lines.append(f"{where}: {each['msg']}" if where else str(each["msg"]).removeprefix("Value error, "))
    return "\n".join(lines)
