"""A pool of worker processes, the work that is handed to them, and the ones that are killed."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from tests.support.worker_turns import DURABILITIES, MOMENTS, SHAPES, Job, Setting, serve

WORKERS = 4
JOB_SECONDS = 60.0


@dataclass
class Hand:
    """A worker as its pool sees it."""

    process: Any
    pipe: Any
    job: Job | None = None
    since: float = 0.0
    ready: bool = False


@dataclass
class Pool:
    """Worker processes on one database, each replaced when it dies."""

    fork: Any
    folder: Path
    uri: str
    chance: random.Random
    hands: list[Hand] = field(default_factory=list)

    def hire(self, **more: Any) -> Hand:
        """A new worker, ready to work; of both kinds of savers."""
        setting = Setting(str(self.folder), self.uri, self.chance.random() < 0.5, self.chance.randrange(1 << 30))
        for name, value in more.items():
            setattr(setting, name, value)
        mine, theirs = self.fork.Pipe()
        process = self.fork.Process(target=serve, args=(setting, theirs), daemon=True)
        process.start()
        theirs.close()
        hand = Hand(process, mine)
        self.hands.append(hand)
        return hand

    def give(self, hand: Hand, job: Job) -> None:
        hand.job, hand.since = job, time.monotonic()
        hand.pipe.send(asdict(job))

    def dismiss(self) -> None:
        """Lets all workers end by themselves."""
        for hand in self.hands:
            hand.pipe.send(None)
        for hand in self.hands:
            hand.process.join(60)
        self.hands.clear()


@dataclass
class Campaign:
    """Jobs for the workers, what became of each, and who is killed."""

    pool: Pool
    chance: random.Random
    kills: int
    threads: list[str]
    durabilities: tuple[str, ...] = DURABILITIES
    todo: list[list[Job]] = field(default_factory=list)
    """Jobs in order; those of one list are given to as many workers at the same moment."""
    ended: list[tuple[Job, str, str, float, float]] = field(default_factory=list)
    """Each attempt: the job, how it ended, what was said, when it began and ended."""
    counts: Counter[str] = field(default_factory=Counter)
    died: int = 0
    numbers: int = 0
    queuing: set[str] = field(default_factory=set)
    paused: set[str] = field(default_factory=set)
    shots: dict[int, float] = field(default_factory=dict)

    def run(self) -> None:
        for _ in range(WORKERS):
            self.pool.hire()
        while self.died < self.kills or any(self._owed()):
            self._assign()
            self._shoot()
            busy = [hand.pipe for hand in self.pool.hands if hand.job is not None or not hand.ready]
            for pipe in wait(busy, timeout=0.002):
                self._hear(next(hand for hand in self.pool.hands if hand.pipe is pipe))
        self.pool.dismiss()

    def _owed(self) -> Iterator[bool]:
        """Whether work is under way, or a message of a killed worker was not sent again yet."""
        yield any(hand.job is not None for hand in self.pool.hands)
        yield any(job.action in ("again", "queue") for jobs in self.todo for job in jobs)

    def _assign(self) -> None:
        free = [hand for hand in self.pool.hands if hand.ready and hand.job is None]
        while free:
            over = self.died >= self.kills
            if not self.todo and over:
                return
            jobs = self.todo.pop(0) if self.todo else self._invent()
            if len(jobs) > len(free):
                self.todo.insert(0, jobs)
                return
            for job in jobs:
                self._give(free.pop(), job, mortal=not over)

    def _give(self, hand: Hand, job: Job, *, mortal: bool) -> None:
        self.numbers += 1
        job = replace(job, number=self.numbers, moment="", count=0)
        fate = self.chance.random()
        if mortal and fate < 0.35:
            job.moment, job.count = self.chance.choice(MOMENTS), self.chance.choice((0, 0, 1, 2, 4))
        elif mortal and fate < 0.45:
            self.shots[self.numbers] = time.monotonic() + self.chance.uniform(0, 0.15)
        try:
            self.pool.give(hand, job)
        except (BrokenPipeError, ConnectionResetError):  # shot when it had just ended its job
            self.todo.insert(0, [replace(job, moment="")])
            hand.job = None
            self._bury(hand)

    def _shoot(self) -> None:
        """Kills workers at any moment of their job."""
        now = time.monotonic()
        for hand in self.pool.hands:
            if hand.job is not None and self.shots.get(hand.job.number, now + 1) <= now:
                hand.process.kill()
            assert hand.job is None or now - hand.since < JOB_SECONDS, f"{hand.job} hangs"

    def _invent(self) -> list[Job]:
        """What comes next: one job, or two or three that meet on one thread at the same moment."""
        chance, thread = self.chance, self.chance.choice(self.threads)
        names = ("message", "queue", "continue", "pickup", "resume", "messages", "resumes", "same", "mixture")
        if thread in self.paused:
            action = chance.choices(names, (1, 3, 1, 1, 4, 1, 8, 0, 4))[0]
        else:
            action = chance.choices(names, (30, 12, 6, 4, 1, 5, 1, 2, 5))[0]
        base = Job(thread, action, durability=chance.choice(self.durabilities), steer=chance.random() < 0.5)
        match action:
            case "message":
                return [self._message(base)]
            case "queue" if thread in self.queuing:
                return [replace(base, action="pickup")]
            case "queue":
                self.queuing.add(thread)
                return [self._message(base)]
            case "messages":
                return [self._message(base) for _ in range(2)]
            case "resumes":
                return [replace(base, action="resume") for _ in range(chance.choice((2, 3)))]
            case "same":
                return [self._message(base)] * 2
            case "mixture":
                others = [replace(base, action=each) for each in ("resume", "continue", "pickup")]
                return [self._message(base), *chance.sample(others, 2)]
            case _:
                return [base]

    def _message(self, base: Job) -> Job:
        self.numbers += 1
        action = base.action if base.action in ("message", "queue") else "message"
        return replace(base, action=action, message=f"m{self.numbers}", shape=self.chance.choice(SHAPES))

    def _hear(self, hand: Hand) -> None:
        try:
            how, said = hand.pipe.recv()
        except (EOFError, ConnectionResetError):
            self._bury(hand)
            return
        if how == "ready":
            hand.ready = True
            return
        assert hand.job is not None
        self._note(hand, how, said)

    def _note(self, hand: Hand, how: str, said: str) -> None:
        job, hand.job = hand.job, None
        assert job is not None
        self.ended.append((job, how, said, hand.since, time.monotonic()))
        self.counts[f"{'message' if job.action == 'again' else job.action}: {how}"] += 1
        if how in ("paused", "done") and job.action != "queue":
            (self.paused.add if how == "paused" else self.paused.discard)(job.thread)
        if job.action == "again" and how == "conflict":
            self.todo.append([job])
        if job.action == "queue":
            self.queuing.discard(job.thread)

    def _bury(self, hand: Hand) -> None:
        """A worker died: another takes its place; what it was sent to say is said again under the same id."""
        hand.process.join()
        assert hand.process.exitcode == -9, f"a worker failed by itself: {hand.process.exitcode}, {hand.job}"
        self.pool.hands.remove(hand)
        self.died += 1
        job = hand.job
        if job is not None:
            self.counts["killed at " + (job.moment or "any moment")] += 1
            self.ended.append((job, "killed", "", hand.since, time.monotonic()))
            if job.action in ("message", "again"):
                self.todo.append([replace(job, action="again")])
            elif job.action == "queue":
                self.todo.append([job])
            elif self.chance.random() < 0.7:
                self.todo.append([replace(job, action=self.chance.choice(("continue", "resume")))])
        self.pool.hire()
