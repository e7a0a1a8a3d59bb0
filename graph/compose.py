"""A turn as a tool of another agent."""

import asyncio
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any
from uuid import uuid4

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool

from turngraph.graph.admission import is_nested
from turngraph.graph.loop import background_loop
from turngraph.graph.remote import RemoteTurn
from turngraph.graph.shell import TurnGraph
from turngraph.nodes.nesting import answering_only
from turngraph.nodes.scope import enter_scope, new_scope
from turngraph.state.channels import TurnInput
from turngraph.state.settings import TurnSettings
from turngraph.tools.policy import tool_policy

TURN_SECONDS = 600.0
"""How long a turn that is a tool may take, where its maker names no other time: it makes model calls of its own."""


def as_tool(
    graph: TurnGraph | RemoteTurn,
    *,
    name: str | None = None,
    description: str,
    settings: TurnSettings | None = None,
    timeout: float = TURN_SECONDS,
) -> BaseTool:
    """A tool that runs one whole turn on a question and returns its answer.

    The turn runs inside the calling graph: its pauses surface on the outer run and resume through it, its events
    carry a namespace of their own, and of its state only the answer reaches the caller. Each call is a new turn
    that knows the question only. Any agent may call it.

    settings: those of the inner turn. The outer turn's settings are its own, but its permissions hold inside, too.
    timeout: seconds for one call, a pause not counted.
    """

    runs: Any = graph.per_call() if isinstance(graph, RemoteTurn) else graph

    def ask(question: str) -> str:
        with answering_only():
            return str(runs.invoke(_input(question), _config(), context=settings).get("answer", ""))

    async def aask(question: str) -> str:
        if asyncio.get_running_loop() is background_loop():
            return await _in_thread(lambda: ask(question))
        with answering_only():
            return str((await runs.ainvoke(_input(question), _config(), context=settings)).get("answer", ""))

    tool = StructuredTool.from_function(ask, aask, name=name or graph.get_name(), description=description)
    return tool_policy(tool, timeout=timeout)


def _input(question: str) -> TurnInput:
    return {"messages": [HumanMessage(question)]}


def _config() -> RunnableConfig | None:
    """Inside a graph its own; a thread of its own where the tool is called from plain code."""
    return None if is_nested(None) else {"configurable": {"thread_id": uuid4().hex}}


async def _in_thread(run: Callable[[], str]) -> str:
    """Runs the sync form inside a sync outer run, whose checkpointer may have no other; stopped with its caller.

    In a thread of its own: a pool that is full of turns that wait would leave none for what they wait for.
    """
    loop, scope = asyncio.get_running_loop(), new_scope()
    ended: asyncio.Future[str] = loop.create_future()

    def settle(answer: str | None, error: BaseException | None) -> None:
        if not ended.done():
            ended.set_exception(error) if error is not None else ended.set_result(answer or "")

    def work() -> None:
        enter_scope(scope)
        try:
            loop.call_soon_threadsafe(settle, run(), None)
        except BaseException as error:  # noqa: BLE001 - handed to the caller's task as it is
            loop.call_soon_threadsafe(settle, None, error)

    threading.Thread(target=copy_context().run, args=(work,), name="turngraph-inner-turn", daemon=True).start()
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        scope.cancel()
        await asyncio.wait({ended})
        ended.exception()
        raise
