"""The end of a thread: its checkpoints, and what the journal and the inbox keep of it beside them."""

import asyncio
from typing import Any

from langchain_core.runnables import RunnableConfig

from turngraph.graph.lease import aholding, holding, leased_thread
from turngraph.graph.loop import run_sync
from turngraph.graph.shell import TurnGraph
from turngraph.nodes.queued import inbox_of
from turngraph.state.errors import InputError


def delete_thread(graph: TurnGraph, thread_id: str) -> None:
    """Deletes a thread: its checkpoints, its turns and claims in the journal, its queued input.

    A checkpointer's own `delete_thread` leaves the last two. Raises TurnConflict while a turn runs, and InputError for
    a graph without a checkpointer. Standing grants end with the thread; other items of the store stay.
    """
    saver = _saver(graph)
    with holding(leased_thread(graph, _config(thread_id)), lambda: None):
        saver.delete_thread(thread_id)
        run_sync(_forget(graph, thread_id))


async def adelete_thread(graph: TurnGraph, thread_id: str) -> None:
    """`delete_thread` for an event loop; with any checkpointer."""
    saver = _saver(graph)
    async with aholding(leased_thread(graph, _config(thread_id)), lambda: None):
        try:
            await saver.adelete_thread(thread_id)
        except NotImplementedError:  # a saver of the sync kind
            await asyncio.to_thread(saver.delete_thread, thread_id)
        await _forget(graph, thread_id)


async def _forget(graph: TurnGraph, thread_id: str) -> None:
    journal = graph.parts.journal_of(graph.checkpointer, graph.store)
    await journal.forget_thread(thread_id)
    if (inbox := inbox_of(journal, graph.store)) is not journal:
        await inbox.forget_thread(thread_id)


def _saver(graph: TurnGraph) -> Any:
    saver = graph.checkpointer
    if saver is None or isinstance(saver, bool):
        raise InputError("A graph without a checkpointer has no threads.")
    return saver


def _config(thread_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id}}
