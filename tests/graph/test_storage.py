"""Threads over time: forks, edits and removals from a UI, history, and threads of the first version of the state."""

import gzip
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from tests.support.make_thread_v1 import FILE, SETTINGS, graph_of
from tests.support.strict import assert_valid_history
from tests.support.turns import check_calls, check_turn, run, thread
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import tool_policy

SMALL = TurnSettings(context_window=2_048, max_output_tokens=300, max_rounds=60, max_tool_calls=60)


class Chat:
    """A thread whose model looks twice at whatever it is asked, and keeps every request."""

    def __init__(self, settings: TurnSettings = SMALL, looks: int = 2) -> None:
        self.settings, self.looks = settings, looks
        self.asked, self.done = "", 0
        self.requests: list[list[BaseMessage]] = []
        self.graph: Any = build_turn_graph(
            ScriptedModel([self.reply] * 500), [tool_policy(look, effect="read")], checkpointer=InMemorySaver()
        )

    def reply(self, messages: list[BaseMessage]) -> Any:
        if "memory of a conversation" in messages[0].text:
            return "They looked at places."
        assert_valid_history(messages)
        self.requests.append(messages)
        self.done += 1
        if self.done <= self.looks:
            return ScriptedReply(calls=[("look", {"place": f"place {len(self.requests)}"})])
        return f"Answer to {self.asked}"

    def say(self, text: str, config: Any = None, *, removed: bool = False) -> dict[str, Any]:
        """One turn. `removed`: somebody took messages off the tape, so that not every call on it has its result."""
        self.asked, self.done = text, 0
        output, events = run(self.graph, {"messages": [HumanMessage(text)]}, config or thread(), context=self.settings)
        if not removed:
            check_turn(output, events)
        return dict(output)

    @property
    def values(self) -> dict[str, Any]:
        return dict(self.graph.get_state(thread()).values)

    def kinds(self) -> set[str]:
        return {anchor["kind"] for anchor in self.values["anchors"]}

    def sent(self) -> str:
        """The last request as one text."""
        return "\n".join(str(message.content) for message in self.requests[-1])


def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: coal and grain for the islands " * 6


def test_a_fork_knows_what_came_before_it_only() -> None:
    chat = Chat()
    chat.say("one")
    after_one = chat.graph.get_state(thread()).config
    chat.say("two")
    trunk = chat.graph.get_state(thread()).config
    forked = chat.say("other", after_one)
    assert "two" not in chat.sent()
    assert [each["turn_id"] for each in chat.values["receipts"]] != []
    assert len(chat.values["receipts"]) == 2
    assert forked["receipt"]["turn_id"] == chat.values["receipts"][-1]["turn_id"]
    old = chat.graph.get_state(trunk).values
    assert [m.text for m in old["messages"] if isinstance(m, HumanMessage)] == ["one", "two"]
    chat.say("two again", trunk)
    assert "Answer to two" in chat.sent()
    assert "other" not in chat.sent()


def test_an_edited_message_is_what_the_next_request_says() -> None:
    chat = Chat()
    chat.say("the old question")
    first = chat.values["messages"][0]
    chat.graph.update_state(thread(), {"messages": [HumanMessage("the new question", id=first.id)]})
    assert len(chat.values["messages"]) == 6
    chat.say("and now?")
    assert "the new question" in chat.sent()
    assert "the old question" not in [message.text for message in chat.requests[-1]]


