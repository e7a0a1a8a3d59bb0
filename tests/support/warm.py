"""What processes that are forked by tests need, imported and loaded once: no thread and no connection is started."""

import threading

from tests.support import crash_turns, worker_turns
from turngraph.context.tokens import count_text

__all__ = ["crash_turns", "worker_turns"]

count_text("The vocabulary is read from its file.")
assert threading.active_count() == 1, "a process with threads must not be forked"
