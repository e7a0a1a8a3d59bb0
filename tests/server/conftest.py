"""One served set of graphs for all tests of a worker: its server, its scripted model, its file of effects."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client

from tests.support.dev_server import DevServer
from tests.support.openai_server import ScriptedServer
from tests.support.served import EFFECTS, MODEL_URL, answer


@dataclass
class Served:
    """A running `langgraph dev` with the graphs of `tests.support.served`."""

    server: DevServer
    model: ScriptedServer
    effects_file: Path

    @property
    def client(self) -> Any:
        """A client for the event loop that runs now."""
        return get_client(url=self.server.url)

    @property
    def effects(self) -> list[str]:
        return self.effects_file.read_text().splitlines() if self.effects_file.exists() else []

    async def values(self, thread_id: str) -> dict[str, Any]:
        values: dict[str, Any] = (await self.client.threads.get_state(thread_id))["values"]
        return values

    async def status(self, thread_id: str) -> str:
        return str((await self.client.threads.get(thread_id))["status"])

    async def until(self, seen: Any, seconds: float = 20) -> Any:
        """What the async function `seen` gives, once that is something."""
        for _ in range(int(seconds / 0.05)):
            if found := await seen():
                return found
            await asyncio.sleep(0.05)
        raise AssertionError(f"{seen} saw nothing in {seconds} seconds")


def says(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    graphs = {name: f"tests.support.served:{name}" for name in ("turn", "parent")}
    with ScriptedServer(answer, strict=True) as model:
        env = {MODEL_URL: model.url, EFFECTS: str(folder / "effects.txt")}
        with DevServer(folder, graphs, env) as server:
            yield Served(server, model, folder / "effects.txt")
        assert "Blocking" not in server.log, "a blocking call on the server's event loop"
