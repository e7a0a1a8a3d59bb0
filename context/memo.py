"""Remembers what was made of an object for as long as the object lives. An edited message is another object."""

from typing import Any, Generic, TypeVar
from weakref import ref

V = TypeVar("V")


class _Ref(ref):  # type: ignore[type-arg]
    """A weak reference that knows under which key it stands: a closure for each would cost more than the rest."""

    __slots__ = ("key",)
    key: int


class Memo(Generic[V]):
    """Values by the identity of an object. It keeps no object alive, so its size is that of the tapes in memory.

    A value must not refer to its own object, which would then live for ever. Objects that take no weak references
    are not remembered. Safe for threads: each step is one operation of a dict.
    """

    __slots__ = ("_gone", "_known")

    def __init__(self) -> None:
        self._known: dict[int, tuple[_Ref, V]] = {}
        known = self._known

        def gone(dead: Any) -> None:
            # The id may belong to a newer object by now.
            if (entry := known.get(dead.key)) is not None and entry[0] is dead:
                del known[dead.key]

        self._gone = gone

    def get(self, thing: object) -> V | None:
        """What was put for this very object, or None."""
        entry = self._known.get(id(thing))
        return entry[1] if entry is not None and entry[0]() is thing else None

    def put(self, thing: object, value: V) -> V:
        """Remembers the value and gives it back."""
        try:
            made = _Ref(thing, self._gone)
        except TypeError:
            return value
        made.key = id(thing)
        self._known[made.key] = (made, value)
        return value

    def __len__(self) -> int:
        return len(self._known)
