"""Turns inside a parent that was cancelled, walked away from, or killed: the next turn has back what they had."""

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage, message_to_dict
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.store.memory import InMemoryStore

from tests.support.openai_server import call, hanging, say
from tests.support.turns import chat, check_calls, thread
from turngraph.context import view
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.nodes.dropped import fate_of
from turngraph.nodes.place import Place, place_of
from turngraph.tools import tool_policy

HALF = "Half an answer"


def parent(turn: Any, **kept: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("agent", turn)
    builder.add_edge(START, "agent")
    builder.add_edge("agent", END)
    return builder.compile(**kept)


def called(turn: Any) -> Any:
    """A node that calls the turn, and keeps all its messages."""

    async def agent(state: MessagesState) -> Any:
        return {"messages": (await turn.ainvoke({"messages": state["messages"]}))["messages"]}

    return agent


async def slow(place: str) -> str:
    """Be slow."""
    await asyncio.sleep(60)
    return place


async def cancelled(graph: Any, text: str, until: str, **options: Any) -> None:
    """A run of the graph that is cancelled a moment after its agent has shown half an answer, or such an event."""
    seen = asyncio.Event()

    async def work() -> None:
        told, said = "", {"messages": [("user", text)]}
        async for where, event in graph.astream(said, thread(), stream_mode="custom", subgraphs=True, **options):
            told += event.get("text", "")
            if where[0].startswith("agent:") and event["type"] == until and (until != "content" or HALF in told):
                seen.set()

    task = asyncio.create_task(work())
    await asyncio.wait_for(seen.wait(), 30)
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.wait({task})


def sent(server: Any) -> list[tuple[str, str]]:
    """What the model was sent last, without the system message."""
    return [(m["role"], m["content"]) for m in server.requests[-1].messages if m["role"] != "system"]


def said(messages: list[BaseMessage]) -> list[str]:
    return [m.text for m in messages]


@pytest.fixture(params=["memory", "sqlite", "store"])
async def kept(request: Any, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "turns.sqlite")) as saver:
            yield {"checkpointer": saver}
    else:
        yield {"checkpointer": InMemorySaver()} | ({"store": InMemoryStore()} if request.param == "store" else {})


@pytest.mark.parametrize("way", ["node", "called"])
@pytest.mark.parametrize("durability", ["async", "exit"])
async def test_the_text_of_a_cancelled_parents_turn_comes_back(
    openai_server: Any, kept: dict[str, Any], way: str, durability: Any
) -> None:
    server = openai_server([hanging(say(HALF, chunks=4)), say("Next."), say("Third.")], strict=True)
    turn = build_turn_graph(chat(server))
    graph = parent(turn if way == "node" else called(turn), **kept)
    await cancelled(graph, "go", "content", durability=durability)
    for text, answer in (("go on", "Next."), ("and on", "Third.")):
        output = await graph.ainvoke({"messages": [("user", text)]}, thread(), durability=durability)
        assert output["messages"][-1].text == answer
    assert sorted(said(output["messages"])) == sorted(["go", HALF, "go on", "Next.", "and on", "Third."])
    (cut,) = [m for m in output["messages"] if m.additional_kwargs.get("turngraph", {}).get("cut")]
    assert cut.text == HALF
    assert cut.additional_kwargs["turngraph"]["cut"] == "cancelled"
    assert sent(server) == [
        ("user", "go"),
        ("assistant", HALF),
        ("user", "go on"),
        ("assistant", "Next."),
        ("user", "and on"),
    ]
    server.done()


async def test_cut_again_and_again_every_text_comes_back_in_order(openai_server: Any, kept: dict[str, Any]) -> None:
    cuts = [hanging(say(f"{HALF} {n}", chunks=4)) for n in range(3)]
    server = openai_server([*cuts, say("At last."), say("More.")], strict=True)
    graph = parent(build_turn_graph(chat(server)), **kept)
    for n in range(3):
        await cancelled(graph, f"go {n}", "content")
    await graph.ainvoke({"messages": [("user", "go on")]}, thread())
    pairs = [pair for n in range(3) for pair in (("user", f"go {n}"), ("assistant", f"{HALF} {n}"))]
    assert sent(server) == [*pairs, ("user", "go on")]
    output = await graph.ainvoke({"messages": [("user", "more")]}, thread())
    assert sent(server) == [*pairs, ("user", "go on"), ("assistant", "At last."), ("user", "more")]
    assert len(output["messages"]) == 10


