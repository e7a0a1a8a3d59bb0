"""A turn that a real server runs, inside graphs of this process: as a node, called in a node, as a tool of agents."""

import asyncio
import contextlib
import json
import operator
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import httpx
import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteException, RemoteGraph
from langgraph.types import Command, Send
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import LangGraphClient
from typing_extensions import TypedDict

from tests.server.conftest import Served
from tests.support.remote_parents import APPROVED, parent_of, turn_at
from tests.support.turns import check_calls, finish_text
from turngraph.graph import InputError, TurnSettings, as_tool, build_turn_graph
from turngraph.graph.remote import remote_turn
from turngraph.llm import ScriptedModel, ScriptedReply

pytestmark = pytest.mark.server

APPROVE = Command(resume=APPROVED)
HANG = "hang Half of an answer that never ends"
ROOT = Path(__file__).parents[2]


class Talk:
    """One thread of a parent, driven sync or async; keeps the events that came, with their namespaces."""

    def __init__(self, graph: Any, form: str = "sync", **options: Any) -> None:
        self.graph, self.form, self.options = graph, form, options
        self.loop = asyncio.Runner()  # one for all: connections of an HTTP client belong to their loop
        self.thread = f"talk-{uuid4().hex[:8]}"
        self.events: list[tuple[tuple[str, ...], dict[str, Any]]] = []
        self.spoken: list[tuple[Any, dict[str, Any]]] = []

    @property
    def config(self) -> Any:
        return {"configurable": {"thread_id": self.thread}}

    def say(self, text: str) -> list[BaseMessage]:
        return self.go({"messages": [("user", text)]})

    def go(self, input: Any) -> list[BaseMessage]:
        """Runs to the end or a pause; gives the parent's tape."""
        options: Any = {"stream_mode": ["custom", "messages"], "subgraphs": True, **self.options}
        if self.form == "sync":
            for part in self.graph.stream(input, self.config, **options):
                self._take(part)
            return self.tape

        async def run() -> None:
            async for part in self.graph.astream(input, self.config, **options):
                self._take(part)

        self.loop.run(run())
        return self.tape

    def _take(self, part: Any) -> None:
        namespace, mode, data = part
        (self.events if mode == "custom" else self.spoken).append((namespace, data))

    @property
    def tape(self) -> list[BaseMessage]:
        return list(self.graph.get_state(self.config).values["messages"])

    @property
    def pauses(self) -> list[Any]:
        return list(self.graph.get_state(self.config).interrupts)

    @property
    def remote_threads(self) -> list[str]:
        """The remote threads that ran turns of this talk, in order of the first turn."""
        return list(dict.fromkeys(event["thread_id"] for _, event in self.events if event["type"] == "turn_started"))

    @property
    def remote_thread(self) -> str:
        (thread,) = self.remote_threads
        return thread


@pytest.fixture
def name() -> str:
    """What this test's effects are named."""
    return f"r{uuid4().hex[:8]}"


def sdk(served: Served) -> Any:
    return get_sync_client(url=served.server.url)


def remote_tape(served: Served, thread_id: str) -> list[dict[str, Any]]:
    return list(sdk(served).threads.get_state(thread_id)["values"]["messages"])


def kinds(messages: list[Any]) -> list[str]:
    return [m["type"] if isinstance(m, dict) else m.type for m in messages]


def sent(name: str) -> str:
    return f'call send {{"to": "{name}"}}'


def effects_of(served: Served, name: str) -> list[str]:
    return [line for line in served.effects if name in line]


def until(seen: Any, seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := seen()):
        assert time.monotonic() < deadline, f"{seen} saw nothing in {seconds} seconds"
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("form", ["sync", "async"])
def test_as_a_node_it_is_like_a_local_turn(served: Served, form: str) -> None:
    talk = Talk(parent_of(turn_at(served.server.url), InMemorySaver()), form)
    assert kinds(talk.say('call look {"place": "yard"}')) == ["human", "ai", "tool", "ai"]
    assert talk.tape[-1].text == finish_text([event for _, event in talk.events]) == "Done: seen yard"
    assert {namespace[0].split(":")[0] for namespace, _ in talk.events} == {"helper"}
    assert {len(namespace) for namespace, _ in talk.events} == {1}
    assert kinds(talk.say("say Second.")) == ["human", "ai", "tool", "ai", "human", "ai"]
    assert set(talk.graph.get_state(talk.config).values) == {"messages"}
    check_calls(talk.tape)
    there = remote_tape(served, talk.remote_thread)
    assert [m["id"] for m in there] == [m.id for m in talk.tape], "one conversation, on both sides"
    assert len([event for _, event in talk.events if event["type"] == "turn_finished"]) == 2


