"""Where a turn's events go: a terminal or a plain stream, JSON lines, or nothing but the answer."""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Protocol, TextIO

from turngraph.cli.render import Piece, Renderer, Style

_CODES: dict[Style, str] = {
    "content": "",
    "thinking": "2;3",
    "head": "2",
    "tool": "36",
    "ok": "32",
    "bad": "31",
    "notice": "2",
    "receipt": "1",
}
"""ANSI attributes; empty leaves the text as it is."""


class Sink(Protocol):
    """Takes a turn's events as they come."""

    def event(self, event: Mapping[str, Any]) -> None: ...

    def end(self) -> None:
        """The stream ended, perhaps in the middle of a line."""


def colours(stream: TextIO) -> bool:
    """Whether a stream is a terminal that wants colour (NO_COLOR and TERM=dumb say no)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(piece: Piece) -> str:
    """A piece with ANSI attributes, which never reach over the end of a line."""
    code = _CODES[piece.style]
    if not code:
        return piece.text
    return "\n".join(f"\x1b[{code}m{line}\x1b[0m" if line else "" for line in piece.text.split("\n"))


class Human:
    """Pieces on a stream, in colour where it is a terminal."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._paint = painted if colours(self._stream) else lambda piece: piece.text
        self._renderer = Renderer()

    def event(self, event: Mapping[str, Any]) -> None:
        self._write(self._renderer.feed(event))

    def end(self) -> None:
        self._write(self._renderer.end())

    def _write(self, pieces: list[Piece]) -> None:
        if pieces:
            self._stream.write("".join(map(self._paint, pieces)))
            self._stream.flush()


class JsonLines:
    """Each event as one line of JSON."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout

    def event(self, event: Mapping[str, Any]) -> None:
        self._stream.write(json.dumps(event, default=str) + "\n")
        self._stream.flush()

    def end(self) -> None: ...


class Silent:
    """Nothing while the turn runs."""

    def event(self, event: Mapping[str, Any]) -> None: ...

    def end(self) -> None: ...


def forgiving(stream: TextIO) -> None:
    """Makes a stream replace what its encoding cannot say, instead of failing in the middle of an answer."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")