async def test_a_cancelled_tool_of_a_cancelled_parent_has_its_result(openai_server: Any, kept: dict[str, Any]) -> None:
    batch = call(("quick", {"place": "a"}), ("slow", {"place": "b"}), text="Look.")
    server = openai_server([batch, say("Next.")], strict=True)
    ran: list[str] = []

    def quick(place: str) -> str:
        """Be quick."""
        ran.append(place)
        return f"seen {place}"

    graph = parent(build_turn_graph(chat(server), [tool_policy(quick, effect="write"), slow]), **kept)
    await cancelled(graph, "go", "tool_finished")
    output = await graph.ainvoke({"messages": [("user", "go on")]}, thread())
    check_calls(output["messages"])
    results = [m for m in output["messages"] if isinstance(m, ToolMessage)]
    assert (results[0].text, results[0].status) == ("seen a", "success")
    assert results[1].status == "error"
    assert [role for role, _ in sent(server)] == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert ran == ["a"]


def asking(ran: list[str]) -> ScriptedModel:
    """Does something, then asks for more that needs a person, then repeats what the request held."""

    def reply(messages: list[BaseMessage]) -> Any:
        at = max(n for n, m in enumerate(messages) if isinstance(m, HumanMessage))
        done = [m for m in messages[at:] if isinstance(m, ToolMessage)]
        if messages[at].text != "go":
            return "Known: " + " / ".join(m.text for m in messages if isinstance(m, ToolMessage))
        if not done:
            return ScriptedReply("First.", calls=[("send", {"to": "ann"})])
        return ScriptedReply("Second.", calls=[("send", {"to": "ben"}), ("pay", {"to": "cleo"})])

    return ScriptedModel(reply)


def effects(ran: list[str]) -> list[Any]:
    def send(to: str) -> str:
        """Send."""
        ran.append(to)
        return f"sent to {to}"

    def pay(to: str) -> str:
        """Pay."""
        ran.append(to)
        return f"paid {to}"

    return [tool_policy(send, effect="write"), tool_policy(pay, effect="write", permission="ask")]


@pytest.mark.parametrize("saver", ["memory", "sqlite"])
@pytest.mark.parametrize("durability", ["async", "exit"])
def test_what_a_turn_did_before_a_pause_that_the_user_left_is_known(
    tmp_path: Path, saver: str, durability: Any
) -> None:
    """A new message instead of an answer: the parent forgets the turn inside, and with it that effects happened."""
    ran: list[str] = []
    with SqliteSaver.from_conn_string(str(tmp_path / "t.sqlite")) as sqlite:
        turn = build_turn_graph(asking(ran), effects(ran))
        graph = parent(turn, checkpointer=InMemorySaver() if saver == "memory" else sqlite)
        assert graph.invoke({"messages": [("user", "go")]}, thread(), durability=durability)["__interrupt__"]
        output = graph.invoke({"messages": [("user", "what did you do?")]}, thread(), durability=durability)
        check_calls(output["messages"])
        assert ran == ["ann", "ben"]
        answer = output["messages"][-1].text
        assert answer.startswith("Known: sent to ann / sent to ben / Not answered")
        again = graph.invoke({"messages": [("user", "really?")]}, thread())
        assert again["messages"][-1].text == answer
        assert len(again["messages"]) == len(output["messages"]) + 2, "what came back came once"


async def test_what_does_not_belong_to_this_tape_stays_away(openai_server: Any) -> None:
    """A rolled-back run: its question is not on the tape, so nothing of its turn comes back."""
    server = openai_server([say("One."), hanging(say(HALF, chunks=4)), say("Next."), say("Last.")], strict=True)
    saver = InMemorySaver()
    graph = parent(build_turn_graph(chat(server)), checkpointer=saver)
    await graph.ainvoke({"messages": [("user", "first")]}, thread())
    before = (await graph.aget_state(thread())).config
    await cancelled(graph, "go", "content")
    output = await graph.ainvoke({"messages": [("user", "go on")]}, before)
    assert said(output["messages"]) == ["first", "One.", "go on", "Next."]
    output = await graph.ainvoke({"messages": [("user", "more")]}, thread())
    assert said(output["messages"]) == ["first", "One.", "go on", "Next.", "more", "Last."]


