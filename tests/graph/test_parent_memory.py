"""Around a turn in a parent: what it keeps with `checkpointer=True`, and edits, cancels and input between its runs."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send
from typing_extensions import TypedDict

from tests.support.openai_server import Request, Step, call, say
from tests.support.turns import chat, check_calls, thread
from turngraph.graph import TurnSettings, build_turn_graph, send_input
from turngraph.tools import tool_policy

SUMMARY = "The user planned a voyage; the ship Meridian was chosen."
TRANSFER = [
    AIMessage("", tool_calls=[{"id": "t", "name": "to_b", "args": {}}]),
    ToolMessage("There.", tool_call_id="t"),
]
PARAGRAPH = "the ship left port at dawn with coal grain and timber for the islands under a pale sky "


class State(MessagesState):
    extra: str


class Context(TypedDict):
    turn_settings: TurnSettings


def parent(turn: Any, saver: Any = None) -> Any:
    builder = StateGraph(State)
    builder.add_node("turn", turn)
    builder.add_edge(START, "turn")
    builder.add_edge("turn", END)
    return builder.compile(checkpointer=saver or InMemorySaver())


def inner(graph: Any) -> Any:
    return graph.get_state({"configurable": {**thread()["configurable"], "checkpoint_ns": "turn"}}).values


def go(graph: Any, text: str, **options: Any) -> Any:
    output = graph.invoke({"messages": [("user", text)]}, thread(), **options)
    if "__interrupt__" not in output:
        check_calls(output["messages"])
    return output


def ids(messages: list[Any]) -> list[str]:
    return [m.id for m in messages]


def texts(messages: list[Any]) -> list[str]:
    return [m.text for m in messages]


def test_a_summary_stays_for_the_parents_next_runs(openai_server: Any) -> None:
    def answer(request: Request) -> Step:
        if "memory of a conversation" in str(request.messages[0]["content"]):
            return say(SUMMARY)
        return say(f"Answer {request.number}. " + PARAGRAPH * 12)

    server = openai_server(answer, strict=True, max_context=4_096)
    settings = TurnSettings(context_window=4_096, max_output_tokens=500)
    builder = StateGraph(State, context_schema=Context)
    builder.add_node("turn", build_turn_graph(chat(server), checkpointer=True))
    builder.add_edge(START, "turn")
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    first = -1
    for number in range(14):
        go(graph, f"Question {number}: {PARAGRAPH * 6}", context={"turn_settings": settings})
        if first < 0 and any("memory of a conv" in str(r.messages[0]["content"]) for r in server.requests):
            first = number
    assert 0 < first < 12
    assert [a["kind"] for a in inner(graph)["anchors"]].count("summary") >= 1
    summaries = [r.number for r in server.requests if "memory of a conversation" in str(r.messages[0]["content"])]
    later = [r for r in server.requests if r.number > summaries[0] and r.number not in summaries]
    assert later
    assert all(SUMMARY in str(r.messages) for r in later)
    assert len(summaries) < 14 - first, "the summary is kept, not made anew each time"


def test_a_whole_result_can_be_read_in_a_later_run(openai_server: Any) -> None:
    server = openai_server(
        [
            call(("fetch", {}), ids=["c1"]),
            say("Long."),
            call(("read_tool_result", {"call_id": "c1", "offset": 2_000}), ids=["c2"]),
            say("There."),
        ],
        strict=True,
    )

    def fetch() -> str:
        """Fetch."""
        return "\n".join(f"line {n}" for n in range(1_000))

    turn = build_turn_graph(chat(server), [tool_policy(fetch, max_output_tokens=100)], checkpointer=True)
    graph = parent(turn)
    go(graph, "one")
    output = go(graph, "two")
    offered = [t["function"]["name"] for t in server.requests[2].body["tools"]]
    assert "read_tool_result" in offered
    result = next(m for m in output["messages"] if isinstance(m, ToolMessage) and m.tool_call_id == "c2")
    assert result.status != "error", result.text
    assert "line 2" in result.text


def test_an_edit_of_the_parents_tape_reaches_the_turn(openai_server: Any) -> None:
    server = openai_server(lambda request: say(f"Answer {request.number}."), strict=True)
    graph = parent(build_turn_graph(chat(server), checkpointer=True))
    go(graph, "the secret is 4711")
    first = graph.get_state(thread()).values["messages"][0]
    graph.update_state(thread(), {"messages": [HumanMessage("the secret is gone", id=first.id)]})
    output = go(graph, "next")
    assert "4711" not in str(server.requests[-1].messages)
    assert texts(output["messages"]) == ["the secret is gone", "Answer 1.", "next", "Answer 2."]
    assert texts(inner(graph)["messages"]) == texts(output["messages"])


@pytest.mark.parametrize("remembers", [True, None])
async def test_cancel_and_next_message(openai_server: Any, remembers: Any) -> None:
    began, ran = asyncio.Event(), []

    async def slow(name: str) -> str:
        """Slow."""
        ran.append(f"begin {name}")
        began.set()
        await asyncio.sleep(60)
        return "slow"

    def write(name: str) -> str:
        """Write."""
        ran.append(f"write {name}")
        return f"wrote {name}"

    server = openai_server(
        [call(("write", {"name": "a"}), ("slow", {"name": "s"})), say("Next."), say("More.")], strict=True
    )
    turn = build_turn_graph(
        chat(server), [tool_policy(slow, effect="write"), tool_policy(write, effect="write")], checkpointer=remembers
    )
    graph = parent(turn)
    task = asyncio.create_task(graph.ainvoke({"messages": [("user", "go")]}, thread()))
    await asyncio.wait_for(began.wait(), 30)
    task.cancel()
    await asyncio.wait({task}, timeout=30)
    for text in ("next", "more"):
        output = await graph.ainvoke({"messages": [("user", text)]}, thread())
        check_calls(output["messages"])
        assert len(set(ids(output["messages"]))) == len(output["messages"])
        assert "wrote a" in str(server.requests[-1].messages)
    assert ran == ["write a", "begin s"]
    if remembers:
        kept = (await graph.aget_state({"configurable": {"thread_id": "t1", "checkpoint_ns": "turn"}})).values
        assert sorted(ids(kept["messages"])) == sorted(ids(output["messages"]))
        assert [r["status"] for r in kept["receipts"]] == ["cancelled", "completed", "completed"]


@pytest.mark.parametrize("remembers", [True, None])
def test_queued_input_is_taken_once(openai_server: Any, remembers: Any) -> None:
    parents: list[Any] = []

    def look() -> str:
        """Look."""
        if parents:
            send_input(parents.pop(), "t1", "and the yard")
        return "seen"

    server = openai_server([call(("look", {})), say("One."), say("Two."), say("Three.")], strict=True)
    graph = parent(build_turn_graph(chat(server), [look], checkpointer=remembers))
    parents.append(graph)
    go(graph, "one")
    output = go(graph, "two")
    output = go(graph, "three")
    assert texts(output["messages"]).count("and the yard") == 1
    assert len(set(ids(output["messages"]))) == len(output["messages"])
    if remembers:
        assert ids(inner(graph)["messages"]) == ids(output["messages"])


def worker(server: Any, ran: list[str], **options: Any) -> Any:
    """A turn that writes at once, and asks before it sends."""

    def write(name: str) -> str:
        """Write."""
        ran.append(f"write {name}")
        return f"wrote {name}"

    def send(to: str) -> str:
        """Send."""
        ran.append(f"send {to}")
        return f"sent {to}"

    tools = [tool_policy(write, effect="write"), tool_policy(send, permission="ask", effect="write")]
    return build_turn_graph(chat(server), tools, **options)


def doing(request: Request) -> Step:
    if any(m["role"] == "tool" for m in request.messages):
        return say("Done.")
    return call(("write", {"name": "a"}), ("send", {"to": "x"}), ids=[str(uuid4()), str(uuid4())])


def test_sends_of_one_question_after_an_edit(openai_server: Any) -> None:
    ran: list[str] = []
    builder = StateGraph(State)
    builder.add_node("turn", worker(openai_server(doing, strict=True), ran))
    sends = [Send("turn", {"messages": [HumanMessage("go", id="q")]})] * 2
    builder.add_conditional_edges(START, lambda state: sends, ["turn"])
    builder.add_edge("turn", END)
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    graph.invoke({"messages": [HumanMessage("go", id="q")], "extra": "1"}, thread())
    graph.update_state(thread(), {"extra": "2"})
    output = graph.invoke(None, thread())
    assert ran == ["write a"] * 2
    check_calls(output["messages"])


@pytest.mark.parametrize("as_node", [None, "__start__"])
def test_siblings_after_an_edit(openai_server: Any, as_node: Any) -> None:
    ran: list[str] = []
    builder = StateGraph(State)
    builder.add_node("one", worker(openai_server(doing, strict=True), ran, name="one"))
    builder.add_node("two", worker(openai_server(doing, strict=True), ran, name="two"))
    for name in ("one", "two"):
        builder.add_edge(START, name)
        builder.add_edge(name, END)
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    output = graph.invoke({"messages": [HumanMessage("go", id="q")], "extra": "1"}, thread())
    assert ran == ["write a"] * 2
    graph.update_state(thread(), {"extra": "2"}, as_node=as_node)
    output = graph.invoke(None, thread())
    assert ran == ["write a"] * 2
    check_calls(output["messages"])


def test_edit_of_a_parent_whose_turn_stands_deeper(openai_server: Any) -> None:
    ran: list[str] = []
    middle = StateGraph(State)
    middle.add_node("turn", worker(openai_server(doing, strict=True), ran))
    middle.add_edge(START, "turn")
    outer = StateGraph(State)
    outer.add_node("middle", middle.compile())
    outer.add_edge(START, "middle")
    graph: Any = outer.compile(checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", "go")], "extra": "1"}, thread())
    graph.update_state(thread(), {"extra": "2"})
    output = graph.invoke(None, thread())
    assert ran == ["write a"]
    check_calls(output["messages"])


@pytest.mark.parametrize("added", [[AIMessage("By an editor.")], TRANSFER])
def test_what_an_edit_adds_behind_the_question_repeats_no_effect(openai_server: Any, added: Any) -> None:
    ran: list[str] = []
    server = openai_server(doing, strict=True)
    graph = parent(worker(server, ran))
    go(graph, "go")
    graph.update_state(thread(), {"messages": added})
    output = graph.invoke(None, thread())
    assert ran == ["write a"]
    check_calls(output["messages"])
    output = go(graph, "more")
    assert len(set(ids(output["messages"]))) == len(output["messages"])


def test_a_message_removed_from_both_tapes_is_gone(openai_server: Any) -> None:
    server = openai_server(lambda request: say(f"Answer {request.number}."), strict=True)
    turn = build_turn_graph(chat(server), checkpointer=True)
    graph = parent(turn)
    go(graph, "the secret is 4711")
    go(graph, "two")
    gone = [RemoveMessage(id=m.id) for m in graph.get_state(thread()).values["messages"][:2]]
    graph.update_state(thread(), {"messages": gone})
    there = {"configurable": {"thread_id": "t1", "checkpoint_ns": "turn"}}
    graph.update_state(there, {"messages": gone})
    output = go(graph, "next")
    assert "4711" not in str(server.requests[-1].messages)
    assert texts(output["messages"]) == ["two", "Answer 2.", "next", "Answer 3."]
