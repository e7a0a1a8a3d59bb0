"""Input that was queued for a thread while its turn runs: where it lies, reading it, and when it may be removed."""

import logging
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, messages_from_dict
from langgraph.store.base import BaseStore

from turngraph.nodes.parts import Visit
from turngraph.state.channels import TurnState, coerce_messages
from turngraph.tools.journal import Journal
from turngraph.tools.journal_store import StoreJournal

_log = logging.getLogger(__name__)


def inbox_of(journal: Journal, store: BaseStore | None) -> Journal:
    """Where a thread's queued input lies: in the store if there is one (clients of a server can write there), else in
    the journal."""
    return journal if store is None else StoreJournal(store)


async def take_queued(visit: Visit, state: TurnState, *, saved: bool = False) -> list[BaseMessage]:
    """The user's messages that wait for the turn, oldest first, without those that the tape already holds.

    What is taken stays in the queue until everything that the run wrote is saved (`remove_when_saved`), so that a
    crash in between loses nothing; the tape's ids keep it from being taken twice. `saved`: the state comes from a
    checkpoint, so what its tape holds is removed now. What is no user's message is removed, and logged.
    """
    inbox = inbox_of(visit.journal, visit.store)
    waiting = await inbox.queued(visit.thread)
    if not waiting:
        return []
    held = {message.id for message in state.get("messages", [])}
    taken: list[BaseMessage] = []
    for key, raw in waiting:
        if key in held:
            if saved:
                await inbox.dequeue(visit.thread, [key])
            continue
        message = _read(key, raw)
        if message is None:
            await inbox.dequeue(visit.thread, [key])
            _log.warning("The queued input %r of thread %r is no user message; it was removed.", key, visit.thread)
        else:
            taken.append(message)
    return taken


async def forget_held(visit: Visit, state: TurnState) -> None:
    """Input that the tape holds, and that a crash left in the queue: removed once the run's checkpoints are saved."""
    held = {message.id: message for message in state["messages"]}
    waiting = await inbox_of(visit.journal, visit.store).queued(visit.thread)
    remove_when_saved(visit, [held[key] for key, _ in waiting if key in held])


def remove_when_saved(visit: Visit, messages: list[BaseMessage]) -> None:
    """These messages of the queue are on the tape now: removes them once the run's checkpoints are saved."""
    ids = [message.id for message in messages if message.id]
    if ids:
        inbox, thread = inbox_of(visit.journal, visit.store), visit.thread
        visit.scope.when_saved.append(lambda: inbox.dequeue(thread, ids))


def _read(key: str, raw: dict[str, Any]) -> HumanMessage | None:
    """The message as it goes on the tape: a user's words under the id that the queue knows, and no marks of ours."""
    try:
        message = messages_from_dict([raw])[0] if "data" in raw else coerce_messages(raw)[0]
    except Exception:  # noqa: BLE001 - clients write this by hand
        return None
    if not isinstance(message, HumanMessage):
        return None
    kwargs = {name: value for name, value in message.additional_kwargs.items() if name != "turngraph"}
    return message.model_copy(update={"id": key, "additional_kwargs": kwargs})