async def test_a_parent_that_answers_for_its_turn_is_not_contradicted(openai_server: Any) -> None:
    server = openai_server([hanging(say(HALF, chunks=4)), say("Next.")], strict=True)
    turn = build_turn_graph(chat(server))

    async def agent(state: MessagesState) -> Any:
        try:
            async with asyncio.timeout(0.5):
                return {"messages": (await turn.ainvoke({"messages": state["messages"]}))["messages"]}
        except TimeoutError:
            return {"messages": [AIMessage("I had no time.")]}

    graph = parent(agent, checkpointer=InMemorySaver())
    await graph.ainvoke({"messages": [("user", "go")]}, thread())
    output = await graph.ainvoke({"messages": [("user", "go on")]}, thread())
    assert said(output["messages"]) == ["go", "I had no time.", "go on", "Next."]


CHILD = '''
import os, signal, sys, time

signal.signal(signal.SIGINT, signal.default_int_handler)  # a child of a background job would ignore it

from langgraph.checkpoint.sqlite import SqliteSaver
from langchain_openai import ChatOpenAI
from tests.graph.test_dropped import parent
from tests.support.turns import thread
from turngraph.graph import build_turn_graph

database, url, marker = sys.argv[1:]
model = ChatOpenAI(model="scripted", base_url=url, api_key="test", max_retries=0)
with SqliteSaver.from_conn_string(database) as saver:
    graph = parent(build_turn_graph(model), checkpointer=saver)
    try:
        for _, event in graph.stream(
            {"messages": [("user", "go")]}, thread(), stream_mode="custom", subgraphs=True
        ):
            with open(marker, "a") as file:
                file.write(event["type"] + "\\n")
    except KeyboardInterrupt:
        os._exit(7)  # as if it were killed right after the cancel: nothing is closed or flushed
'''


def test_ctrl_c_on_a_sync_parent_and_a_kill_right_after(tmp_path: Path, openai_server: Any) -> None:
    server = openai_server([hanging(say(HALF, chunks=4)), say("Next.")], strict=True)
    database, marker = str(tmp_path / "turns.sqlite"), tmp_path / "marker.txt"
    command = [sys.executable, "-c", CHILD, database, server.url, str(marker)]
    child = subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (marker.exists() and "content" in marker.read_text()):
        assert child.poll() is None, child.stderr and child.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=30)
    assert child.returncode == 7, told
    with SqliteSaver.from_conn_string(database) as saver:
        graph = parent(build_turn_graph(chat(server)), checkpointer=saver)
        output = graph.invoke({"messages": [("user", "go on")]}, thread())
    assert sorted(said(output["messages"])) == sorted(["go", HALF, "go on", "Next."])
    assert sent(server) == [("user", "go"), ("assistant", HALF), ("user", "go on")]


HERE = Place("t", "", "agent:2", {"": "c2"})


def record(after: str, messages: list[BaseMessage], step: str = "c1") -> dict[str, Any]:
    stored = {"messages": [message_to_dict(m) for m in messages]} if messages else {}
    return {"namespace": "agent:1", "steps": {"": step}, "after": after, **stored}


@given(st.lists(st.sampled_from(["user", "ai"]), max_size=6), st.data())
def test_fate_law(kinds: list[str], data: Any) -> None:
    """Live while its step is; held where the tape has all it wrote; dropped only where a user's message follows."""
    tape = [HumanMessage("x", id=f"m{n}") if kind == "user" else AIMessage("x", id=f"m{n}") for n, kind in enumerate(kinds)]
    after = data.draw(st.sampled_from(["", "elsewhere", *(m.id for m in tape)]))
    own = AIMessage("cut", id="own")
    messages = data.draw(st.sampled_from([[], [own]]))
    assert fate_of(record(after, messages, "c2"), HERE, tape) == "live"
    fate = fate_of(record(after, messages), HERE, tape)
    start = 0 if after == "" else next((n + 1 for n, m in enumerate(tape) if m.id == after), len(tape))
    follows = start < len(tape) and isinstance(tape[start], HumanMessage)
    assert fate == ("dropped" if follows else "gone")
    if messages:
        held = [*tape, own]
        assert fate_of(record(after, messages), HERE, held) == "held"


