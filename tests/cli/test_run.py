"""Whole runs of the command line, each in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import ROOT, Ran, Shell
from tests.support.openai_server import Request, ScriptedServer, Wait, call, error, hanging, say
from tests.support.openai_steps import Step

QUESTION = "What is 12*(3+4)? What time is it in UTC? And how does turngraph store messages?"
Server = Callable[..., ScriptedServer]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def with_model(shell: Shell, server: ScriptedServer) -> list[str]:
    """Options for the scripted model."""
    shell.model_url = server.url
    return ["--model", "openai:scripted"]


def ok(ran: Ran) -> Ran:
    assert ran.code == 0, f"exit {ran.code}\n{ran.out}\n{ran.err}"
    return ran


def test_a_turn_streams_a_parallel_batch_an_answer_and_a_receipt(shell: Shell) -> None:
    ran = ok(shell.run("run", QUESTION))
    lines = ran.out.splitlines()
    started = [at for at, line in enumerate(lines) if line.startswith("  → ")]
    finished = [at for at, line in enumerate(lines) if re.match(r"  ✓ \[\d\] \w+  [\d.]+ s$", line)]
    assert len(started) >= 2
    assert len(finished) == len(started)
    assert started[1] < finished[0], "the calls of one batch start together"
    assert "84" in ran.out
    assert re.search(r"^✓ completed \(finish\) · \d+ rounds · \d+ tool calls · .*offline", ran.out, re.M)
    assert "No model is configured" in ran.out
    assert "\x1b" not in ran.out
    assert shell.database.stat().st_size > 0


def test_a_thread_goes_on_and_is_listed_and_shown(shell: Shell) -> None:
    ok(shell.run("run", "What is 2+3?", "--thread", "sums"))
    ok(shell.run("run", "What is 4*5?", "--thread", "sums"))
    listed = ok(shell.run("threads", "--json")).out.splitlines()
    assert [json.loads(line)["thread_id"] for line in listed] == ["sums"]
    row = json.loads(listed[0])
    assert (row["turns"], row["status"], row["question"]) == (2, "completed", "What is 2+3?")
    assert "sums" in ok(shell.run("threads")).out
    shown = ok(shell.run("show", "sums")).out
    assert shown.index("human> What is 2+3?") < shown.index("human> What is 4*5?")
    assert shown.count("✓ completed") == 2
    whole = json.loads(ok(shell.run("show", "sums", "--json")).out)
    assert len(whole["receipts"]) == 2
    assert whole["pending"] == []


def test_json_lines_carry_the_answer(shell: Shell) -> None:
    ran = ok(shell.run("run", QUESTION, "--thread", "j", "--json"))
    events = [json.loads(line) for line in ran.out.splitlines()]
    assert events[0]["type"] == "turn_started"
    assert events[-1]["type"] == "turn_finished"
    finishing = {each["round"] for each in events if each["type"] == "round_finished" and each["call_role"] == "finish"}
    said = "".join(each["text"] for each in events if each["type"] == "content" and each["round"] in finishing)
    messages = json.loads(ok(shell.run("show", "j", "--json")).out)["messages"]
    assert said == messages[-1]["data"]["content"]
    quiet = ok(shell.run("run", QUESTION, "--quiet"))
    assert quiet.out.strip()
    assert "→" not in quiet.out
    assert "thread" not in quiet.out.splitlines()[0]


@pytest.mark.parametrize("where", ["default", "db"])
def test_a_pause_is_answered_by_the_printed_command_in_another_process(shell: Shell, where: str) -> None:
    place = ["--db", str(shell.home / "my threads.sqlite")] if where == "db" else []
    ran = shell.run("run", "What is 6*7? What time is it in UTC?", "--permission-mode", "ask_all", *place)
    assert ran.code == 3, ran.out + ran.err
    assert "Paused: 2 requests" in ran.out
    assert "The assistant wants to run" in ran.out
    resumed = ok(shell.line(ran.command("resume")))
    assert "42" in resumed.out
    assert "✓ completed" in resumed.out
    assert shell.line(ran.command("resume")).code == 2, "nothing waits any more"


def test_some_calls_may_be_answered_first(shell: Shell) -> None:
    ran = shell.run("run", "What is 6*7? What time is it in UTC?", "--permission-mode", "ask_all", "--thread", "p")
    assert ran.code == 3
    pending = json.loads(shell.run("show", "p", "--json").out)["pending"][0]["turngraph"]["requests"]
    first = shell.run("resume", "p", "--call", pending[0]["call_id"], "--approve")
    assert first.code == 3, first.out + first.err
    assert "Paused: 1 request" in first.out
    assert "completed" in ok(shell.run("resume", "p", "--reject", "not today")).out


def test_resume_without_a_terminal_says_what_waits(shell: Shell) -> None:
    shell.run("run", "What is 6*7?", "--permission-mode", "ask_all", "--thread", "p")
    again = shell.run("resume", "p")
    assert again.code == 3
    assert "The assistant wants to run" in again.out
    assert shell.run("continue", "p").code == 3
    abandoned = ok(shell.run("resume", "p", "--abandon"))
    assert "abandoned (user_abandoned)" in abandoned.out


def test_questions_are_answered_by_id(shell: Shell, openai_server: Server) -> None:
    question = {"question": "Which city?", "id": "city", "options": [{"label": "Paris"}, {"label": "Rome"}]}
    server = openai_server([call(("ask_user", {"questions": [question]})), say("Rome it is.")])
    ran = shell.run("run", "Plan my trip", *with_model(shell, server))
    assert ran.code == 3, ran.out + ran.err
    assert "[city] Which city?" in ran.out
    assert "1. Paris" in ran.out
    resumed = ok(shell.line(ran.command("resume").replace("city=Paris", "city=Rome")))
    assert "Rome it is." in resumed.out
    assert "Rome" in server.accepted[-1].said("tool")
    server.done()


def wait_for(process: "subprocess.Popen[str]", text: str) -> str:
    """Reads a process's output until a text stands in it."""
    assert process.stdout is not None
    seen = ""
    while text not in seen:
        read = process.stdout.read(1)
        assert read, f"ended before {text!r}: {seen}"
        seen += read
    return seen