def test_in_messages_mode_each_message_comes_once(served: Served) -> None:
    talk = Talk(parent_of(turn_at(served.server.url), InMemorySaver()))
    talk.say('call look {"place": "yard"}')
    pieces: dict[str, list[Any]] = {}
    for namespace, (message, metadata) in talk.spoken:
        assert namespace[0].startswith("helper:")
        assert metadata["langgraph_node"]
        pieces.setdefault(message.id, []).append(message)
    for message in talk.tape[1:]:
        assert "".join(piece.text for piece in pieces[message.id]) == message.text
    streamed = pieces[talk.tape[-1].id]
    assert len(streamed) > 2
    assert all(isinstance(piece, AIMessageChunk) for piece in streamed)


def test_its_pause_is_the_parents(served: Served, name: str) -> None:
    talk = Talk(parent_of(turn_at(served.server.url), InMemorySaver()), "async")
    talk.say(sent(name))
    (pause,) = talk.pauses
    (there,) = sdk(served).threads.get_state(talk.remote_thread)["interrupts"]
    assert pause.value == there["value"]
    assert pause.value["action_requests"][0]["args"] == {"to": name}
    assert effects_of(served, name) == []
    talk.go(Command(resume={"decisions": [{"type": "no such thing"}]}))
    (again,) = talk.pauses
    assert "no such thing" in again.value["turngraph"]["error"]
    tape = talk.go(APPROVE)
    assert kinds(tape) == ["human", "ai", "tool", "ai"]
    assert tape[-1].text == f"Done: sent to {name}"
    assert talk.pauses == []
    assert effects_of(served, name) == [f"sent {name}"]
    assert len(remote_tape(served, talk.remote_thread)) == 4


def test_its_pause_outlasts_the_parents_process(served: Served, tmp_path: Path, name: str) -> None:
    talk = Talk(None)
    for input in ({"messages": [("user", sent(name))]}, None, APPROVE):
        with SqliteSaver.from_conn_string(str(tmp_path / "parent.sqlite")) as saver:
            talk.graph = parent_of(turn_at(served.server.url), saver)
            tape = talk.go(input)
            assert len(talk.pauses) == (0 if input is APPROVE else 1)
    assert [m.text for m in tape][-2:] == [f"sent to {name}", f"Done: sent to {name}"]
    assert effects_of(served, name) == [f"sent {name}"]


def test_a_message_instead_of_an_answer_closes_the_calls(served: Served, name: str) -> None:
    talk = Talk(parent_of(turn_at(served.server.url), InMemorySaver()))
    talk.say(sent(name))
    tape = talk.say("say Never mind.")
    assert talk.pauses == []
    assert tape[-1].text == "Never mind."
    assert effects_of(served, name) == []
    calls = {call["id"] for m in tape if isinstance(m, AIMessage) for call in m.tool_calls}
    assert calls == {m.tool_call_id for m in tape if isinstance(m, ToolMessage)}


@pytest.mark.slow
def test_an_answer_given_on_the_server_is_not_given_twice(served: Served, name: str) -> None:
    talk = Talk(parent_of(turn_at(served.server.url), InMemorySaver()))
    talk.say(sent(name))
    sdk(served).runs.wait(talk.remote_thread, "turn", command={"resume": APPROVED})
    tape = talk.go(Command(resume={"decisions": [{"type": "reject", "message": "too late"}]}))
    assert tape[-1].text == f"Done: sent to {name}"
    assert effects_of(served, name) == [f"sent {name}"]


