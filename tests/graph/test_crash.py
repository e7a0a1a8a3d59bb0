"""Real processes killed with SIGKILL: what finished is never run again, whatever resumes."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest


def child(folder: Path, action: str, argument: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.support.crash_child", str(folder / "t.sqlite"), str(folder / "effects")]
    return subprocess.run([*command, action, argument], capture_output=True, text=True, timeout=90, check=False)


def effects(folder: Path) -> list[str]:
    path = folder / "effects"
    return sorted(line.rsplit(" ", 1)[0] for line in path.read_text().splitlines()) if path.exists() else []


def keys(folder: Path) -> list[str]:
    return [line.rsplit(" ", 1)[1] for line in (folder / "effects").read_text().splitlines()]


def test_a_pause_in_a_killed_process_resumes_in_another(tmp_path: Path) -> None:
    died = child(tmp_path, "pause")
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert effects(tmp_path) == ["parallel b", "write a"]
    done = child(tmp_path, "approve")
    assert done.returncode == 0, done.stderr
    assert effects(tmp_path) == ["ask d", "parallel b", "write a"]
    assert len(set(keys(tmp_path))) == 3
    lines = done.stdout.splitlines()
    assert lines[0] == "All done."
    assert [line for line in lines if line.startswith("tool")] == [
        "tool wrote a",
        "tool did b",
        "tool read c",
        "tool asked d",
    ]


@pytest.mark.parametrize("action", ["continue", "message"])
def test_a_process_killed_inside_a_batch_loses_no_result_and_repeats_no_effect(tmp_path: Path, action: str) -> None:
    died = child(tmp_path, "die-in-tool")
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert effects(tmp_path) == ["parallel b", "write a"]
    done = child(tmp_path, action, "what now?")
    assert done.returncode == 0, done.stderr
    assert effects(tmp_path) == ["parallel b", "write a"]
    results = [line for line in done.stdout.splitlines() if line.startswith("tool")]
    assert results[:2] == ["tool wrote a", "tool did b"]
    assert "unknown" in results[3].lower()
    assert len(results) == 4
