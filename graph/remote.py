"""A turn that a LangGraph server runs, as a graph that composes like a local one."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import wait
from typing import Any, Literal

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.config import get_config
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel.remote import RemoteException, RemoteGraph
from langgraph.runtime import get_runtime
from langgraph.types import interrupt
from langgraph_sdk.errors import ConflictError
from typing_extensions import TypedDict

from turngraph.graph.loop import submit
from turngraph.graph.remote_steps import OWN_THREAD, Ask, Asked, Done, Join, Run, next_step, place_of, with_ids
from turngraph.graph.remote_stream import RemoteListener
from turngraph.graph.remote_thread import RemoteThread
from turngraph.graph.shell import STOP_SECONDS
from turngraph.nodes.asked import NOBODY, VOID, VOID_WRITES, checkpoint_of, shows
from turngraph.nodes.parts import settings_of_run
from turngraph.nodes.scope import RunScope, new_scope
from turngraph.state.channels import Update
from turngraph.state.receipt import TurnReceipt
from turngraph.state.settings import TurnSettings


class RemoteInput(TypedDict):
    """What a remote turn takes. Without a reducer: the channel holds this call's messages only."""

    messages: list[AnyMessage]


class RemoteOutput(TypedDict, total=False):
    """What a remote turn gives. `messages` are the new ones only, so a parent's tape grows by them and nothing else."""

    messages: list[AnyMessage]
    answer: str
    receipt: TurnReceipt
    structured: Any


class RemoteState(RemoteOutput, total=False):
    """The whole state. `asked` is the pause that this graph waits in; `reply` its answer, on its way to the server."""

    asked: Asked | None
    reply: Asked | None


def remote_turn(remote: RemoteGraph, *, continues: bool = True, name: str | None = None) -> "RemoteTurn":
    """A turn on a LangGraph server, as a graph: a node of a parent, called in a node, a tool (`as_tool`).

    A bare RemoteGraph as a node runs on the parent's own thread id and can never be resumed, because it is sent the
    parent's state again instead of the answer. This one keeps what a local turn keeps: its pauses surface on the
    parent's run with the payload unchanged and resume through it, also in another process; events and messages carry
    its namespace; when the parent is cancelled the remote run is cancelled too, and keeps its text; and a parent that
    crashed finds the run that it started. `messages` of its output are the new ones only. Of the parent's config
    nothing is handed on; of its context `turn_settings` (or TurnSettings), which replace the assistant's own fields.

    continues: the remote thread is one per thread of the parent and place in it, so that the next message continues
        the conversation; False, or where the node was entered by `Send` or is a `@task`: one per call.
    """
    builder: StateGraph[RemoteState, TurnSettings, RemoteInput, RemoteOutput] = StateGraph(
        RemoteState, context_schema=TurnSettings, input_schema=RemoteInput, output_schema=RemoteOutput
    )
    builder.add_node("remote", _RemoteNode(remote, continues=continues), input_schema=RemoteState)
    builder.add_node("interrupt", _Pause(), input_schema=RemoteState)
    builder.add_edge(START, "remote")
    builder.add_conditional_edges("remote", _after_remote)
    builder.add_edge("interrupt", "remote")
    compiled = builder.compile(name=name or remote.name or remote.assistant_id)
    return RemoteTurn(remote=remote, **compiled.__dict__)


