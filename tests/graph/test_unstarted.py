"""A message that was saved, and whose process died before any node saw it, is answered with the next one."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from tests.support.turns import check_turn, thread
from turngraph.graph import build_turn_graph
from turngraph.llm import ScriptedModel


class Died(BaseException):
    """Stands for the end of the process."""


class Dies(SqliteSaver):
    """Ends the process right after it has saved a run's input."""

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        super().put(config, checkpoint, metadata, new_versions)
        if metadata["source"] == "input":
            raise Died
        raise AssertionError("something ran")


def graph(saver: Any) -> Any:
    def script(messages: list[BaseMessage]) -> str:
        return " and ".join(m.text for m in messages if isinstance(m, HumanMessage))

    return build_turn_graph(ScriptedModel(script), checkpointer=saver)


def say(text: str) -> Any:
    return {"messages": [HumanMessage(text, id=text)]}


def dies_with(path: Path, text: str) -> None:
    with Dies.from_conn_string(str(path)) as saver, pytest.raises(Died):
        graph(saver).invoke(say(text), thread(), durability="sync")


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("deaths", [1, 2])
def test_the_next_message_brings_it_along(tmp_path: Path, before: int, deaths: int) -> None:
    path = tmp_path / "turns.sqlite"
    if before:
        with SqliteSaver.from_conn_string(str(path)) as saver:
            graph(saver).invoke(say("zero"), thread())
    lost = [f"lost {number}" for number in range(deaths)]
    for text in lost:
        dies_with(path, text)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        output = graph(saver).invoke(say("new"), thread())
        assert output["answer"] == " and ".join([*(["zero"] if before else []), *lost, "new"])
        assert [m.id for m in output["messages"] if m.type == "human"][before:] == [*lost, "new"]
        check_turn(output)
        assert len(graph(saver).get_state(thread()).values["receipts"]) == before + 1


def test_the_same_message_sent_again_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "turns.sqlite"
    dies_with(path, "lost")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        output = graph(saver).invoke(say("lost"), thread())
    assert [m.text for m in output["messages"]] == ["lost", "lost"]


def test_a_run_without_input_goes_on_with_it(tmp_path: Path) -> None:
    path = tmp_path / "turns.sqlite"
    dies_with(path, "lost")
    with SqliteSaver.from_conn_string(str(path)) as saver:
        assert graph(saver).invoke(None, thread())["answer"] == "lost"
        assert graph(saver).invoke(say("new"), thread())["answer"] == "lost and new"


async def test_the_same_async(tmp_path: Path) -> None:
    path = tmp_path / "turns.sqlite"
    dies_with(path, "lost")
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        assert (await graph(saver).ainvoke(say("new"), thread()))["answer"] == "lost and new"
        assert (await graph(saver).ainvoke(say("last"), thread()))["answer"] == "lost and new and last"
