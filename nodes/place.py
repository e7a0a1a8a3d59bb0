"""Where a turn stands inside another graph: the thread, the graph around it, and the step of that graph. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Place:
    """A turn that runs in a node of another graph.

    `thread` is the id of the whole run's thread, `graph` the path of the graph around the turn by names of nodes (""
    for the root), `namespace` the turn's own place in the checkpoints, the same again only where its task is resumed.
    `steps` are the checkpoints, by namespace, that the graphs around it work on.
    """

    thread: str
    graph: str
    namespace: str
    steps: dict[str, str]

    @property
    def key(self) -> str:
        """The turn's key in the journal."""
        return f"{self.thread}|{self.namespace}"

    @property
    def shelf(self) -> str:
        """The journal's key of what turns inside that graph leave for later ones."""
        return f"{self.thread}|inside:{self.graph}"

    @property
    def told(self) -> str:
        """The steps as text, for `after`."""
        return json.dumps(self.steps, sort_keys=True)

    def after(self, steps: Mapping[str, str]) -> bool:
        """Whether the step in which another turn ran is over, however it ended: a graph around both has gone on."""
        return any(self.steps[name] != steps[name] for name in self.steps.keys() & steps.keys())


def place_of(configurable: Mapping[str, Any]) -> Place | None:
    """The place of the turn whose node has this `configurable`; None for a turn that is a run of its own."""
    thread, parts = configurable.get("thread_id"), str(configurable.get("checkpoint_ns", "")).split("|")[:-1]
    if not thread or not parts:
        return None
    namespace = "|".join(parts)
    # A node that calls several graphs gives the second and later ones a number of their own.
    names = [part.partition(":")[0] for part in parts if not part.isdigit()]
    steps = {name: str(at) for name, at in (configurable.get("checkpoint_map") or {}).items() if name != namespace}
    return Place(str(thread), "|".join(names[:-1]), namespace, steps)
