"""A turn's events as styled pieces of text, in the order in which they are written. Nothing is ever drawn again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from turngraph.cli.text import call_text, one_line, plural, seconds_text, visible

Style: TypeAlias = Literal["content", "thinking", "head", "tool", "ok", "bad", "notice", "receipt"]


@dataclass(frozen=True)
class Piece:
    """A text and what it is; the text never moves the cursor but by its own newlines."""

    text: str
    style: Style


_MARKS: dict[str, tuple[str, Style]] = {
    "ok": ("✓", "ok"),
    "error": ("✗", "bad"),
    "denied": ("⊘", "bad"),
    "cancelled": ("⊘", "bad"),
    "unknown": ("?", "bad"),
}


class Renderer:
    """Turns events into pieces, one at a time.

    While a round streams nobody knows whether its text is narration or the answer; tool lines or the receipt after
    it tell. Laws: the `content` pieces joined are the `content` events joined (made visible); every other piece
    begins and ends a line, except `thinking`; text of rounds that continue one answer is joined without a break.
    """

    def __init__(self) -> None:
        self._at_line_start = True
        self._last: Style | None = None
        self._numbers: dict[str, int] = {}

    def feed(self, event: Mapping[str, Any]) -> list[Piece]:
        """The pieces of one event; none for events that a terminal has nothing to say about."""
        match event.get("type"):
            case "turn_started":
                self._numbers.clear()
                return self._line(f"thread {event.get('thread_id')} · model {event.get('model')}", "head")
            case "content" | "thinking" as kind:
                return self._stream(visible(str(event.get("text", ""))), kind)
            case "tool_started":
                call = call_text(event["name"], event.get("args") or {})
                return self._line(f"  → {self._number(event)} {call}", "tool")
            case "tool_finished":
                return self._finished(event)
            case "turn_finished":
                return [piece for text, style in receipt_lines(event["receipt"]) for piece in self._line(text, style)]
            case "checkpoint_folded" | "history_compacted" | "history_trimmed" | "notice":
                return self._line(f"  · {notice_text(event)}", "notice")
            case _:
                return []

    def end(self) -> list[Piece]:
        """What ends a line that a stream left open."""
        return self._break()

    def _stream(self, text: str, kind: Literal["content", "thinking"]) -> list[Piece]:
        if not text:
            return []
        before = [] if self._last == kind else self._break()
        if before or self._last not in (None, kind, "head", "notice"):
            before.append(Piece("\n", "notice"))
        self._last = kind
        self._at_line_start = text.endswith("\n")
        return [*before, Piece(text, kind)]

    def _finished(self, event: Mapping[str, Any]) -> list[Piece]:
        mark, style = _MARKS.get(event["status"], ("?", "bad"))
        status = "" if event["status"] == "ok" else f" {event['status']}"
        took = seconds_text(event.get("seconds") or 0.0)
        return self._line(f"  {mark} {self._number(event)} {one_line(event['name'])}{status}  {took}", style)

    def _number(self, event: Mapping[str, Any]) -> str:
        """The number of a call in its turn, which tells parallel calls apart."""
        return f"[{self._numbers.setdefault(event['call_id'], len(self._numbers) + 1)}]"

    def _line(self, text: str, style: Style) -> list[Piece]:
        before = self._break()
        if style in ("receipt", "bad") and self._last in ("content", "thinking"):
            before.append(Piece("\n", "notice"))
        self._last = style
        return [*before, Piece(f"{text}\n", style)]

    def _break(self) -> list[Piece]:
        if self._at_line_start:
            return []
        self._at_line_start = True
        return [Piece("\n", "notice")]


def notice_text(event: Mapping[str, Any]) -> str:
    """What happened to the context, or a notice's own words, on one line."""
    match event["type"]:
        case "checkpoint_folded":
            return "older rounds of this turn were folded"
        case "history_compacted":
            return "the oldest turns were summarised to make room"
        case "history_trimmed":
            counts = event.get("excluded_counts") or {}
            total = sum(entry.get("count", 0) for entry in counts.values())
            return f"{plural(total, 'message')} left out of the context"
        case _:
            return one_line(str(event.get("text") or event.get("code") or "notice"), 300)


def receipt_lines(receipt: Mapping[str, Any]) -> list[tuple[str, Style]]:
    """The receipt in one line, and its error in a second one where there is one."""
    status = str(receipt.get("status", "error"))
    usage = receipt.get("usage") or {}
    estimated = " (estimated)" if usage.get("estimated") else ""
    facts = [
        f"{status} ({receipt.get('stop_reason')})",
        plural(receipt.get("rounds", 0), "round"),
        plural(receipt.get("tool_calls", 0), "tool call"),
    ]
    if receipt.get("tool_errors"):
        facts.append(plural(receipt["tool_errors"], "tool error"))
    if receipt.get("interactions"):
        facts.append(plural(receipt["interactions"], "question"))
    facts.append(f"{plural(usage.get('total_tokens', 0), 'token')}{estimated}")
    facts.append(seconds_text(receipt.get("seconds", 0.0)))
    if receipt.get("model"):
        facts.append(one_line(str(receipt["model"])))
    mark = "✓" if status == "completed" else "!"
    lines: list[tuple[str, Style]] = [(f"{mark} {' · '.join(facts)}", "receipt" if status == "completed" else "bad")]
    if error := receipt.get("error"):
        lines.append((f"  {one_line(str(error.get('type')))}: {one_line(str(error.get('message')), 300)}", "bad"))
    return lines