@pytest.mark.slow
@pytest.mark.xfail(strict=True, reason="LangGraph's RemoteGraph is sent the state again instead of the answer")
def test_a_bare_remote_graph_hears_the_answer_to_its_pause(served: Served, name: str) -> None:
    talk = Talk(parent_of(RemoteGraph("turn", url=served.server.url), InMemorySaver()))
    talk.thread = str(uuid4())  # it runs on the parent's own thread id, and the server takes nothing but UUIDs
    talk.say(sent(name))
    assert talk.pauses
    talk.go(APPROVE)
    assert talk.pauses == []


async def cancelled(talk: Talk, text: str, seen: Any) -> None:
    """Runs the parent and cancels it once `seen(talk)`."""

    async def run() -> None:
        options: Any = {"stream_mode": ["custom"], "subgraphs": True}
        async for part in talk.graph.astream({"messages": [("user", text)]}, talk.config, **options):
            talk._take(part)

    task = asyncio.create_task(run())
    await asyncio.to_thread(until, lambda: seen(talk) or task.done())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def said(talk: Talk) -> str:
    return "".join(event["text"] for _, event in talk.events if event["type"] == "content")


async def test_cancel_stops_the_remote_run_and_its_text_is_kept(served: Served) -> None:
    talk = Talk(parent_of(turn_at(served.server.url), InMemorySaver()))
    await cancelled(talk, HANG, lambda talk: len(said(talk)) >= 10)
    values = await served.values(talk.remote_thread)
    assert await served.status(talk.remote_thread) != "busy"
    assert values["receipt"]["status"] == "cancelled"
    assert values["messages"][-1]["content"].startswith(said(talk))
    tape = (await talk.graph.ainvoke({"messages": [("user", "say All is well.")]}, talk.config))["messages"]
    assert [m.text for m in tape[2:]] == [values["messages"][-1]["content"], "All is well."]
    assert tape[2].additional_kwargs["turngraph"]["cut"]


async def test_cancel_during_a_remote_tool_starts_nothing_more(served: Served, name: str) -> None:
    talk = Talk(parent_of(turn_at(served.server.url), InMemorySaver()))
    batch = f'call work {{"name": "{name}", "seconds": 60}}\ncall work {{"name": "{name}-2", "seconds": 0}}'
    await cancelled(talk, batch, lambda talk: effects_of(served, name))
    assert await served.status(talk.remote_thread) != "busy"
    tape = (await talk.graph.ainvoke({"messages": [("user", "say All is well.")]}, talk.config))["messages"]
    assert tape[-1].text == "All is well."
    assert effects_of(served, name) == [f"begin {name}"]
    calls = [call["id"] for m in tape if isinstance(m, AIMessage) for call in m.tool_calls]
    assert calls == [m.tool_call_id for m in tape if isinstance(m, ToolMessage)]