def test_ctrl_c_leaves_a_usable_thread(shell: Shell, openai_server: Server) -> None:
    server = openai_server([Step((*say("I am going to ").items, Wait(None))), say("Here again.")])
    process = shell.start("run", "Tell me a story", "--thread", "c", *with_model(shell, server))
    seen = wait_for(process, "I am going to ")
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, seen + out + err
    assert time.monotonic() - begun < 8
    assert "Stopped." in out
    assert "run --thread c" in out
    assert "Traceback" not in out + err
    shown = ok(shell.run("show", "c")).out
    assert "I am going to" in shown
    assert "cancelled" in shown
    assert "Here again." in ok(shell.run("run", "Go on", "--thread", "c", "--model", "openai:scripted")).out


def test_ctrl_c_before_the_first_word(shell: Shell, openai_server: Server) -> None:
    server = openai_server([hanging()])
    process = shell.start("run", "Hello?", "--thread", "c", *with_model(shell, server))
    wait_for(process, "thread c")
    while not server.accepted:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, out + err
    assert "Traceback" not in out + err
    server.add(say("Later."))
    assert "Later." in ok(shell.run("run", "Hello again", "--thread", "c", "--model", "openai:scripted")).out


def test_a_provider_error_is_one_clear_text_and_can_be_tried_again(shell: Shell, openai_server: Server) -> None:
    refusal = "Incorrect API key provided: sk-secret-key-of-this-test-0123456789"
    server = openai_server([error(401, refusal), say("Hi.")])
    ran = shell.run("run", "Hello", *with_model(shell, server))
    assert ran.code == 1, ran.out + ran.err
    assert ran.err.startswith("turngraph: ")
    assert "Traceback" not in ran.out + ran.err
    assert "sk-secret" not in ran.out + ran.err
    assert "Hi." in ok(shell.line(ran.command("continue"))).out


