"""A turn that a tool of another turn runs: its own settings, under the outer turn's permissions."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from turngraph.state.settings import TurnSettings


@dataclass(frozen=True)
class Outer:
    """The turn whose tool runs: its run's context object, and the settings in force."""

    context: Any
    settings: TurnSettings

    def floor(self) -> TurnSettings:
        """What holds for every turn inside, too: the permissions, and nothing of the outer turn's own ways."""
        return TurnSettings(permission_mode=self.settings.permission_mode, permissions=dict(self.settings.permissions))


_outer: ContextVar[Outer | None] = ContextVar("turngraph_outer_turn", default=None)


def enter_tools(context: Any, settings: TurnSettings) -> None:
    """Says, to what the current context starts, that it runs inside a tool of a turn with these settings."""
    _outer.set(Outer(context, settings))


_asked: ContextVar[bool] = ContextVar("turngraph_asked_by_a_tool", default=False)


@contextlib.contextmanager
def answering_only() -> Iterator[None]:
    """Says, to what the block starts, that it answers the one question of a tool's call."""
    token = _asked.set(True)
    try:
        yield
    finally:
        _asked.reset(token)


def is_asked() -> bool:
    """Whether this turn only answers the question of a tool's call."""
    return _asked.get()


def outer_turn() -> Outer | None:
    """The turn whose tool this code runs in; None outside of any."""
    return _outer.get()