@contextlib.contextmanager
def child(served: Served, database: Path, talk: Talk, text: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "tests.support.remote_parents"]
    process = subprocess.Popen(
        [*command, served.server.url, str(database), talk.thread, text], cwd=ROOT, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_parent_that_was_killed_finds_the_run_that_it_started(served: Served, tmp_path: Path, name: str) -> None:
    talk, database = Talk(None), tmp_path / "parent.sqlite"
    with child(served, database, talk, f'call work {{"name": "{name}", "seconds": 3}}') as process:
        until(lambda: effects_of(served, name))
        process.send_signal(signal.SIGKILL)
        process.wait()
    with SqliteSaver.from_conn_string(str(database)) as saver:
        talk.graph = parent_of(turn_at(served.server.url), saver)
        tape = talk.go(None)
    assert [m.text for m in tape][2:] == [f"worked {name}", f"Done: worked {name}"]
    assert effects_of(served, name) == [f"begin {name}", f"end {name}"]
    assert "Done:" in said(talk), "the rest of its events was heard"


def test_ctrl_c_in_the_parent_stops_the_remote_run(served: Served, name: str) -> None:
    talk = Talk(parent_of(turn_at(served.server.url), InMemorySaver()))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def press() -> None:
        until(lambda: effects_of(served, name))
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            talk.graph.invoke({"messages": [("user", f'call work {{"name": "{name}", "seconds": 60}}')]}, talk.config)
    finally:
        pressing.join()
        signal.signal(signal.SIGINT, before)
    assert talk.say("say All is well.")[-1].text == "All is well."
    assert effects_of(served, name) == [f"begin {name}"]
    assert kinds(remote_tape(served, talk.remote_thread))[:3] == ["human", "ai", "tool"]


class Forgetful(InMemorySaver):
    """A saver that fails when it is to save what a remote turn gave, as long as it is told to."""

    failing = True

    def put_writes(self, config: Any, writes: Any, *args: Any, **kwargs: Any) -> None:
        if self.failing and any(channel == "answer" for channel, _ in writes):
            raise OSError("disk full")
        super().put_writes(config, writes, *args, **kwargs)


@pytest.mark.parametrize("paused", [False, True])
def test_a_turn_whose_output_was_not_saved_does_not_run_again(served: Served, name: str, paused: bool) -> None:
    saver = Forgetful()
    talk = Talk(parent_of(turn_at(served.server.url), saver))
    if paused:
        talk.say(sent(name))
    with pytest.raises(OSError, match="disk full"):
        talk.go(APPROVE if paused else {"messages": [("user", f'call work {{"name": "{name}", "seconds": 0}}')]})
    saver.failing = False
    before = len(served.model.requests)
    tape = talk.go(None)
    assert tape[-1].text.startswith("Done: ")
    assert kinds(tape) == kinds(remote_tape(served, talk.remote_thread)) == ["human", "ai", "tool", "ai"]
    assert len(served.model.requests) == before
    assert len(effects_of(served, name)) == (1 if paused else 2)


def test_a_failed_remote_run_is_an_error_and_goes_on(served: Served) -> None:
    talk = Talk(parent_of(turn_at(served.server.url), InMemorySaver(), context_schema=TurnSettings))
    talk.options["context"] = TurnSettings(model="local:/no/such/file.gguf")
    with pytest.raises(RemoteException, match="ModelLoadError"):
        talk.say("say Here I am.")
    talk.options = {}
    assert [m.text for m in talk.go(None)] == ["say Here I am.", "Here I am."]


async def test_a_server_that_is_away_is_an_error_and_the_message_waits(served: Served) -> None:
    saver = InMemorySaver()
    nowhere = LangGraphClient(httpx.AsyncClient(base_url="http://127.0.0.1:9", trust_env=False))
    talk = Talk(parent_of(remote_turn(RemoteGraph("turn", client=nowhere)), saver))
    with pytest.raises(httpx.ConnectError):
        await talk.graph.ainvoke({"messages": [("user", "say Here I am.")]}, talk.config)
    with pytest.raises(InputError, match="sync_client"):
        talk.graph.invoke(None, talk.config)
    talk.graph = parent_of(turn_at(served.server.url), saver)
    output = await talk.graph.ainvoke(None, talk.config)
    assert [m.text for m in output["messages"]] == ["say Here I am.", "Here I am."]


def test_of_the_parent_only_the_turns_settings_travel(served: Served) -> None:
    class Theirs(TypedDict):
        password: str
        turn_settings: TurnSettings

    talk = Talk(parent_of(turn_at(served.server.url), InMemorySaver(), context_schema=Theirs))
    talk.options["context"] = {"password": "canary-1", "turn_settings": TurnSettings(permission_mode="ask_all")}
    config = {**talk.config, "metadata": {"note": "canary-2"}, "tags": ["canary-3"], "recursion_limit": 50}
    config["configurable"]["api_key"] = "canary-4"
    for part in talk.graph.stream(
        {"messages": [("user", 'call look {"place": "yard"}')]},
        config,
        stream_mode=["custom"],
        subgraphs=True,
        **talk.options,
    ):
        talk._take(part)
    (pause,) = talk.pauses
    assert pause.value["action_requests"][0]["name"] == "look"
    (run,) = sdk(served).runs.list(talk.remote_thread)
    assert run["kwargs"]["context"] == {"permission_mode": "ask_all"}
    assert "canary" not in json.dumps([run, sdk(served).threads.get(talk.remote_thread)])


@pytest.mark.slow
def test_called_twice_inside_a_node_each_call_pauses_and_goes_on(served: Served, name: str) -> None:
    turn = turn_at(served.server.url)
    questions = [sent(f"{name}-1"), sent(f"{name}-2")]

    async def work(state: MessagesState) -> Any:
        outputs = [await turn.ainvoke({"messages": [("user", each)]}) for each in questions]
        return {"messages": [AIMessage(output["answer"]) for output in outputs]}

    talk = Talk(parent_of(work, InMemorySaver()), "async")
    talk.say("Send both.")
    for number in (1, 2):
        (pause,) = talk.pauses
        assert pause.value["action_requests"][0]["args"] == {"to": f"{name}-{number}"}
        tape = talk.go(APPROVE)
    assert [m.text for m in tape][1:] == [f"Done: sent to {name}-1", f"Done: sent to {name}-2"]
    assert effects_of(served, name) == [f"sent {name}-1", f"sent {name}-2"]
    assert len(talk.remote_threads) == 2


@pytest.mark.slow
def test_called_inside_a_sync_node_the_same_question_again_is_a_new_one(served: Served) -> None:
    turn = turn_at(served.server.url)

    def work(state: MessagesState) -> Any:
        output = turn.invoke({"messages": [("user", "say Yes.")]})
        return {"messages": [AIMessage(f"{output['answer']} {len(output['messages'])}")]}

    talk = Talk(parent_of(work, InMemorySaver()))
    talk.say("One.")
    assert [m.text for m in talk.say("Two.")] == ["One.", "Yes. 1", "Two.", "Yes. 1"]
    assert kinds(remote_tape(served, talk.remote_thread)) == ["human", "ai"] * 2


class Work(TypedDict):
    places: list[str]
    found: Annotated[list[str], operator.add]


async def test_parallel_remote_turns_do_not_mix_and_pause_together(served: Served, name: str) -> None:
    turn = turn_at(served.server.url)

    async def one(state: Any) -> Any:
        return {"found": [(await turn.ainvoke({"messages": [("user", sent(state["place"]))]}))["answer"]]}

    builder = StateGraph(Work)
    builder.add_node("one", one)
    builder.add_conditional_edges(START, lambda state: [Send("one", {"place": p}) for p in state["places"]], ["one"])
    builder.add_edge("one", END)
    graph: Any = builder.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "fan"}}
    places = [f"{name}-{number}" for number in range(3)]
    paused = await graph.ainvoke({"places": places, "found": []}, config)
    pauses = {pause.value["action_requests"][0]["args"]["to"]: pause.id for pause in paused["__interrupt__"]}
    assert sorted(pauses) == places
    await graph.ainvoke(Command(resume={pauses[places[2]]: APPROVED}), config)
    assert effects_of(served, name) == [f"sent {places[2]}"]
    output = await graph.ainvoke(Command(resume={pauses[place]: APPROVED for place in places[:2]}), config)
    assert sorted(output["found"]) == [f"Done: sent to {place}" for place in places]
    assert sorted(effects_of(served, name)) == [f"sent {place}" for place in places]


