"""What LangGraph's checkpoints do not say: who runs a thread, which calls were started, and how each one ended."""

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turngraph.state.calls import CallOutcome
from turngraph.tools.claims import (
    ClaimRequest,
    ClaimState,
    Fresh,
    JournalError,
    Paused,
    Settled,
    Started,
    claim_state,
    distinct,
    message_id,
    to_json,
)
from turngraph.tools.lease import EXPIRY_SECONDS

__all__ = [
    "ClaimRequest", "ClaimState", "Fresh", "Journal", "JournalError", "MemoryJournal", "Paused", "Settled", "Started",
]  # fmt: skip


class Journal(ABC):
    """A small durable record beside the checkpointer; every operation is one transaction.

    Keys: `thread` (thread id, and the checkpoint namespace where the turn runs inside another graph), `turn_id`,
    call id. Laws: of any number of claims of one call, one is Fresh (until it is released or paused); the first
    outcome that is settled for a call is its outcome from then on; what is stored comes back equal. Values are
    JSON; others are refused with JournalError. A write that was begun is completed even if its caller is cancelled.
    """

    # --- turn records

    @abstractmethod
    async def open_turn(self, thread: str, turn_id: str, record: Mapping[str, Any]) -> None:
        """Writes (or replaces) the record of a turn that begins; drops what turns before the last closed one left."""

    @abstractmethod
    async def update_turn(self, thread: str, turn_id: str, record: Mapping[str, Any]) -> None:
        """Merges fields into the record of an open turn; does nothing where the turn is not open."""

    @abstractmethod
    async def open_turns(self, thread: str) -> list[dict[str, Any]]:
        """The records of the turns that were opened and never closed, oldest first, each with its `turn_id`."""

    @abstractmethod
    async def close_turn(self, thread: str, turn_id: str) -> None:
        """The turn has its receipt. Its claims stay until two later turns were opened."""

    @abstractmethod
    async def forget(self, thread: str, turn_id: str, call_ids: Sequence[str]) -> None:
        """Drops claims that nobody will ask for again."""

    @abstractmethod
    async def forget_thread(self, thread: str) -> None:
        """Drops turns, claims and queued input of a thread, and of turns inside its runs (`thread|...`)."""

    # --- claims

    @abstractmethod
    async def claim(self, thread: str, turn_id: str, calls: Sequence[ClaimRequest]) -> dict[str, ClaimState]:
        """Claims calls before they run: Fresh ones may run now, the others must not. A paused claim becomes Fresh."""

    @abstractmethod
    async def settle(self, thread: str, turn_id: str, outcome: CallOutcome) -> None:
        """Stores a call's outcome with its result, before the call counts as finished. A later outcome is ignored."""

    @abstractmethod
    async def lookup(self, thread: str, turn_id: str) -> dict[str, ClaimState]:
        """All claims of a turn by call id, in the order in which they were made."""

    @abstractmethod
    async def release(self, thread: str, turn_id: str, call_ids: Sequence[str]) -> None:
        """Drops unsettled claims of calls that surely never started (or that a person wants run again)."""

    @abstractmethod
    async def pause(self, thread: str, turn_id: str, call_id: str) -> None:
        """Marks an unsettled claim as paused: its tool called LangGraph's `interrupt()`."""

    # --- lease

    @abstractmethod
    async def acquire(self, thread: str, owner: str) -> bool:
        """Takes the lease of a thread if it is free, expired, the owner's own, or a dead process's of this host."""

    @abstractmethod
    async def heartbeat(self, thread: str, owner: str) -> bool:
        """Keeps the lease; False where it is no longer the owner's."""

    @abstractmethod
    async def release_lease(self, thread: str, owner: str) -> None:
        """Gives the lease up; another owner's lease is left alone."""

    async def still_held(self, thread: str) -> bool:  # noqa: ARG002 - journals of one process sleep and wake as one
        """Whether a run may still write to its thread: False where another took over the lease that was taken here.

        A process that slept (a suspended machine) finds out by this, before its next heartbeat tells.
        """
        return True

    # --- queued input

    @abstractmethod
    async def enqueue(self, thread: str, message: Mapping[str, Any]) -> bool:
        """Queues a message (JSON with an id) for a thread; False where one of that id is queued already."""

    @abstractmethod
    async def queued(self, thread: str) -> list[tuple[str, dict[str, Any]]]:
        """The queued messages with their ids, in the order of arrival."""

    @abstractmethod
    async def dequeue(self, thread: str, ids: Sequence[str]) -> None:
        """Removes queued messages, once a saved checkpoint holds them."""

    async def close(self) -> None:  # noqa: B027 - most journals hold nothing open
        """Gives up what the journal holds open. A journal that is used again opens again."""


@dataclass
class _Claim:
    name: str
    digest: str
    state: str
    outcome: str | None = None


@dataclass
class _Thread:
    """What is kept of one thread."""

    turns: dict[str, tuple[str, bool]] = field(default_factory=dict)  # turn id -> (record as JSON, open)
    claims: dict[tuple[str, str], _Claim] = field(default_factory=dict)
    queue: dict[str, str] = field(default_factory=dict)
    lease: tuple[str, float] | None = None


