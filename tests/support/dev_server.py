"""A real `langgraph dev` in a folder of its own, for tests that drive it with the SDK."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class DevServer:
    """Starts the server with the given graphs (name to `module:attribute`) and stops it at the end.

    Everything else is configured as in the project's `langgraph.json`. Blocking calls on the server's event loop fail
    a run: detection stays on.
    """

    def __init__(self, folder: Path, graphs: dict[str, str], env: dict[str, str] | None = None) -> None:
        self.folder, self.port = folder, free_port()
        ours = json.loads((ROOT / "langgraph.json").read_text())
        config: dict[str, Any] = {**ours, "dependencies": ["."], "graphs": graphs}
        (folder / "langgraph.json").write_text(json.dumps(config))
        self._env = {
            **{k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "VIRTUAL_ENV")},
            "PYTHONPATH": str(ROOT),
            "LANGSMITH_TRACING": "false",
            "LANGGRAPH_CLI_NO_ANALYTICS": "1",
            "LANGGRAPH_NO_VERSION_CHECK": "true",
            "NO_PROXY": "127.0.0.1,localhost",
            **(env or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        path = self.folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> "DevServer":
        command = [
            str(Path(sys.executable).with_name("langgraph")),
            "dev",
            *("--no-browser", "--no-reload", "--port", str(self.port), "--n-jobs-per-worker", "10"),
        ]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, env=self._env, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise AssertionError(f"langgraph dev ended with {self._process.returncode}:\n{self.log[-4000:]}")
            try:
                if httpx.get(f"{self.url}/ok", timeout=1, trust_env=False).status_code == 200:
                    return self
            except httpx.HTTPError:
                time.sleep(0.1)
        self.stop()
        raise AssertionError(f"langgraph dev did not start:\n{self.log[-4000:]}")

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def __enter__(self) -> "DevServer":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
