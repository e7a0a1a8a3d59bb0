"""Options of `resume` as decisions, a pause as text, and the two together: every printed command can be used."""

import re
import shlex
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.cli.pauses import pause
from turngraph.cli import app as app_module
from turngraph.cli.answers import Flags, resume_value
from turngraph.cli.pause import Place, pause_text, resume_commands
from turngraph.cli.values import UsageError


def decisions(flags: Flags, payload: Any) -> Any:
    return resume_value(flags, payload)["decisions"]


def test_one_option_is_meant_for_all_that_wait() -> None:
    both = pause("permission", "permission")
    assert decisions(Flags(approve=True), both) == {"call-1": {"type": "approve"}, "call-2": {"type": "approve"}}
    assert decisions(Flags(reject="no"), both)["call-2"] == {"type": "reject", "message": "no"}
    assert decisions(Flags(always="tool"), both)["call-1"] == {"type": "always", "scope": "tool"}
    assert decisions(Flags(respond="done"), both)["call-1"] == {"type": "respond", "message": "done"}
    assert decisions(Flags(abandon=True), both) == {"call-1": {"type": "abandon"}}


def test_call_narrows_it() -> None:
    both = pause("permission", "permission")
    assert decisions(Flags(approve=True, calls=["call-2"]), both) == {"call-2": {"type": "approve"}}
    with pytest.raises(UsageError, match=r"call-1 \(send_note\), call-2"):
        resume_value(Flags(approve=True, calls=["call-"]), both)
    with pytest.raises(UsageError, match="pending are"):
        resume_value(Flags(approve=True, calls=["other"]), both)


def test_approve_leaves_questions_open_and_goes_with_answers() -> None:
    mixed = pause("permission", "ask_user")
    assert decisions(Flags(approve=True), mixed) == {"call-1": {"type": "approve"}}
    assert decisions(Flags(approve=True, answers=["city=Rome", "why=a=b"]), mixed) == {
        "call-1": {"type": "approve"},
        "call-2": {"type": "respond", "answers": {"city": "Rome", "why": "a=b"}},
    }


def test_an_answer_given_twice_is_a_list() -> None:
    assert decisions(Flags(answers=["city=Rome", "city=Paris"]), pause("ask_user")) == {
        "call-1": {"type": "respond", "answers": {"city": ["Rome", "Paris"]}}
    }


def test_edit_takes_arguments_or_a_whole_action() -> None:
    one = pause("permission")
    edit = {"type": "edit", "edited_action": {"name": "send_note", "args": {"text": "x"}}}
    assert decisions(Flags(edit='{"text": "x"}'), one) == {"call-1": edit}
    assert decisions(Flags(edit='{"name": "send_note", "args": {"text": "x"}}'), one) == {"call-1": edit}


@pytest.mark.parametrize(
    ("flags", "payload", "says"),
    [
        (Flags(approve=True, reject="x"), pause("permission"), "--approve, --reject"),
        (Flags(edit="{"), pause("permission"), "not JSON"),
        (Flags(edit="[1]"), pause("permission"), "JSON object"),
        (Flags(edit="{}"), pause("permission", "permission"), "--call ID"),
        (Flags(approve=True), pause("ask_user"), "fits none"),
        (Flags(always="ever"), pause("permission"), "call or tool"),
        (Flags(answers=["town=Rome"]), pause("ask_user"), "city, why"),
        (Flags(answers=["city"]), pause("ask_user"), "ID=TEXT"),
        (Flags(answers=["city=Rome"]), pause("ask_user", "ask_user"), "--call ID"),
        (Flags(answers=["city=Rome"]), pause("permission"), "none"),
        (Flags(raw="nope"), pause("permission"), "not JSON"),
        (Flags(approve=True), {"tool": "asks"}, "--respond"),
    ],
)
def test_what_does_not_fit_is_refused(flags: Flags, payload: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        resume_value(flags, payload)


def test_json_decisions_are_passed_on() -> None:
    one = pause("permission")
    assert resume_value(Flags(raw='[{"type": "approve"}]'), one) == {"decisions": [{"type": "approve"}]}
    assert resume_value(Flags(raw='{"call-1": {"type": "approve"}}'), one)["decisions"]["call-1"] == {"type": "approve"}
    assert resume_value(Flags(raw='{"decisions": []}'), one) == {"decisions": []}
    assert resume_value(Flags(raw='{"a": 1}'), {"tool": "asks"}) == {"a": 1}
    assert resume_value(Flags(respond="7"), {"tool": "asks"}) == "7"


def flags_of(command: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Flags]:
    """The thread and flags that the command line reads from a printed command."""
    seen: list[Any] = []
    monkeypatch.setattr(app_module, "_on_thread", lambda work, thread, db, **rest: seen.append((thread, str(db), work)))
    monkeypatch.setattr(app_module, "resume_turn", lambda session, decide: decide)
    result = CliRunner().invoke(app_module.app, shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    thread, database, work = seen[0]
    assert database == "/tmp/my db.sqlite"
    return thread, work(None)


@pytest.mark.parametrize("kinds", [["permission"], ["ask_user"], ["permission", "ask_user"], ["permission"] * 3])
def test_every_printed_command_parses_and_fits(kinds: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    payload = pause(*kinds)
    place = Place("thread:1", "/tmp/my db.sqlite")
    commands = resume_commands(payload, place)
    assert len(commands) >= 2
    for command in commands:
        thread, decide = flags_of(command, monkeypatch)
        assert thread == "thread:1"
        assert decide(payload)["decisions"]  # type: ignore[operator]
    first = flags_of(commands[0], monkeypatch)[1](payload)["decisions"]  # type: ignore[operator]
    assert set(first) == {request["call_id"] for request in payload["turngraph"]["requests"]}


def test_a_pause_tells_what_it_asks_and_how_to_go_on() -> None:
    text = pause_text(pause("permission", "ask_user", error="too few"), Place("abc"))
    assert "  ? Call 1\n" in text
    assert "[city] Which city?" in text
    assert "1. Paris - France" in text
    assert "refused: too few" in text
    assert re.search(r"^  turngraph resume abc --approve --answer city=Paris --answer why=TEXT$", text, re.M)


def test_a_request_without_a_description_shows_its_call() -> None:
    bare = pause("permission")
    bare["action_requests"][0]["description"] = ""
    assert '  ? send_note(text="it\'s 1")\n' in pause_text(bare, Place("abc"))


def test_a_tools_own_pause_is_shown_and_answered_raw() -> None:
    text = pause_text({"ask": "how many?"}, Place("abc", program="./turngraph"))
    assert '{"ask": "how many?"}' in text
    assert "./turngraph resume abc --respond TEXT" in text
