"""The command line in processes of its own, as a shell starts it."""

import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def _heed_ctrl_c() -> None:
    """A child of a background job would ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass
class Shell:
    """Runs `turngraph` with a home and a database of its own."""

    home: Path
    model_url: str | None = None

    @property
    def database(self) -> Path:
        return self.home / "threads.sqlite"

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TEMP", "NO_PROXY") if name in os.environ}
        model = {"OPENAI_BASE_URL": self.model_url, "OPENAI_API_KEY": "sk-secret-key-of-this-test-0123456789"}
        return {
            **kept,
            **(model if self.model_url else {}),  # type: ignore[dict-item]
            "HOME": str(self.home),
            "TURNGRAPH_DB": str(self.database),
            "LANGSMITH_TRACING": "false",
            "LANGGRAPH_STRICT_MSGPACK": "true",
            "PYTHONUTF8": "1",
            "TERM": "xterm",
        }

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "turngraph.cli", *arguments],
            cwd=self.home,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_heed_ctrl_c,
        )

    def run(self, *arguments: str) -> "Ran":
        process = self.start(*arguments)
        out, err = process.communicate(timeout=60)
        return Ran(process.returncode, out, err)

    def line(self, command: str) -> "Ran":
        """Runs a command line as it was printed."""
        done = subprocess.run(
            shlex.split(command),
            cwd=self.home,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return Ran(done.returncode, done.stdout, done.stderr)


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def thread(self) -> str:
        found = re.search(r"^thread (\S+) · model", self.out, re.M)
        assert found, self.out + self.err
        return found[1]

    def command(self, verb: str) -> str:
        """The first printed command line with this verb."""
        for line in (self.out + self.err).splitlines():
            found = re.search(rf"(\S+ -m turngraph\.cli {verb} .*)$", line)
            if found:
                return found[1]
        raise AssertionError(f"no {verb} command in:\n{self.out}{self.err}")