class RemoteTurn(CompiledStateGraph[RemoteState, TurnSettings, RemoteInput, RemoteOutput]):
    """What `remote_turn` gives."""

    def __init__(self, *, remote: RemoteGraph, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.remote = remote

    def per_call(self) -> "RemoteTurn":
        """The same with a remote thread per call."""
        return remote_turn(self.remote, continues=False, name=self.name)

    def stream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Iterator[Any]:
        """As LangGraph's `stream`."""
        yield from super().stream(input, _marked(config), **kwargs)

    async def astream(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        """As LangGraph's `astream`."""
        async for part in super().astream(input, _marked(config), **kwargs):
            yield part


def _marked(config: RunnableConfig | None) -> RunnableConfig | None:
    """The config, marked where this call is made in a task that LangGraph was sent: several of them run at once."""
    current = config if (config or {}).get("metadata", {}).get("langgraph_path") else var_child_runnable_config.get()
    path = (current or {}).get("metadata", {}).get("langgraph_path", ())
    if not path or path[0] != "__pregel_push":
        return config
    given = config or {}
    return {**given, "configurable": {**given.get("configurable", {}), OWN_THREAD: True}}


class _Pause(Runnable[RemoteState, Update]):
    """Waits for the answer; it is given to the server by the next visit of `remote`.

    An answer that came before the question was shown is given to nobody: `remote` asks again.
    """

    name = "interrupt"

    def invoke(self, input: RemoteState, config: RunnableConfig | None = None, **kwargs: Any) -> Update:  # noqa: ARG002
        asked, value, own, saver = _waited(input)
        if value != VOID and shows(saver.get_tuple(checkpoint_of(own, _graph_of(own))), own, asked["value"]):
            return {"asked": None, "reply": {"id": asked["id"], "value": value}}
        saver.put_writes(checkpoint_of(own, ""), VOID_WRITES, NOBODY)
        return {"asked": None, "reply": None}

    async def ainvoke(self, input: RemoteState, config: RunnableConfig | None = None, **kwargs: Any) -> Update:  # noqa: ARG002
        asked, value, own, saver = _waited(input)
        if value != VOID and shows(await saver.aget_tuple(checkpoint_of(own, _graph_of(own))), own, asked["value"]):
            return {"asked": None, "reply": {"id": asked["id"], "value": value}}
        await saver.aput_writes(checkpoint_of(own, ""), VOID_WRITES, NOBODY)
        return {"asked": None, "reply": None}


def _waited(state: RemoteState) -> tuple[Asked, Any, RunnableConfig, BaseCheckpointSaver[Any]]:
    """What was asked, the answer, the node's config and its saver."""
    asked = state["asked"]
    assert asked is not None
    value, own = interrupt(asked["value"]), get_config()
    return asked, value, own, own["configurable"]["__pregel_checkpointer"]


def _graph_of(config: RunnableConfig) -> str:
    """The namespace of the graph whose node has this config."""
    return str(config["configurable"].get("checkpoint_ns", "")).rpartition("|")[0]


def _after_remote(state: RemoteState) -> Literal["interrupt", "__end__"]:
    return "interrupt" if state.get("asked") else "__end__"


class _RemoteNode(Runnable[RemoteState, Update]):
    """The node that talks to the server. One async core; a sync call runs it on the background loop."""

    name = "remote"

    def __init__(self, remote: RemoteGraph, *, continues: bool) -> None:
        self._remote, self._continues = remote, continues

    def invoke(self, input: RemoteState, config: RunnableConfig | None = None, **kwargs: Any) -> Update:  # noqa: ARG002
        scope = new_scope()
        future = submit(self._visit(input, scope))
        try:
            return future.result()
        except KeyboardInterrupt:
            scope.cancel()
            wait([future], STOP_SECONDS)
            raise

    async def ainvoke(self, input: RemoteState, config: RunnableConfig | None = None, **kwargs: Any) -> Update:  # noqa: ARG002
        return await self._visit(input, None)

    async def _visit(self, state: RemoteState, scope: RunScope | None) -> Update:
        config = get_config()
        place = place_of(config, self._remote.assistant_id, continues=self._continues)
        listener = RemoteListener(config, get_runtime().stream_writer)
        thread = RemoteThread(
            self._remote, place.thread_id, sync=scope is not None, modes=listener.modes, hear=listener.hear
        )
        given = with_ids(state["messages"], place.call)
        work = asyncio.create_task(_answered(thread, given, state.get("reply"), _settings()))
        current = asyncio.current_task()
        if scope is not None and current is not None:
            scope.enter(current)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await _stopped(thread, work)
            raise


async def _answered(
    thread: RemoteThread, given: list[BaseMessage], reply: Asked | None, settings: dict[str, Any] | None
) -> Update:
    """Does steps until the remote thread has answered or waits for a person."""
    ran = False
    while not thread.stopped:
        seen = await thread.look()
        match next_step(seen, given, reply, ran=ran):
            case Join(run_id=run_id):
                await thread.join(run_id)
            case Run(input=input):
                try:
                    await thread.run(input, settings)
                except ConflictError:
                    continue
                ran, reply = True, None
            case Ask(pause=pause):
                return {"asked": {"id": pause.id, "value": pause.value}, "reply": None}
            case Done(messages=messages):
                return _output(messages, seen.values)
    raise asyncio.CancelledError


def _output(news: list[BaseMessage], values: Mapping[str, Any]) -> Update:
    """The output; the answer of a remote graph that names none is its last text."""
    if not news:
        raise RemoteException("The remote run ended without an answer: it was stopped on its server.")
    spoken = next((message.text for message in reversed(news) if isinstance(message, AIMessage)), "")
    kept = {"structured": values["structured"]} if "structured" in values else {}
    return {
        "messages": news,
        "answer": values.get("answer") or str(spoken),
        "receipt": values.get("receipt") or {},
        "asked": None,
        "reply": None,
        **kept,
    }


async def _stopped(thread: RemoteThread, work: "asyncio.Task[Update]") -> None:
    """Stops the remote run and hears it close its turn, for STOP_SECONDS at most, whatever cancels come meanwhile."""
    stop, until = asyncio.create_task(thread.stop()), time.monotonic() + STOP_SECONDS
    waits: set[asyncio.Task[Any]] = {stop, work}
    while waits and (left := until - time.monotonic()) > 0:
        try:
            _, waits = await asyncio.wait(waits, timeout=left)
        except asyncio.CancelledError:
            waits = {task for task in waits if not task.done()}
    for task in (stop, work):
        task.cancel()
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


def _settings() -> dict[str, Any] | None:
    """The context of the remote run: this run's settings, under the permissions of the turn that it is a tool of."""
    return settings_of_run(get_runtime().context).stored() or None