@given(st.integers(1, 5), st.data())
def test_late_messages_are_shown_in_their_own_turn(turns: int, data: Any) -> None:
    """Wherever the messages of cut turns stand on a tape without anchors, the request has question, answer, question."""
    asked: list[BaseMessage] = [HumanMessage(f"q{n}", id=f"q{n}") for n in range(turns)]
    late = [
        AIMessage(
            f"a{n}",
            id=f"a{n}",
            additional_kwargs={"turngraph": {"turn_id": f"t{n}", "round": 1, "role": "finish", "question": f"q{n}"}},
        )
        for n in range(turns)
    ]
    tape = [*asked, *data.draw(st.permutations(late)), HumanMessage("last", id="last")]
    shown = view(tape, [], TurnSettings(system_prompt="S")).messages[1:]
    assert said(shown) == [text for n in range(turns) for text in (f"q{n}", f"a{n}")] + ["last"]


def test_a_place_is_named_by_the_graph_around_it() -> None:
    nested = {
        "thread_id": "t",
        "checkpoint_ns": "mid:1|agent:2|prepare_turn:3",
        "checkpoint_map": {"": "a", "mid:1": "b", "mid:1|agent:2": "c"},
    }
    place = place_of(nested)
    assert place == Place("t", "mid", "mid:1|agent:2", {"": "a", "mid:1": "b"})
    second = place_of({**nested, "checkpoint_ns": "mid:1|agent:2|1|prepare_turn:3"})
    assert second is not None
    assert second.shelf == place.shelf
    assert second.key != place.key
    assert place_of({"thread_id": "t", "checkpoint_ns": "prepare_turn:3"}) is None
    assert place.after({"": "a", "mid:1": "x"})
    assert not place.after({"": "a", "mid:1": "b", "other:5": "z"})


async def test_an_answer_that_was_complete_when_its_sibling_was_cancelled_comes_back(kept: dict[str, Any]) -> None:
    quick, waits = build_turn_graph(ScriptedModel(["Quick answer.", "Later."])), asyncio.Event()

    async def long(state: MessagesState) -> Any:
        if state["messages"][-1].text == "go":
            waits.set()
            await asyncio.sleep(60)
        return {}

    builder = StateGraph(MessagesState)
    builder.add_node("quick", quick)
    builder.add_node("long", long)
    builder.add_edge(START, "quick")
    builder.add_edge(START, "long")
    graph = builder.compile(**kept)
    task = asyncio.create_task(graph.ainvoke({"messages": [("user", "go")]}, thread()))
    await asyncio.wait_for(waits.wait(), 30)
    while "Quick answer." not in said((await graph.aget_state(thread())).values["messages"]):
        await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.wait({task})
    output = await graph.ainvoke({"messages": [("user", "go on")]}, thread())
    assert said(output["messages"]) == ["go", "go on", "Quick answer.", "Later."]


@pytest.mark.parametrize("durability", ["async", "exit"])
async def test_a_turn_whose_messages_its_parent_does_not_keep_stays_out_of_the_others(
    openai_server: Any, kept: dict[str, Any], durability: Any
) -> None:
    """A router is a turn, too: that its step was complete is not seen on the tape, and it may not come back."""
    server = openai_server([hanging(say(HALF, chunks=4)), say("Next.")], strict=True)
    router = build_turn_graph(ScriptedModel(["agent"] * 2))

    async def route(state: MessagesState) -> Any:
        assert (await router.ainvoke({"messages": state["messages"]}))["answer"] == "agent"
        return {}

    builder = StateGraph(MessagesState)
    builder.add_node("route", route)
    builder.add_node("agent", build_turn_graph(chat(server)))
    builder.add_edge(START, "route")
    builder.add_edge("route", "agent")
    graph = builder.compile(**kept)
    await cancelled(graph, "go", "content", durability=durability)
    output = await graph.ainvoke({"messages": [("user", "go on")]}, thread(), durability=durability)
    assert sorted(said(output["messages"])) == sorted(["go", "go on", HALF, "Next."])
    assert sent(server) == [("user", "go"), ("assistant", HALF), ("user", "go on")]
