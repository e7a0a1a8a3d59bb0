"""Input that was queued for a thread while its turn runs: where it lies, reading it, and when it may be removed."""

import asyncio
import json
import logging
import weakref
from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, messages_from_dict
from langgraph.store.base import BaseStore

from turngraph.nodes.closing import marks_of
from turngraph.nodes.nesting import is_asked, outer_turn
from turngraph.nodes.parts import Visit
from turngraph.nodes.place import Place
from turngraph.state.channels import TurnState, coerce_messages
from turngraph.tools.claims import ClaimRequest, Fresh, Started
from turngraph.tools.journal import Journal
from turngraph.tools.journal_store import StoreJournal

_log = logging.getLogger(__name__)

CLAIMS = "queued-input"
"""In the place of a turn's id: the claims of turns inside other graphs on their thread's queued input."""


def inbox_of(journal: Journal, store: BaseStore | None) -> Journal:
    """Where a thread's queued input lies: in the store if there is one (clients of a server can write there), else in
    the journal."""
    return journal if store is None else StoreJournal(store)


async def take_queued(
    visit: Visit,
    state: TurnState,
    *,
    saved: bool = False,
    restored: Sequence[BaseMessage] = (),
    dead: Collection[str] = (),
) -> list[BaseMessage]:
    """The user's messages that wait for the turn, oldest first, without those that the tape already holds.

    What is taken stays in the queue until everything that the run wrote is saved (`remove_when_saved`), so that a
    crash in between loses nothing; the tape's ids keep it from being taken twice. `saved`: the state comes from a
    checkpoint, so what its tape holds is removed now. `restored` goes on the tape with what is taken. What is no user's
    message is removed, and logged.

    A turn inside another graph takes what is queued for the whole run's thread. Several may look at once, and not
    every one of their tapes reaches the parent's; so each message is claimed first, and a claim stands until its turn
    is known to be `dead` (the keys of turns that never ended, and whose step is over). A turn that only answers the
    question of a tool's call takes nothing.
    """
    if is_asked() or outer_turn() is not None:
        return []
    inbox, place = inbox_of(visit.journal, visit.store), visit.place
    thread = visit.thread if place is None else place.thread
    waiting = await inbox.queued(thread)
    if not waiting:
        return []
    held = {message.id for message in [*state.get("messages", []), *restored]}
    if saved:
        await _remove(visit, inbox, _on_saved_tape(state, waiting, place))
    taken: list[BaseMessage] = []
    for key, raw in waiting:
        if key in held:
            continue
        message = _read(key, raw)
        if message is None:
            await inbox.dequeue(thread, [key])
            _log.warning("The queued input %r of thread %r is no user message; it was removed.", key, thread)
        elif place is None or await _claimed(visit, place, key, dead, only_look=not saved and _yields(visit)):
            taken.append(message)
    return taken


def _yields(visit: Visit) -> bool:
    return visit.settings.on_pending_input == "yield"


def _on_saved_tape(state: TurnState, waiting: Iterable[tuple[str, Any]], place: Place | None) -> list[str]:
    """The queued messages that a saved checkpoint holds.

    The tape that a turn is given by a graph around it may come from a step that is not saved yet. What stands before
    a message from outside is: the run that brought that one began from saved checkpoints.
    """
    tape, keys = state.get("messages", []), [key for key, _ in waiting]
    sure = len(tape)
    if place is not None:
        outside = (isinstance(m, HumanMessage) and not marks_of(m) and m.id not in keys for m in tape)
        sure = max((at for at, found in enumerate(outside) if found), default=0)
    held = {message.id for message in tape[:sure]}
    return [key for key in keys if key in held]


async def _remove(visit: Visit, inbox: Journal, keys: list[str]) -> None:
    """Removes messages from the queue, and the claims on them."""
    place = visit.place
    await inbox.dequeue(visit.thread if place is None else place.thread, keys)
    if place is not None and keys:
        claims = await visit.journal.lookup(place.thread, CLAIMS)
        await visit.journal.forget(place.thread, CLAIMS, [each for each in claims if _key_of(each) in keys])


async def _claimed(visit: Visit, place: Place, key: str, dead: Collection[str], *, only_look: bool) -> bool:
    """Whether this turn has the message: claimed now, or before a crash. `only_look`: whether it could have it.

    A claim is never overwritten: whoever follows a dead turn claims the message anew, under the next number, so of
    two that try only one has it.
    """
    known = await visit.journal.lookup(place.thread, CLAIMS)
    for number in count():
        name = _numbered(key, number)
        if only_look and name not in known:
            return True
        async with _one_at_a_time():
            claims = await visit.journal.claim(place.thread, CLAIMS, [ClaimRequest(name, place.key, place.told)])
        match claims[name]:
            case Fresh() | Started(name=place.key):
                return True
            case Started(name=other) if other in dead:
                continue
            case Started(digest=told) if place.after(json.loads(told)):
                # That turn ended well, and the graph around it keeps a tape of its own: the message had its effect.
                await _remove(visit, inbox_of(visit.journal, visit.store), [key])
                return False
            case _:
                return False
    raise AssertionError("numbers do not end")


_locks: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]" = weakref.WeakKeyDictionary()


def _one_at_a_time() -> asyncio.Lock:
    """A store looks and writes in two steps: the parallel turns of one run, which share a loop, take turns."""
    return _locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())


def _numbered(key: str, number: int) -> str:
    return f"{number}:{key}"


def _key_of(claim: str) -> str:
    return claim.partition(":")[2]


async def release_untold(visit: Visit, place: Place, state: TurnState) -> None:
    """The turn ends: what it claimed and its tape does not hold (a budget came first) is for another one."""
    held = {message.id for message in state["messages"]}
    mine = await _mine(visit, place)
    await visit.journal.release(place.thread, CLAIMS, [name for name in mine if _key_of(name) not in held])


async def taken_here(visit: Visit, place: Place) -> set[str]:
    """The ids of the queued messages that this turn took."""
    return {_key_of(name) for name in await _mine(visit, place)}


async def _mine(visit: Visit, place: Place) -> list[str]:
    claims = await visit.journal.lookup(place.thread, CLAIMS)
    return [name for name, claim in claims.items() if isinstance(claim, Started) and claim.name == place.key]


async def forget_held(visit: Visit, state: TurnState) -> None:
    """Input that the tape holds, and that a crash left in the queue: removed once the run's checkpoints are saved."""
    if visit.place is not None:
        return
    held = {message.id: message for message in state["messages"]}
    waiting = await inbox_of(visit.journal, visit.store).queued(visit.thread)
    remove_when_saved(visit, [held[key] for key, _ in waiting if key in held])


def remove_when_saved(visit: Visit, messages: list[BaseMessage]) -> None:
    """These messages of the queue are on the tape now: removes them once the run's checkpoints are saved.

    Inside another graph the end of this turn saves nothing of that graph: a later turn removes them.
    """
    ids = [message.id for message in messages if message.id]
    if ids and visit.place is None:
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
