"""What comes to a thread from outside its runs: queued input, and the end of a standing grant."""

import asyncio
import contextlib
from typing import Any
from uuid import uuid4

from langchain_core.messages import BaseMessage, HumanMessage, message_to_dict
from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel

from turngraph.graph.lease import holding, leased_thread
from turngraph.graph.loop import run_sync
from turngraph.graph.shell import TurnGraph
from turngraph.nodes.queued import inbox_of
from turngraph.state.channels import coerce_messages
from turngraph.state.errors import InputError, TurnConflict
from turngraph.tools.journal_sql import journal_for
from turngraph.tools.permission import revoke


async def asend_input(graph: Pregel[Any, Any, Any, Any], thread_id: str, message: Any) -> str:
    """Queues a user's message for a thread whose turn runs (or for its next turn) and returns the message's id.

    message: a string, a message, or anything that LangChain reads as one. Sent twice under one id it counts once.
    A running turn takes it after its current tool batch, as `TurnSettings.on_pending_input` says. It lies in the
    graph's store if it has one, else beside its checkpoints; a graph without a checkpointer has no threads.

    graph: a turn graph, or any compiled graph with a checkpointer that turns run in. Of several turns inside it the
    first one that looks takes the message: a turn that runs with `steer` after its batch, else the next one that
    starts; one with `yield` ends for it and leaves it in the queue. A turn that is a tool's work takes none. The
    message stays in the queue, claimed, until a turn of a later run finds it on the tape that it is given.

    Raises InputError for what is no user's message.
    """
    queued = _as_message(message)
    if graph.checkpointer is None or isinstance(graph.checkpointer, bool):
        raise InputError("A graph without a checkpointer has no threads to queue input for.")
    journal_of = graph.parts.journal_of if isinstance(graph, TurnGraph) else journal_for
    inbox = inbox_of(journal_of(graph.checkpointer, graph.store), graph.store)
    await inbox.enqueue(thread_id, message_to_dict(queued))
    return queued.id or ""


def send_input(graph: Pregel[Any, Any, Any, Any], thread_id: str, message: Any) -> str:
    """The sync form of `asend_input`."""
    return run_sync(asend_input(graph, thread_id, message))


def list_grants(graph: TurnGraph, thread_id: str) -> list[dict[str, Any]]:
    """The standing grants of a thread: id, tool, scope, and for scope `call` the digest of tool and arguments."""
    return _standing(graph.get_state(_config(thread_id)).values)


async def alist_grants(graph: TurnGraph, thread_id: str) -> list[dict[str, Any]]:
    """`list_grants` for an event loop; with any checkpointer."""
    return await asyncio.to_thread(list_grants, graph, thread_id)


def revoke_grant(graph: TurnGraph, thread_id: str, grant_id: str) -> None:
    """Ends a standing grant of a thread. A pause stays, with the same calls; the id of its interrupt is a new one.

    Raises InputError for a grant that does not stand (`list_grants` shows them), and TurnConflict while a turn runs.
    """
    config = _config(thread_id)
    with holding(leased_thread(graph, config), lambda: None):
        before = graph.get_state(config)
        ended = [grant for grant in revoke(before.values.get("grants", []), grant_id) if grant["id"] == grant_id]
        graph.update_state(config, {"grants": ended})
    if any(task.interrupts for task in before.tasks):
        with contextlib.suppress(TurnConflict):  # whoever came in between goes on from the same state
            graph.invoke(None, config)  # LangGraph forgets what was asked at a checkpoint of before: it is asked again


async def arevoke_grant(graph: TurnGraph, thread_id: str, grant_id: str) -> None:
    """`revoke_grant` for an event loop; with any checkpointer."""
    await asyncio.to_thread(revoke_grant, graph, thread_id, grant_id)


def _config(thread_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id}}


def _standing(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [grant for grant in values.get("grants", []) if not grant.get("revoked")]


def _as_message(message: Any) -> BaseMessage:
    try:
        queued = coerce_messages(message)[0]
    except Exception as error:
        raise InputError(f"This message cannot be read: {error}") from error
    if not isinstance(queued, HumanMessage):
        raise InputError(f"Only a user's message can be queued, and this is of type {queued.type!r}.")
    given = message.get("id") if isinstance(message, dict) else getattr(message, "id", None)
    return queued if given else queued.model_copy(update={"id": str(uuid4())})
