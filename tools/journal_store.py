"""The journal in LangGraph's store: for servers, whose checkpointer is not ours to put tables beside."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.store.base import BaseStore, GetOp, PutOp, SearchItem

from turngraph.state.calls import CallOutcome
from turngraph.tools.claims import (
    ClaimRequest,
    ClaimState,
    Fresh,
    JournalError,
    claim_state,
    distinct,
    message_id,
    to_json,
)
from turngraph.tools.journal import Journal
from turngraph.tools.lease import EXPIRY_SECONDS, is_dead

_PAGE = 100

OVER_MINUTES = 30 * 24 * 60.0
"""How long a store that lets items expire keeps a turn that is over, from when it was last read: its thread may be
deleted without the journal being told."""

Namespace = tuple[str, ...]


class StoreJournal(Journal):
    """A journal under the namespaces `("turngraph", kind, thread, ...)` of a store.

    A store has no compare-and-set and no transactions, so between a look and a write another process may come in:
    the lease, and one claim of a call by two processes in the same instant, are best effort. A server's queue keeps
    one run per thread, which closes that gap. Queued input lies under `("turngraph", "input", thread_id)`, one item
    per message, where a client may write it through the SDK.
    """

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    async def _put(self, namespace: Namespace, key: str, value: dict[str, Any] | None) -> None:
        await self._store.abatch([PutOp(namespace, key, value, index=False)])

    async def _get(self, namespace: Namespace, key: str) -> dict[str, Any] | None:
        item = await self._store.aget(namespace, key)
        return None if item is None else item.value

    async def _all(self, namespace: Namespace) -> list[SearchItem]:
        """All items of one namespace, oldest first."""
        items: list[SearchItem] = []
        while page := await self._store.asearch(namespace, limit=_PAGE, offset=len(items)):
            items.extend(page)
            if len(page) < _PAGE:
                break
        # A search takes a prefix, of the text on some stores: "t1" also finds "t10".
        exact = [item for item in items if tuple(item.namespace) == namespace]
        return sorted(exact, key=lambda item: (item.created_at, item.key))

    async def open_turn(self, thread: str, turn_id: str, record: Mapping[str, Any]) -> None:
        text = to_json(dict(record), "A turn record")
        turns = [item for item in await self._turns(thread) if item.key != turn_id]
        closed = [item.key for item in turns if item.value["closed"]]
        for old in closed[:-1]:
            claims = _space("claims", thread, old)
            drops = [PutOp(claims, item.key, None) for item in await self._all(claims)]
            drops.append(PutOp(_space("turns", thread), old, None))
            await self._store.abatch(drops)
        value = {"record": text, "closed": False, "opened": time.time_ns()}
        await self._put(_space("turns", thread), turn_id, value)

    async def _turns(self, thread: str) -> list[SearchItem]:
        return sorted(await self._all(_space("turns", thread)), key=lambda item: int(item.value["opened"]))

    async def update_turn(self, thread: str, turn_id: str, record: Mapping[str, Any]) -> None:
        to_json(dict(record), "A turn record")
        kept = await self._get(_space("turns", thread), turn_id)
        if kept is not None and not kept["closed"]:
            merged = {**json.loads(kept["record"]), **record}
            value = {**kept, "record": json.dumps(merged)}
            if merged.get("saved"):
                await self._put_over(thread, turn_id, value)
            else:
                await self._put(_space("turns", thread), turn_id, value)

    async def open_turns(self, thread: str) -> list[dict[str, Any]]:
        turns = [item for item in await self._turns(thread) if not item.value["closed"]]
        return [{**json.loads(item.value["record"]), "turn_id": item.key} for item in turns]

    async def close_turn(self, thread: str, turn_id: str) -> None:
        kept = await self._get(_space("turns", thread), turn_id)
        if kept is not None:
            await self._put_over(thread, turn_id, {**kept, "closed": True})

    async def _put_over(self, thread: str, turn_id: str, value: dict[str, Any]) -> None:
        """Writes the record of a turn that is over; it and the turn's claims may expire now, where the store can."""
        ttl = OVER_MINUTES if self._store.supports_ttl else None
        space = _space("claims", thread, turn_id)
        claims = [] if ttl is None else await self._all(space)
        puts = [PutOp(space, item.key, item.value, index=False, ttl=ttl) for item in claims]
        await self._store.abatch([*puts, PutOp(_space("turns", thread), turn_id, value, index=False, ttl=ttl)])

    async def forget(self, thread: str, turn_id: str, call_ids: Sequence[str]) -> None:
        await self._drop(_space("claims", thread, turn_id), call_ids)

    async def forget_thread(self, thread: str) -> None:
        [_, _, label] = _space("turns", thread)
        for kind in ("turns", "claims", "input"):
            spaces: list[Namespace] = []
            while page := await self._store.alist_namespaces(
                prefix=("turngraph", kind), limit=_PAGE, offset=len(spaces)
            ):
                spaces.extend(page)
            for space in spaces:
                if space[2] == label or space[2].startswith(f"{label}|"):
                    await self._drop(space, [item.key for item in await self._all(space)])

    async def claim(self, thread: str, turn_id: str, calls: Sequence[ClaimRequest]) -> dict[str, ClaimState]:
        space = _space("claims", thread, turn_id)
        calls = distinct(calls)
        items = await self._store.abatch([GetOp(space, call.call_id) for call in calls])
        found: dict[str, ClaimState] = {}
        puts: list[PutOp] = []
        for call, item in zip(calls, items, strict=True):
            known = None if item is None else item.value  # type: ignore[union-attr]
            if known is None or known["state"] == "paused":
                value = {"name": call.name, "digest": call.digest, "state": "started", "outcome": None}
                puts.append(PutOp(space, call.call_id, value, index=False))
                found[call.call_id] = Fresh()
            else:
                found[call.call_id] = claim_state(known["name"], known["digest"], known["state"], known["outcome"])
        if puts:
            await self._store.abatch(puts)
        return found

    async def settle(self, thread: str, turn_id: str, outcome: CallOutcome) -> None:
        text = to_json(outcome, f"The outcome of the call {outcome['call_id']}")
        space = _space("claims", thread, turn_id)
        kept = await self._get(space, outcome["call_id"]) or {"name": outcome["name"], "digest": "", "outcome": None}
        if kept["outcome"] is None:
            await self._put(space, outcome["call_id"], {**kept, "state": "settled", "outcome": text})

    async def lookup(self, thread: str, turn_id: str) -> dict[str, ClaimState]:
        return {
            item.key: claim_state(item.value["name"], item.value["digest"], item.value["state"], item.value["outcome"])
            for item in await self._all(_space("claims", thread, turn_id))
        }

    async def release(self, thread: str, turn_id: str, call_ids: Sequence[str]) -> None:
        space = _space("claims", thread, turn_id)
        items = await self._store.abatch([GetOp(space, call_id) for call_id in call_ids]) if call_ids else []
        unsettled = [item.key for item in items if item is not None and item.value["outcome"] is None]  # type: ignore[union-attr]
        await self._drop(space, unsettled)

    async def pause(self, thread: str, turn_id: str, call_id: str) -> None:
        space = _space("claims", thread, turn_id)
        kept = await self._get(space, call_id)
        if kept is not None and kept["outcome"] is None:
            await self._put(space, call_id, {**kept, "state": "paused"})

    async def acquire(self, thread: str, owner: str) -> bool:
        kept = await self._get(_space("lease", thread), "lease")
        if kept is not None and kept["owner"] != owner:
            expired = abs(time.time() - kept["beat"]) > EXPIRY_SECONDS
            if not expired and not is_dead(kept["owner"]):
                return False
        await self._put(_space("lease", thread), "lease", {"owner": owner, "beat": time.time()})
        return True

    async def heartbeat(self, thread: str, owner: str) -> bool:
        kept = await self._get(_space("lease", thread), "lease")
        if kept is None or kept["owner"] != owner:
            return False
        await self._put(_space("lease", thread), "lease", {"owner": owner, "beat": time.time()})
        return True

    async def release_lease(self, thread: str, owner: str) -> None:
        kept = await self._get(_space("lease", thread), "lease")
        if kept is not None and kept["owner"] == owner:
            await self._drop(_space("lease", thread), ["lease"])

    async def enqueue(self, thread: str, message: Mapping[str, Any]) -> bool:
        key = message_id(message)
        to_json(dict(message), "A queued message")
        if key in [known for known, _ in await self.queued(thread)]:
            return False
        await self._put(_space("input", thread), key, dict(message))
        return True

    async def queued(self, thread: str) -> list[tuple[str, dict[str, Any]]]:
        found: dict[str, dict[str, Any]] = {}
        for item in await self._all(_space("input", thread)):
            message = _with_id(item)
            found.setdefault(message_id(message), message)
        return list(found.items())

    async def dequeue(self, thread: str, ids: Sequence[str]) -> None:
        items = await self._all(_space("input", thread)) if ids else []
        keys = [item.key for item in items if message_id(_with_id(item)) in ids]
        await self._drop(_space("input", thread), keys)

    async def _drop(self, namespace: Namespace, keys: Sequence[str]) -> None:
        if keys:
            await self._store.abatch([PutOp(namespace, key, None) for key in dict.fromkeys(keys)])


def _space(kind: str, *names: str) -> Namespace:
    """A namespace; a store takes no empty label and none with a dot."""
    return ("turngraph", kind, *(name.replace("%", "%25").replace(".", "%2E") or "%" for name in names))


def _with_id(item: SearchItem) -> dict[str, Any]:
    """A queued message with an id; the item's key where a client wrote none into the message."""
    message = dict(item.value)
    try:
        message_id(message)
    except JournalError:
        data = message.get("data")
        return {**message, "data": {**data, "id": item.key}} if isinstance(data, dict) else {**message, "id": item.key}
    return message
