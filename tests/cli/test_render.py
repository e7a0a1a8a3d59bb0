"""Events as text: laws of the pieces, and what a whole turn looks like."""

import io
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from turngraph.cli.render import Renderer, receipt_lines
from turngraph.cli.terminal import Human, JsonLines, painted
from turngraph.cli.text import call_text, one_line, seconds_text, visible

RECEIPT: dict[str, Any] = {
    "turn_id": "t",
    "status": "completed",
    "stop_reason": "finish",
    "rounds": 2,
    "tool_calls": 2,
    "tool_errors": 0,
    "interactions": 0,
    "usage": {"total_tokens": 1234, "estimated": True},
    "seconds": 0.5,
    "model": "offline",
    "error": None,
}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "turn_id": "t", "round": 1, **fields}


def text_of(events: list[dict[str, Any]]) -> str:
    renderer = Renderer()
    return "".join(piece.text for each in events for piece in renderer.feed(each)) + "".join(
        piece.text for piece in renderer.end()
    )


def test_a_whole_turn_reads_from_top_to_bottom() -> None:
    shown = text_of(
        [
            event("turn_started", thread_id="abc", model="offline"),
            event("round_started"),
            event("thinking", text="Let me "),
            event("thinking", text="see."),
            event("content", text="I will compute "),
            event("content", text="both."),
            event("round_finished", call_role="narration", finish_reason="tool_calls", usage={}),
            event("tool_started", call_id="1", name="calculator", args={"expression": "1+1"}),
            event("tool_started", call_id="2", name="clock", args={}),
            event("tool_finished", call_id="2", name="clock", status="error", seconds=0.25),
            event("tool_finished", call_id="1", name="calculator", status="ok", seconds=12.34),
            event("round_started"),
            event("content", text="It is 2."),
            event("round_finished", call_role="finish", finish_reason="stop", usage={}),
            event("turn_finished", receipt=RECEIPT),
        ]
    )
    assert shown == (
        "thread abc · model offline\n"
        "Let me see.\n"
        "\n"
        "I will compute both.\n"
        '  → [1] calculator(expression="1+1")\n'
        "  → [2] clock()\n"
        "  ✗ [2] clock error  0.25 s\n"
        "  ✓ [1] calculator  12.3 s\n"
        "\n"
        "It is 2.\n"
        "\n"
        "✓ completed (finish) · 2 rounds · 2 tool calls · 1,234 tokens (estimated) · 0.50 s · offline\n"
    )


def test_rounds_that_continue_an_answer_are_joined_without_a_break() -> None:
    parts = [
        event("content", text="The first half, "),
        event("round_finished", call_role="finish", finish_reason="length", usage={}),
        event("round_started"),
        event("content", text="the second."),
    ]
    assert text_of(parts) == "The first half, the second.\n"


def test_an_unfinished_turn_and_its_error_are_told() -> None:
    receipt = {**RECEIPT, "status": "incomplete", "stop_reason": "provider_error", "tool_errors": 1, "interactions": 2}
    lines = receipt_lines({**receipt, "error": {"type": "RateLimit", "message": "slow\ndown", "retryable": True}})
    told = "! incomplete (provider_error) · 2 rounds · 2 tool calls · 1 tool error · 2 questions"
    assert lines[0][0].startswith(told)
    assert lines[1] == ("  RateLimit: slow down", "bad")


def test_what_happened_to_the_context_is_told_and_unknown_events_are_not() -> None:
    shown = text_of(
        [
            event("history_trimmed", excluded_counts={"out_of_budget": {"count": 3}, "folded": {"count": 1}}),
            event("checkpoint_folded", call_id="1", folded=2),
            event("notice", code="offline_model", text="No model is configured."),
            event("interaction_resolved", call_ids=["1"]),
            event("something_new"),
        ]
    )
    assert shown.splitlines() == [
        "  · 4 messages left out of the context",
        "  · older rounds of this turn were folded",
        "  · No model is configured.",
    ]