def two_letters(name: str) -> Any:
    """An outer model that asks the tool `clerk` for two letters at once, then repeats what it was told."""

    def script(messages: list[BaseMessage]) -> Any:
        results = [m.text for m in messages if isinstance(m, ToolMessage)]
        if results:
            return " / ".join(results)
        return ScriptedReply(calls=[("clerk", {"question": sent(f"{name}-{number}")}) for number in (1, 2)])

    return ScriptedModel(script)


def clerk(served: Served, **options: Any) -> Any:
    return as_tool(turn_at(served.server.url), name="clerk", description="Sends letters.", **options)


@pytest.mark.parametrize("form", ["sync", "async"])
def test_an_answer_that_came_before_the_question_reaches_nobody(served: Served, form: str, name: str) -> None:
    graph = parent_of(turn_at(served.server.url), InMemorySaver())
    talk = Talk(graph, form, interrupt_before=["helper"])
    talk.say(sent(name))
    del talk.options["interrupt_before"]
    talk.go(APPROVE)
    assert effects_of(served, name) == []
    (pause,) = talk.pauses
    assert pause.value["action_requests"][0]["args"] == {"to": name}
    talk.go(None)
    assert effects_of(served, name) == []
    assert talk.go(APPROVE)[-1].text == f"Done: sent to {name}"
    assert effects_of(served, name) == [f"sent {name}"]