@pytest.mark.parametrize("which", ["question", "call", "result", "answer", "all of a turn", "everything"])
def test_messages_that_a_user_removed(which: str) -> None:
    chat = Chat()
    chat.say("one")
    chat.say("two")
    chat.say("three")
    messages = chat.values["messages"]
    turn = messages[6:12] if len(messages) == 18 else messages[len(messages) // 3 : 2 * len(messages) // 3]
    gone: list[str] = {
        "question": [turn[0].id],
        "call": [turn[1].id],
        "result": [next(m.id for m in turn if isinstance(m, ToolMessage))],
        "answer": [turn[-1].id],
        "all of a turn": [message.id for message in turn],
        "everything": [REMOVE_ALL_MESSAGES],
    }[which]
    chat.graph.update_state(thread(), {"messages": [RemoveMessage(id=each) for each in gone]}, as_node="finalize")
    kept = len(chat.values["messages"])
    assert kept == (0 if which == "everything" else len(messages) - len(gone))
    output = chat.say("four", removed=True)
    assert output["answer"] == "Answer to four"
    assert output["receipt"]["status"] == "completed"
    assert len(chat.values["receipts"]) == 4
    assert {message.id for message in chat.values["messages"]}.isdisjoint(gone)


def long_thread() -> Chat:
    """A thread with folds, summaries and dropped turns."""
    chat = Chat(looks=7)
    for number in range(4):
        chat.say(f"question {number} ")
    chat.looks = 0
    for number in range(4, 12):
        chat.say(f"question {number} " + "and then " * 60)
    return chat


def test_history_over_folds_and_summaries_shows_the_tape_as_it_grew() -> None:
    chat = long_thread()
    assert {"fold", "summary"} <= chat.kinds()
    snapshots = list(chat.graph.get_state_history(thread()))[::-1]
    tape: list[Any] = []
    anchors: list[Any] = []
    for snapshot in snapshots:
        messages, kept = snapshot.values.get("messages", []), snapshot.values.get("anchors", [])
        assert messages[: len(tape)] == tape, "an old message was changed"
        assert kept[: len(anchors)] == anchors, "an anchor was changed"
        tape, anchors = messages, kept
    check_calls(tape)
    assert len([m for m in tape if isinstance(m, HumanMessage)]) == 12
    assert all("folded" not in m.text for m in tape if isinstance(m, ToolMessage))
    ids = [anchor["id"] for anchor in anchors]
    assert len(set(ids)) == len(ids)
    assert [receipt["status"] for receipt in chat.values["receipts"]] == ["completed"] * 12


@pytest.mark.parametrize("kind", ["fold", "summary", "trim", "shorten"])
def test_the_message_that_an_anchor_names_is_removed(kind: str) -> None:
    chat = long_thread()
    named: set[str] = set()
    for anchor in chat.values["anchors"]:
        if anchor["kind"] == kind:
            named |= {anchor.get("before_message_id", ""), anchor.get("through_message_id", "")}
            named |= {*anchor.get("message_ids", []), *anchor.get("tokens", {}), anchor.get("made_after", "")}
    there = [message.id for message in chat.values["messages"] if message.id in named]
    gone = [RemoveMessage(id=each) for each in there]
    chat.graph.update_state(thread(), {"messages": gone}, as_node="finalize")
    output = chat.say("the last question", removed=True)
    assert output["answer"] == "Answer to the last question"
    context = output["receipt"]["context"]
    assert context["used"] + context["reserved"] <= context["window"]


@pytest.mark.parametrize(("window", "folds"), [(8_192, 10), (1_000_000, 0)])
def test_a_turn_that_folds_often_stores_a_small_multiple_of_its_content(
    tmp_path: Path, window: int, folds: int
) -> None:
    """What each step says of the request (which results were left out) must not outweigh what it adds."""

    def read(page: int) -> str:
        """Read a page."""
        return f"page {page}: " + "lorem ipsum dolor sit amet " * 75

    rounds, path = 80, tmp_path / "t.sqlite"
    script = [*(ScriptedReply(calls=[("read", {"page": n})]) for n in range(rounds)), "Done."]
    settings = TurnSettings(context_window=window, max_rounds=100, max_tool_calls=100)
    with SqliteSaver.from_conn_string(str(path)) as saver:
        graph = build_turn_graph(ScriptedModel(script), [tool_policy(read, effect="read")], checkpointer=saver)
        output = graph.invoke({"messages": [("user", "go")]}, thread(), context=settings)
    assert output["receipt"]["folds"] >= folds
    context = output["receipt"]["context"]
    assert context["used"] == sum(context["segments"].values())
    assert bool(context["excluded"]) == bool(folds)
    assert stored(path) <= 5 * rounds * len(read(10))


def stored(path: Path) -> int:
    """Payload bytes (keys aside) in LangGraph's own tables."""
    with sqlite3.connect(path) as db:
        total = 0
        for table in ("checkpoints", "writes"):
            columns = [row[1] for row in db.execute(f"pragma table_info({table})") if not row[1].endswith("_id")]
            sizes = " + ".join(f"coalesce(length(cast({column} as blob)), 0)" for column in columns)
            total += db.execute(f"select coalesce(sum({sizes}), 0) from {table}").fetchone()[0]
        return total


class TestTheFirstVersion:
    @pytest.fixture
    def path(self, tmp_path: Path) -> str:
        made = tmp_path / "thread.sqlite"
        made.write_bytes(gzip.decompress(FILE.read_bytes()))
        return str(made)

    def test_its_threads_go_on(self, path: str) -> None:
        requests: list[list[BaseMessage]] = []

        def reply(messages: list[BaseMessage]) -> str:
            assert_valid_history(messages)
            requests.append(messages)
            return "I still know it."

        with SqliteSaver.from_conn_string(path) as saver:
            graph = graph_of(saver, [reply] * 5)
            before = graph.get_state(thread("talk")).values
            assert {anchor["kind"] for anchor in before["anchors"]} == {"fold", "shorten", "trim", "turn"}
            assert {anchor["version"] for anchor in before["anchors"] if anchor["kind"] == "turn"} == {1}
            output, events = run(graph, "Do you know it?", thread("talk"), context=SETTINGS)
            check_turn(output, events)
            assert output["answer"] == "I still know it."
            assert output["messages"][: len(before["messages"])] == before["messages"]
            receipts = graph.get_state(thread("talk")).values["receipts"]
            assert receipts[:-1] == before["receipts"]
            assert len(receipts) == 10
        shown = "\n".join(str(message.content) for message in requests[-1])
        assert "Do you know it?" in shown
        assert "Question 8" in shown
        assert "Question 0" not in shown

    def test_its_pause_is_answered(self, path: str) -> None:
        with SqliteSaver.from_conn_string(path) as saver:
            graph = graph_of(saver, ["To Zeebrugge then."])
            answer = {"decisions": [{"type": "respond", "answers": {"port": "Zeebrugge"}}]}
            output, events = run(graph, Command(resume=answer), thread("asks"), context=SETTINGS)
            check_turn(output, events)
            assert output["answer"] == "To Zeebrugge then."
            results = {m.name: m.text for m in output["messages"] if isinstance(m, ToolMessage)}
            assert "Zeebrugge" in results["ask_user"]
            assert results["read"].startswith("page 1")
            assert output["receipt"]["interactions"] == 1
            assert len(graph.get_state(thread("asks")).values["receipts"]) == 1

    def test_its_history_can_be_read(self, path: str) -> None:
        with SqliteSaver.from_conn_string(path) as saver:
            history = list(graph_of(saver, []).get_state_history(thread("talk")))
        assert len(history) >= 9
        sizes = [len(snapshot.values.get("messages", [])) for snapshot in history]
        assert sizes == sorted(sizes, reverse=True)
