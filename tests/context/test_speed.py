"""The view of a long thread is light work once its texts are counted."""

import time

from tests.context.tapes import long_thread, user
from turngraph.context import view
from turngraph.context.tokens import real_counts
from turngraph.state.settings import TurnSettings


def test_a_thousand_turns():
    """CPU seconds, best of five, with head room for a slow machine: about 20 ms for 2,000 messages on a fast one."""
    messages, anchors = long_thread(1_000, 0, 40)
    settings = TurnSettings(context_window=1_000_000)
    view(messages, anchors, settings)
    before, best = real_counts(), 9.0
    for _ in range(5):
        started = time.process_time()
        view(messages, anchors, settings)
        best = min(best, time.process_time() - started)
    assert real_counts() == before
    assert best < 0.1


def test_a_new_round_counts_only_what_is_new():
    messages, anchors = long_thread(200, 1, 40)
    settings = TurnSettings(context_window=1_000_000)
    view(messages, anchors, settings)
    before = real_counts()
    view([*messages, user("new", "a question that was never counted before")], anchors, settings)
    assert real_counts() - before == 1


def test_work_grows_with_the_tape_not_faster():
    settings = TurnSettings(context_window=1_000_000)

    def seconds(turns: int) -> float:
        messages, anchors = long_thread(turns, 1, 5)
        view(messages, anchors, settings)
        best = 9.0
        for _ in range(4):
            started = time.process_time()
            view(messages, anchors, settings)
            best = min(best, time.process_time() - started)
        return best

    assert seconds(1_600) < 4 * 2.5 * seconds(400)
