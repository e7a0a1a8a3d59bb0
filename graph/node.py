"""A node of the drawing: one async function that LangGraph may call sync or async, with its visit opened."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from turngraph.graph.lease import take_lease
from turngraph.graph.loop import run_sync
from turngraph.graph.routes import within_limit
from turngraph.nodes import texts
from turngraph.nodes.parts import TurnParts, Visit, open_visit
from turngraph.nodes.progress import lean
from turngraph.state.channels import Final, Progress, TurnState, Update
from turngraph.state.errors import TurnConflict

NodeFunction = Callable[[TurnState, Visit], Coroutine[Any, Any, Update]]


APPENDED = frozenset({"messages", "anchors", "receipts", "originals", "grants"})
RESET = frozenset({"batch", "answer", "receipt", "structured"})


def changes(state: TurnState, update: Update, always: frozenset[str] = frozenset()) -> Update:
    """The update without what changes nothing (but for `always`): what is written is stored, and makes steps larger."""
    kept = {
        key: value
        for key, value in update.items()
        if not (key in APPENDED and not value) and not (key in RESET - always and not value and not state.get(key))
    }
    return {**kept, "progress": lean(kept["progress"])} if "progress" in kept else kept


def _bounded(state: TurnState, update: Update) -> Update:
    """The update with a way to go on that the caller's recursion limit covers."""
    if "next" not in update.get("progress", {}):
        return update
    progress = update["progress"]
    way = within_limit(progress["next"], state.get("remaining_steps", 10_000))
    return {**update, "progress": {**progress, "next": way}}


def _overtaken(state: TurnState, visit: Visit) -> Update:
    """The run was cancelled before the node had anything to return: the turn goes to its end all the same."""
    final: Final = {"kind": "text", "text": texts.CANCELLED_ANSWER}
    ending: Progress = {"reason": "cancelled", "next": "final", "final": final, "seconds": visit.seconds()}
    batch = state.get("batch")
    return {"progress": {**visit.progress, **ending}, "batch": {**batch, "waiting": []} if batch else None}


class TurnNode(Runnable[TurnState, Update]):
    """Runs `function(state, visit)`. A `cuttable` one is cancelled with its run and returns what it has."""

    def __init__(self, parts: TurnParts, function: NodeFunction, *, cuttable: bool = False) -> None:
        self.name = function.__name__
        self._parts = parts
        self._function = function
        self._cuttable = cuttable
        self._always = frozenset({"structured"} if parts.response_format is not None else ())

    def invoke(self, input: TurnState, config: RunnableConfig | None = None, **kwargs: Any) -> Update:  # noqa: ARG002
        return run_sync(self._run(input))

    async def ainvoke(self, input: TurnState, config: RunnableConfig | None = None, **kwargs: Any) -> Update:  # noqa: ARG002
        return await self._run(input)

    async def _run(self, state: TurnState) -> Update:
        visit = open_visit(self._parts, state)
        scope = visit.scope
        scope.visits += 1
        if scope.nested and scope.held is None and visit.can_pause:
            scope.held = await take_lease(self._parts, visit)
        update = await (self._cut(state, visit) if self._cuttable else self._function(state, visit))
        if scope.lost or not await visit.journal.still_held(visit.thread):
            raise TurnConflict("Another runner took this thread over, because this one was silent for too long.")
        return changes(state, _bounded(state, update), self._always)

    async def _cut(self, state: TurnState, visit: Visit) -> Update:
        """The node in a task that the run's scope can cancel."""
        task: asyncio.Task[Update] = asyncio.create_task(self._function(state, visit))
        visit.scope.enter(task)
        try:
            return await task
        except asyncio.CancelledError:
            here = asyncio.current_task()
            if not visit.scope.cancelled or (here is not None and here.cancelling()):
                raise
            return _overtaken(state, visit)
        finally:
            visit.scope.leave(task)
