"""The worked example of a supervisor with two turn agents runs offline, in a process of its own."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "supervisor.py"


def test_the_supervisor_asks_both_agents_and_its_pause_is_theirs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        env={"TURNGRAPH_NOTES": str(tmp_path), "LANGSMITH_TRACING": "false", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "    calls calculator {'expression': '12 * (3 + 4)'}" in lines
    waits = lines.index("waits for a person")
    assert lines[waits + 1] == "approved: save_note {'text': 'the answer is 84'}"
    assert "    save_note: ok" in lines[waits:]
    assert "12 * (3 + 4) = 84" in done.stdout
    notes = (tmp_path / "notes.md").read_text()
    assert notes.count("the answer is 84") == 1, "the approved note was written once"