@pytest.mark.parametrize(
    ("outer", "form"), [pytest.param("agent", "async", marks=pytest.mark.slow), ("turn", "sync"), ("turn", "async")]
)
def test_as_a_tool_its_pauses_surface_and_resume(served: Served, outer: str, form: str, name: str) -> None:
    graph: Any = (
        create_agent(two_letters(name), [clerk(served)], checkpointer=InMemorySaver())
        if outer == "agent"
        else build_turn_graph(two_letters(name), [clerk(served)], checkpointer=InMemorySaver())
    )
    talk = Talk(graph, form)
    talk.say("Send both.")
    asked = []
    while pauses := talk.pauses:
        asked += [pause.value["action_requests"][0]["args"]["to"] for pause in pauses]
        tape = talk.go(Command(resume={pause.id: APPROVED for pause in pauses}))
    assert sorted(asked) == [f"{name}-1", f"{name}-2"]
    assert tape[-1].text == f"Done: sent to {name}-1 / Done: sent to {name}-2"
    assert sorted(effects_of(served, name)) == [f"sent {name}-1", f"sent {name}-2"]
    assert len(set(talk.remote_threads) - {talk.thread}) == 2, "each call is a conversation of its own"
    check_calls(tape)


def test_as_a_tool_it_runs_under_the_outer_turns_permissions(served: Served, name: str) -> None:
    tool = clerk(served, settings=TurnSettings(permission_mode="full_access"))
    talk = Talk(build_turn_graph(two_letters(name), [tool], checkpointer=InMemorySaver()))
    talk.options["context"] = TurnSettings(permissions={"send": "deny"})
    tape = talk.say("Send both.")
    assert "Done:" in tape[-1].text
    assert effects_of(served, name) == []


async def test_as_a_tool_it_is_stopped_with_the_outer_turn(served: Served, name: str) -> None:
    def script(messages: list[BaseMessage]) -> Any:
        if isinstance(messages[-1], HumanMessage) and "well" in messages[-1].text:
            return "All is well."
        return ScriptedReply(calls=[("clerk", {"question": f'call work {{"name": "{name}", "seconds": 60}}'})])

    talk = Talk(build_turn_graph(ScriptedModel(script), [clerk(served)], checkpointer=InMemorySaver()))
    await cancelled(talk, "Work.", lambda talk: effects_of(served, name))
    inner = next(t for t in talk.remote_threads if t != talk.thread)

    async def stopped() -> bool:
        return await served.status(inner) != "busy"

    await served.until(stopped)
    assert effects_of(served, name) == [f"begin {name}"]
    tape = (await talk.graph.ainvoke({"messages": [("user", "Is all well?")]}, talk.config))["messages"]
    assert tape[-1].text == "All is well."


async def test_two_remote_assistants_of_one_parent_have_a_conversation_each(served: Served) -> None:
    builder = StateGraph(MessagesState)
    for node, assistant in (("first", "turn"), ("second", "parent")):
        builder.add_node(node, remote_turn(RemoteGraph(assistant, url=served.server.url)))
        builder.add_edge(START, node)
        builder.add_edge(node, END)
    talk = Talk(builder.compile(checkpointer=InMemorySaver()))
    events: list[Any] = []
    async for namespace, _, event in talk.graph.astream(
        {"messages": [("user", "say Hi.")]}, talk.config, stream_mode=["custom"], subgraphs=True
    ):
        events.append((namespace, event))
    threads = {where[0].split(":")[0]: e["thread_id"] for where, e in events if e["type"] == "turn_started"}
    assert len(set(threads.values())) == 2
    deep = {len(where) for where, _ in events if where[0].startswith("second:")}
    assert deep == {2}, "the turn inside the remote graph has a namespace inside that of its node"
    assert [m.text for m in talk.tape] == ["say Hi.", "Hi.", "Hi."]