class MemoryJournal(Journal):
    """A journal that lives as long as the process: for graphs without a checkpointer, or with one in memory."""

    def __init__(self) -> None:
        self._threads: dict[str, _Thread] = {}
        self._lock = threading.Lock()  # graphs on several event loops may share one journal

    def _of(self, thread: str) -> _Thread:
        return self._threads.setdefault(thread, _Thread())

    async def open_turn(self, thread: str, turn_id: str, record: Mapping[str, Any]) -> None:
        text = to_json(dict(record), "A turn record")
        with self._lock:
            kept = self._of(thread)
            closed = [key for key, (_, is_open) in kept.turns.items() if not is_open and key != turn_id]
            for old in closed[:-1]:
                del kept.turns[old]
                for key in [key for key in kept.claims if key[0] == old]:
                    del kept.claims[key]
            kept.turns.pop(turn_id, None)
            kept.turns[turn_id] = (text, True)

    async def update_turn(self, thread: str, turn_id: str, record: Mapping[str, Any]) -> None:
        to_json(dict(record), "A turn record")
        with self._lock:
            turns = self._of(thread).turns
            text, is_open = turns.get(turn_id, ("", False))
            if is_open:
                turns[turn_id] = (json.dumps({**json.loads(text), **record}), True)

    async def open_turns(self, thread: str) -> list[dict[str, Any]]:
        with self._lock:
            turns = self._of(thread).turns.items()
            return [{**json.loads(text), "turn_id": turn_id} for turn_id, (text, is_open) in turns if is_open]

    async def close_turn(self, thread: str, turn_id: str) -> None:
        with self._lock:
            turns = self._of(thread).turns
            if turn_id in turns:
                turns[turn_id] = (turns[turn_id][0], False)

    async def forget(self, thread: str, turn_id: str, call_ids: Sequence[str]) -> None:
        with self._lock:
            for call_id in call_ids:
                self._of(thread).claims.pop((turn_id, call_id), None)

    async def forget_thread(self, thread: str) -> None:
        with self._lock:
            for name in [name for name in self._threads if name == thread or name.startswith(f"{thread}|")]:
                self._threads[name] = _Thread(lease=self._threads[name].lease)

    async def claim(self, thread: str, turn_id: str, calls: Sequence[ClaimRequest]) -> dict[str, ClaimState]:
        with self._lock:
            claims = self._of(thread).claims
            found: dict[str, ClaimState] = {}
            for call in distinct(calls):
                known = claims.get((turn_id, call.call_id))
                if known is None or known.state == "paused":
                    claims[turn_id, call.call_id] = _Claim(call.name, call.digest, "started")
                    found[call.call_id] = Fresh()
                else:
                    found[call.call_id] = claim_state(known.name, known.digest, known.state, known.outcome)
            return found

    async def settle(self, thread: str, turn_id: str, outcome: CallOutcome) -> None:
        text = to_json(outcome, f"The outcome of the call {outcome['call_id']}")
        with self._lock:
            claims = self._of(thread).claims
            claim = claims.setdefault((turn_id, outcome["call_id"]), _Claim(outcome["name"], "", "started"))
            if claim.outcome is None:
                claim.state, claim.outcome = "settled", text

    async def lookup(self, thread: str, turn_id: str) -> dict[str, ClaimState]:
        with self._lock:
            return {
                call_id: claim_state(claim.name, claim.digest, claim.state, claim.outcome)
                for (turn, call_id), claim in self._of(thread).claims.items()
                if turn == turn_id
            }

    async def release(self, thread: str, turn_id: str, call_ids: Sequence[str]) -> None:
        with self._lock:
            claims = self._of(thread).claims
            for key in [(turn_id, call_id) for call_id in call_ids]:
                if key in claims and claims[key].outcome is None:
                    del claims[key]

    async def pause(self, thread: str, turn_id: str, call_id: str) -> None:
        with self._lock:
            claim = self._of(thread).claims.get((turn_id, call_id))
            if claim is not None and claim.outcome is None:
                claim.state = "paused"

    async def acquire(self, thread: str, owner: str) -> bool:
        with self._lock:
            kept, now = self._of(thread), time.monotonic()
            if kept.lease is None or kept.lease[0] == owner or now - kept.lease[1] > EXPIRY_SECONDS:
                kept.lease = (owner, now)
                return True
            return False

    async def heartbeat(self, thread: str, owner: str) -> bool:
        with self._lock:
            kept = self._of(thread)
            if kept.lease is None or kept.lease[0] != owner:
                return False
            kept.lease = (owner, time.monotonic())
            return True

    async def release_lease(self, thread: str, owner: str) -> None:
        with self._lock:
            kept = self._of(thread)
            if kept.lease is not None and kept.lease[0] == owner:
                kept.lease = None

    async def enqueue(self, thread: str, message: Mapping[str, Any]) -> bool:
        key, text = message_id(message), to_json(dict(message), "A queued message")
        with self._lock:
            queue = self._of(thread).queue
            if key in queue:
                return False
            queue[key] = text
            return True

    async def queued(self, thread: str) -> list[tuple[str, dict[str, Any]]]:
        with self._lock:
            return [(key, json.loads(text)) for key, text in self._of(thread).queue.items()]

    async def dequeue(self, thread: str, ids: Sequence[str]) -> None:
        with self._lock:
            for key in ids:
                self._of(thread).queue.pop(key, None)