texts = st.text(max_size=30)
events = st.lists(
    st.one_of(
        st.builds(lambda text: event("content", text=text), texts),
        st.builds(lambda text: event("thinking", text=text), texts),
        st.builds(lambda text: event("tool_started", call_id=text, name=text, args={"x": text}), texts),
        st.builds(lambda text: event("tool_finished", call_id=text, name=text, status="ok", seconds=1.0), texts),
        st.builds(lambda text: event("notice", code="x", text=text), texts),
        st.just(event("round_started")),
        st.just(event("turn_finished", receipt=RECEIPT)),
    ),
    max_size=12,
)


@given(events)
@settings(max_examples=200, deadline=None)
def test_content_pieces_are_the_content_and_other_lines_stand_alone(given_events: list[dict[str, Any]]) -> None:
    renderer = Renderer()
    pieces = [piece for each in given_events for piece in renderer.feed(each)] + renderer.end()
    said = "".join(each["text"] for each in given_events if each["type"] == "content")
    assert "".join(piece.text for piece in pieces if piece.style == "content") == visible(said)
    at_start = True
    for piece in pieces:
        if piece.style not in ("content", "thinking") and piece.text != "\n":
            assert at_start
            assert piece.text.endswith("\n")
            assert piece.text.count("\n") == 1
        at_start = piece.text.endswith("\n")
    assert at_start


@given(st.lists(st.text(st.characters(), max_size=8), max_size=6))
@settings(max_examples=200, deadline=None)
def test_visible_works_character_by_character_and_leaves_no_control(parts: list[str]) -> None:
    whole = visible("".join(parts))
    assert whole == "".join(map(visible, parts))
    assert all(ch in "\n\t" or not (ord(ch) < 32 or 127 <= ord(ch) < 160 or 0xD800 <= ord(ch) < 0xE000) for ch in whole)


def test_a_model_cannot_steer_the_terminal() -> None:
    assert visible("\x1b]0;owned\x07\x1b[2Jhi\r\n") == "\ufffd]0;owned\ufffd\ufffd[2Jhi\n"
    assert one_line("safe\u202egnp.exe") == "safe\\u202egnp.exe"
    assert "\x1b" not in call_text("x", {"a": "\x1b[2J"})


def test_long_things_are_cut() -> None:
    assert len(one_line("a" * 500, 40)) == 40
    assert call_text("f", {"a": "b" * 500}, 50).endswith("…")
    assert [seconds_text(each) for each in (0.041, 12.34, 185)] == ["0.04 s", "12.3 s", "3 min 05 s"]


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colour_and_a_pipe_does_not(monkeypatch: Any) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    said = [event("thinking", text="hm\nyes"), event("content", text="Answer.")]
    plain, tty = io.StringIO(), Tty()
    for stream in (plain, tty):
        sink = Human(stream)
        for each in said:
            sink.event(each)
        sink.end()
    assert plain.getvalue() == "hm\nyes\n\nAnswer.\n"
    assert tty.getvalue().startswith("\x1b[2;3mhm\x1b[0m\n\x1b[2;3myes\x1b[0m\n")
    assert "Answer.\n" in tty.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    bare = Tty()
    Human(bare).event(said[0])
    assert bare.getvalue() == "hm\nyes"


def test_painting_never_reaches_over_a_line() -> None:
    from turngraph.cli.render import Piece

    assert painted(Piece("a\n\nb\n", "tool")) == "\x1b[36ma\x1b[0m\n\n\x1b[36mb\x1b[0m\n"


def test_json_lines_are_one_event_each() -> None:
    stream = io.StringIO()
    sink = JsonLines(stream)
    said = [event("content", text="two\nlines \udcff"), event("turn_finished", receipt=RECEIPT)]
    for each in said:
        sink.event(each)
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == said