def test_input_sent_while_a_turn_runs_is_answered(shell: Shell, openai_server: Server) -> None:
    is_sent = threading.Event()

    def after_it_is_sent(request: Request) -> Step:
        assert is_sent.wait(60)
        return call(("clock", {}))

    server = openai_server([after_it_is_sent, say("The second answer.")])
    process = shell.start("run", "First", "--thread", "q", *with_model(shell, server))
    wait_for(process, "thread q")
    sent = ok(shell.run("send", "q", "Second, please"))
    is_sent.set()
    assert "Queued: the running turn" in sent.out
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    assert "pending_input" in out
    assert "The second answer." in out
    assert "Second, please" in server.accepted[-1].said("user")


def test_input_sent_to_a_finished_thread_is_taken_by_continue(shell: Shell) -> None:
    ok(shell.run("run", "What is 1+1?", "--thread", "q"))
    assert "Nothing is left to do" in ok(shell.run("continue", "q")).out
    assert "next turn" in ok(shell.run("send", "q", "What is 20+3?")).out
    assert "23" in ok(shell.run("continue", "q")).out


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "nobody"],
        ["resume", "nobody", "--approve"],
        ["run", "x", "--set", "max_round=3"],
        ["run", "x", "--permission-mode", "sometimes"],
        ["run", "x", "--thread", "a b"],
        ["run", " "],
        ["run"],
        ["fly"],
        ["run", "x", "--wings"],
    ],
)
def test_wrong_usage_is_exit_code_two(shell: Shell, arguments: list[str]) -> None:
    ran = shell.run(*arguments)
    assert ran.code == 2, ran.out + ran.err
    assert ran.err
    assert "Traceback" not in ran.err


def test_a_database_that_cannot_be_used_is_named(shell: Shell) -> None:
    for path in (shell.home, shell.home / "text.sqlite"):
        (shell.home / "text.sqlite").write_text("this is no database, " * 200)
        ran = shell.run("run", "What is 1+1?", "--db", str(path))
        assert ran.code == 1
        assert "database" in ran.err
        assert "Traceback" not in ran.err


def test_a_reader_that_goes_away_is_no_error(shell: Shell) -> None:
    process = shell.start("run", QUESTION, "--thread", "pipe")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    process.wait(timeout=30)
    assert "84" in ok(shell.run("run", "What is 12*7?", "--thread", "pipe")).out


def test_on_a_terminal_a_person_is_asked(shell: Shell) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    arguments = ["run", "What is 6*7?", "--permission-mode", "ask_all"]
    process = subprocess.Popen(
        [sys.executable, "-m", "turngraph.cli", *arguments],
        cwd=shell.home,
        env=shell.environment(),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen, answered = b"", False
    while True:
        try:
            read = os.read(ours, 4096)
        except OSError:
            break
        if not read:
            break
        seen += read
        if not answered and seen.rstrip().endswith(b">"):
            os.write(ours, b"y\n")
            answered = True
    os.close(ours)
    assert process.wait(timeout=30) == 0, seen.decode()
    assert b"The assistant wants to run" in seen
    assert b"42" in seen


def python(code: str) -> Any:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_help_imports_nothing_heavy() -> None:
    done = python(
        "import sys\nsys.argv = ['turngraph', 'run', '--help']\nfrom turngraph.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "heavy = {'langgraph', 'langchain_core', 'openai', 'tiktoken'} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    assert done.returncode == 0, done.stderr
    assert "--permission-mode" in done.stdout


def test_a_missing_extra_is_named() -> None:
    done = python(
        "import sys\nsys.modules['typer'] = None\nsys.argv = ['turngraph', 'threads']\n"
        "from turngraph.cli import main\nmain()\n"
    )
    assert done.returncode == 1
    assert 'pip install "turngraph[cli]"' in done.stderr
    assert "Traceback" not in done.stderr
