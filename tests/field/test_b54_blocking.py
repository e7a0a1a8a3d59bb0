"""B54 (langgraph#4218): no blocking call on the event loop, in any part of a turn, from the first token count on."""

import os
from pathlib import Path
from typing import Any

import pytest
from blockbuster import BlockingError, blockbuster_ctx
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from tests.support.openai_server import Request, Step, call, error, say
from tests.support.turns import chat, check_turn, thread
from turngraph.graph import Capability, TurnSettings, as_tool, asend_input, build_turn_graph
from turngraph.tools import TurnEffects, ask_user, load_skills
from turngraph.tools.demo import demo_tools

SCHEMA = {
    "title": "Found",
    "type": "object",
    "properties": {"places": {"type": "integer"}},
    "required": ["places"],
}

PLAN: list[Any] = [
    [("calculator", {"expression": "6 * 7"}), ("clock", {}), ("search_docs", {"query": "storage"})],
    [("checkpoint", {"summary": "Counted and read."}), ("long", {})],
    [("read_tool_result", {"call_id": "call_1_long"}), ("save_note", {"text": "done"})],
    [("activate_skill", {"name": "counting"}), ("inner", {"question": "Where?"})],
    [("ask_user", {"questions": [{"question": "Which?"}]})],
]


@tool(response_format="content_and_artifact")
def checkpoint(summary: str) -> tuple[str, TurnEffects]:
    """Fold what was done so far."""
    return "folded", TurnEffects(context_checkpoint=summary)


def long() -> str:
    """Give a long text."""
    return "many words here " * 4_000


def script() -> Any:
    """A failed try, the plan batch by batch, an inner turn's answer, the forced finish with its value."""
    tries = iter(range(100))

    def step(request: Request) -> Step:
        if "look_inside" in request.tool_names:
            return say("It is inside.") if "tool" in request.roles else call(("look_inside", {}))
        if request.body.get("tool_choice") == "none" or not request.tool_names:
            return say('{"places": 3}', chunks=3, reasoning="Enough.")
        number = next(tries)
        if number == 0:
            return error(503, headers={"Retry-After": "0"})
        return call(*PLAN[min(number, len(PLAN)) - 1], text="Working.", chunks=3, think="hm")

    return step


def skills(folder: Path) -> Any:
    (folder / "counting").mkdir(parents=True)
    (folder / "counting" / "SKILL.md").write_text("---\nname: counting\ndescription: How to count.\n---\nCount slowly.\n")
    return load_skills(folder)


@pytest.mark.parametrize("saver", ["memory", "sqlite", "store"])
async def test_b54_nothing_blocks_in_a_whole_turn(
    saver: str, openai_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNGRAPH_NOTES", str(tmp_path / "notes"))
    known = skills(tmp_path / "skills")
    server = openai_server(script())

    async def seed(question: str) -> str:
        return "Known: " + question

    def look_inside() -> str:
        """Look."""
        return "inside"

    inner = build_turn_graph(chat(server), [look_inside], name="inner")
    tools = [*demo_tools(), checkpoint, long, ask_user, as_tool(inner, description="Ask inside.")]

    async def scenario(checkpointer: Any, store: Any) -> None:
        graph = build_turn_graph(
            chat(server),
            tools,
            [Capability("memory", prompt="Remember.", seed=seed)],
            skills=known,
            response_format=SCHEMA,
            checkpointer=checkpointer,
            store=store,
        )
        settings = TurnSettings(
            max_rounds=6,
            context_window=4_096,
            max_output_tokens=256,
            fold_at=0.2,
            max_tool_output_tokens=500,
            on_pending_input="steer",
        )
        seen: list[str] = []
        step: Any = {"messages": [("user", "Do all of it.")]}
        while step is not None:
            output: Any = None
            async for mode, data in graph.astream(step, thread(), context=settings, stream_mode=["custom", "values"]):
                if mode == "custom":
                    seen.append(data["type"])
                else:
                    output = data
            step = None
            if (await graph.aget_state(thread())).interrupts:
                await asend_input(graph, "t1", "By the way.")
                payload = (await graph.aget_state(thread())).interrupts[0].value
                asked = payload["action_requests"]
                answers = [
                    {"type": "respond", "message": "this"} if each["name"] == "ask_user" else {"type": "approve"}
                    for each in asked
                ]
                step = Command(resume={"decisions": answers})
        check_turn(output)
        assert "checkpoint_folded" in seen
        assert "interaction_resolved" in seen
        assert output["receipt"]["stop_reason"] == "max_rounds"
        assert output["structured"] == {"places": 3}

    with blockbuster_ctx():
        if saver == "sqlite":
            async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "turns.sqlite")) as checkpointer:
                await scenario(checkpointer, None)
        else:
            await scenario(InMemorySaver(), InMemoryStore() if saver == "store" else None)


async def test_b54_the_detection_detects() -> None:
    with blockbuster_ctx(), pytest.raises(BlockingError):
        os.getcwd()
