"""CallAssembler: the fragments of streamed tool calls, put together as the calls that the model made."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from turngraph.llm.json_scanner import JsonScanner

Payload: TypeAlias = str | Mapping[str, Any] | list[Any] | None
"""Arguments as a provider sends them: text, or a value that is parsed already."""

Index: TypeAlias = int | str | None


@dataclass(frozen=True)
class CallFragment:
    """One delta of one tool call, as it came. Each field may be absent, empty or repeated."""

    index: Index = None
    id: str | None = None
    name: str | None = None
    arguments: Payload = None


@dataclass(frozen=True)
class RawCall:
    """One tool call as the model wrote it; nothing in it is checked. Text arguments are joined, never changed."""

    id: str | None
    name: str | None
    arguments: Payload


@dataclass
class _Building:
    """A call that is still arriving: its text so far and where that text stands, or a value that came parsed."""

    index: Index
    id: str | None = None
    name: str | None = None
    text: list[str] = field(default_factory=list)
    size: int = 0
    value: Mapping[str, Any] | list[Any] | None = None
    scanner: JsonScanner = field(default_factory=JsonScanner)

    @property
    def begun(self) -> bool:
        return self.value is not None or self.scanner.extent != "blank"

    @property
    def whole(self) -> bool:
        return self.value is not None or self.scanner.extent in ("whole", "stray")

    @property
    def arguments(self) -> Payload:
        if self.value is not None:
            return self.value
        return "".join(self.text) if self.text else None

    @property
    def placeholder(self) -> bool:
        """True for an empty object, which some providers send ahead of the arguments themselves."""
        if self.value is not None:
            return not self.value
        return self.scanner.extent == "whole" and self.size < 16 and "".join("".join(self.text).split()) == "{}"

    def begins_next(self, payload: Payload) -> bool:
        """True where the payload cannot be more of what this call, being whole, has."""
        if payload is None or (isinstance(payload, str) and not payload.strip()):
            return False
        if self.value is not None or not isinstance(payload, str):
            return self.whole
        return self.scanner.opens_next(payload, 0)

    def repeated_by(self, call_id: str | None, payload: Payload) -> bool:
        """True for a whole payload sent once more under its own id: a closing summary, not a second call."""
        if call_id is None or call_id != self.id or self.placeholder or not self.begins_next(payload):
            return False
        held = self.arguments
        if isinstance(payload, str) and isinstance(held, str):
            return payload.strip() == held.strip()
        return not isinstance(payload, str) and not isinstance(held, str) and payload == held

    def clear(self) -> None:
        self.text, self.size, self.value, self.scanner = [], 0, None, JsonScanner()


class CallAssembler:
    """Fragments in, calls out, in the order in which the calls began.

    A fragment belongs to the call with its id, else to the last one at its index, else to the last one fed. It
    opens a new call instead where it carries an id of its own, another name, or a payload after a whole one; a
    payload glued to a whole one, with no name of its own, is one more call of the same tool.
    Names are never joined, the last one that is not blank holds: providers that repeat the full name in each chunk
    are common, and one that cuts a name in pieces gets "unknown tool", never another tool.
    Not taken for calls: a random id on each nameless chunk of one index, an empty object sent ahead of the
    arguments, and a whole payload repeated under its own id.

    Law: however the text of the same calls is cut into fragments, the calls are the same. Time and memory grow
    linearly with the text.
    """

    def __init__(self) -> None:
        self._calls: list[_Building] = []
        self._by_id: dict[str, _Building] = {}
        self._by_index: dict[int | str, _Building] = {}
        self._last: _Building | None = None

    def feed(self, fragment: CallFragment) -> None:
        """Takes the next fragment. Never raises for what a provider put in it."""
        index, call_id, name = _index(fragment.index), _given(fragment.id), _given(fragment.name)
        payload = fragment.arguments
        if payload is not None and not isinstance(payload, str | Mapping | list):
            payload = json.dumps(payload, default=str)
        call = self._owner(index, call_id, name)
        if call is not None and call.repeated_by(call_id, payload):
            self._last = call
            return
        if call is None:
            call = self._open(index, call_id, name)
        elif _opens(call, index, call_id, name, payload):
            same_tool = call_id is None or call_id == call.id
            call = self._open(index, call_id, name or (call.name if same_tool else None))
        else:
            self._label(call, index, call_id, name)
        if isinstance(payload, str):
            self._add_text(call, payload)
        elif payload is not None:
            call.clear()
            call.value = payload

    def finish(self) -> list[RawCall]:
        """The calls so far. An entry that never had an id, a name or arguments is noise and left out."""
        return [
            RawCall(call.id, call.name, call.arguments)
            for call in self._calls
            if call.id is not None or call.name is not None or call.begun
        ]

    def _owner(self, index: Index, call_id: str | None, name: str | None) -> _Building | None:
        """The call that the fragment would continue."""
        here = self._by_index.get(index) if index is not None else None
        if call_id is not None and (known := self._by_id.get(call_id)) is not None:
            if here is not None and here.id == call_id:
                return here
            # The same id at another index, with a name again: a second call whose id collides.
            return known if index is None or known.index is None or name is None else None
        if index is None:
            return self._last
        if here is not None:
            return here
        # A call that was opened without an index may get one later; a fragment with a label opens its own.
        last = self._last
        return last if last is not None and last.index is None and name is None and call_id is None else None

    def _open(self, index: Index, call_id: str | None, name: str | None) -> _Building:
        call = _Building(index)
        self._calls.append(call)
        self._label(call, index, call_id, name)
        return call

    def _label(self, call: _Building, index: Index, call_id: str | None, name: str | None) -> None:
        if index is not None:
            call.index = index
            self._by_index[index] = call
        if call_id is not None:
            call.id = call.id or call_id
            self._by_id[call_id] = call
        call.name = name or call.name
        self._last = call

    def _add_text(self, call: _Building, text: str) -> None:
        at = 0
        while at < len(text):
            if call.value is not None:
                if not text.strip():
                    return
                call.clear()
            elif call.scanner.opens_next(text, at):
                if call.placeholder:
                    call.clear()
                else:
                    call = self._open(call.index, None, call.name)
            end = call.scanner.feed(text, at)
            call.text.append(text[at:end])
            call.size += end - at
            at = end


def _opens(call: _Building, index: Index, call_id: str | None, name: str | None, payload: Payload) -> bool:
    """True where the fragment opens a call of its own although `call` stands at its place."""
    begins = call.begins_next(payload)
    if call_id is not None and call.id is not None and call_id != call.id:
        return name is not None or index is None or begins
    if begins:
        return not (call.placeholder and (name is None or call_id is not None))
    if name is None or call.name is None or name == call.name:
        return False
    return call.whole or call_id is None or call_id != call.id


def _index(raw: Index) -> Index:
    """An index as number where it is one (`"0"` is 0); blank and negative ones are none."""
    if raw is None or isinstance(raw, bool):
        return None
    if isinstance(raw, int):
        return raw if raw >= 0 else None
    text = str(raw).strip()
    return int(text) if text.isdecimal() and len(text) < 10 else text or None


def _given(text: str | None) -> str | None:
    """A name or id that says something: None for null, blank, and the word null."""
    stripped = "" if text is None else str(text).strip()
    return stripped if stripped not in ("", "null") else None
