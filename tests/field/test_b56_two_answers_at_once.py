"""B56: two answers to one pause, or an answer and a message, at once: one wins, the other gets a clear conflict."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import Command

from tests.support.scripts import YES, Effects, calls, scripted
from tests.support.turns import check_turn, thread
from turngraph.graph import ResumeError, TurnConflict

ANSWER: Any = Command(resume={"decisions": [YES]})
MESSAGE: Any = {"messages": [("user", "never mind")]}


async def race(saver: Any, *inputs: Any) -> None:
    effects = Effects()
    graph, model = scripted([calls(("note", {"text": "side"}), ("send", {"to": "ann"})), "Done."], effects.tools(), checkpointer=saver)
    await graph.ainvoke({"messages": [("user", "go")]}, thread())
    ended = await asyncio.gather(*(graph.ainvoke(each, thread()) for each in inputs), return_exceptions=True)
    won = [at for at, each in enumerate(ended) if isinstance(each, dict)]
    assert len(won) == 1, ended
    assert all(isinstance(each, TurnConflict | ResumeError) for at, each in enumerate(ended) if at != won[0]), ended
    assert effects == ["note side", *(["send ann"] if inputs[won[0]] is ANSWER else [])]
    model.assert_strict()
    check_turn(ended[won[0]])


@pytest.mark.parametrize("inputs", [(ANSWER, ANSWER), (ANSWER, MESSAGE), (MESSAGE, ANSWER), (ANSWER,) * 8])
async def test_b56_in_memory(inputs: tuple[Any, ...]) -> None:
    await race(InMemorySaver(), *inputs)


@pytest.mark.parametrize("inputs", [(ANSWER, ANSWER), (ANSWER, MESSAGE)])
async def test_b56_on_sqlite(tmp_path: Path, inputs: tuple[Any, ...]) -> None:
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "t.sqlite")) as saver:
        await race(saver, *inputs)
