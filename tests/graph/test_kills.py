"""Processes killed with SIGKILL at random moments of turns with three effects each; the table of counts is printed."""

import multiprocessing
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.crash_turns import SHAPES, drive, judge, noted

LANES = 2
"""Folders that are worked on at the same time, each with one process at a time."""


@pytest.fixture(scope="module")
def fork() -> Any:
    """Processes that are forked from one that has imported everything and started nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.warm"])
    return context


def start(fork: Any, folder: Path, action: str, chance: random.Random, durability: str) -> Any:
    arguments = (str(folder), action, chance.choice(SHAPES), durability, chance.randrange(1 << 30))
    process = fork.Process(target=drive, args=arguments, daemon=True)
    begun = len(noted(folder, "starts"))
    process.start()
    while len(noted(folder, "starts")) == begun and process.is_alive():
        time.sleep(0.001)
    return process


def _wait_for_the_moment(folder: Path, process: Any, chance: random.Random, whole: float) -> None:
    """Any moment of a run, or (three times of four) one close to the start or the end of a tool: there is most to lose."""
    if chance.random() < 0.25:
        time.sleep(chance.uniform(0, whole))
        return
    more, before = chance.randrange(7), _happened(folder)
    deadline = time.monotonic() + whole
    while _happened(folder) < before + more and process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.0005)
    time.sleep(chance.uniform(0, 0.01))


def _happened(folder: Path) -> int:
    return len(noted(folder, "effects")) + len(noted(folder, "finished"))


def attack(fork: Any, folder: Path, kills: int, durability: str, seed: int) -> tuple[Counter[str], list[str]]:
    """Kills processes on one thread until so many died in the middle, lets the last turn end, and judges."""
    chance, died, counts = random.Random(seed), 0, Counter[str]()
    action = "message"
    process, begun = start(fork, folder, action, chance, durability), time.monotonic()
    while not noted(folder, "ends"):
        assert process.is_alive(), "the first process failed"
        time.sleep(0.001)
    whole = time.monotonic() - begun
    process.join()
    while died < kills:
        process = start(fork, folder, action, chance, durability)
        _wait_for_the_moment(folder, process, chance, whole)
        process.kill()
        process.join()
        if process.exitcode == 0:
            action = "message"
            counts["ended before the kill"] += 1
            continue
        # 255: the fork server could not hand the code of the killed process on.
        assert process.exitcode in (-9, 255), f"the process failed by itself: {process.exitcode}"
        died += 1
        action = chance.choice(("continue", "message"))
        counts[f"kills, then {action}"] += 1
    for action in ("continue", "message"):
        process = start(fork, folder, action, chance, durability)
        process.join(60)
        assert process.exitcode == 0, f"{action} failed: {process.exitcode}"
    judged, broken = judge(folder, checkpoints=durability != "exit")
    return counts + judged, broken


def campaign(fork: Any, tmp_path: Path, kills: int, durability: str, seed: int) -> None:
    """So many kills over several threads of conversation, five each; prints the counts and fails on any broken promise."""
    folders = [tmp_path / f"case-{at}" for at in range(kills // 5)]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(LANES) as lanes:
        work = [lanes.submit(attack, fork, folder, 5, durability, seed + at) for at, folder in enumerate(folders)]
        judged = [each.result() for each in work]
    counts = sum((count for count, _ in judged), Counter())
    print(f"\n{kills} kills, durability={durability}")
    for name, count in sorted(counts.items()):
        print(f"  {name:<28}{count:>6}")
    broken = [f"{folder.name}: {what}" for folder, (_, whats) in zip(folders, judged, strict=True) for what in whats]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(("kills", "durability"), [(10, "async"), (5, "sync"), (5, "exit")])
def test_twenty_kills(fork: Any, tmp_path: Path, kills: int, durability: str) -> None:
    campaign(fork, tmp_path, kills, durability, 1)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("kills", "durability"), [(120, "async"), (50, "sync"), (50, "exit")])
def test_two_hundred_kills(fork: Any, tmp_path: Path, kills: int, durability: str) -> None:
    campaign(fork, tmp_path, kills, durability, 1_000)


@pytest.mark.parametrize(("durability", "then"), [("exit", "again"), ("async", "continue")])
def test_calls_of_a_process_that_died_lend_their_results_to_no_other_calls(
    fork: Any, tmp_path: Path, durability: str, then: str
) -> None:
    for action, dies, code in (("message", 3, -9), (then, 0, 0)):
        process = fork.Process(target=drive, args=(str(tmp_path), action, "rounds", durability, 1, dies), daemon=True)
        process.start()
        process.join(60)
        assert process.exitcode == code
    counts, broken = judge(tmp_path, checkpoints=durability != "exit")
    assert not broken, "\n".join(broken)
    assert counts["result ok"] >= 2
