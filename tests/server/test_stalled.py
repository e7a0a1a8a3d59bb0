"""A provider that stalls behind a served turn: with batched deltas, all that came is shown while the stream is open."""

import pytest

from tests.server.conftest import Served, says

pytestmark = pytest.mark.server

TEXT = "All of this came before the stall"


@pytest.mark.parametrize("graph", ["turn", "parent"])
async def test_a_stalled_stream_shows_all_that_came(served: Served, graph: str) -> None:
    client = served.client
    thread_id = (await client.threads.create())["thread_id"]
    texts: list[str] = []
    run_id = ""
    parts = client.runs.stream(
        thread_id,
        graph,
        input=says(f"hang {TEXT}"),
        stream_mode=["custom"],
        stream_subgraphs=True,
        context={"turn_settings": {"stream_interval_ms": 1000}} if graph == "parent" else {"stream_interval_ms": 1000},
    )
    async for part in parts:
        if part.event == "metadata":
            run_id = part.data["run_id"]
        elif part.event.startswith("custom") and part.data["type"] == "content":
            texts.append(part.data["text"])
            if "".join(texts) == TEXT:
                break
    assert "".join(texts) == TEXT
    assert len(texts) < 5, "nothing was batched"
    await client.runs.cancel(thread_id, run_id, wait=True)
    assert (await served.values(thread_id))["messages"][-1]["content"] == TEXT
