"""Reads tape and anchors into turns of units: an assistant message with all its results is one, never split."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage

from turngraph.context.facts import Facts, facts_of
from turngraph.context.repair import Pairs, missing_result, pair_results, with_unique_ids
from turngraph.context.turns import TurnSpan, find_turns, keys_of
from turngraph.state.anchors import Anchor


@dataclass(slots=True)  # not frozen: one is made for each message of each view, at a third of the cost
class Entry:
    """A message and the key that reports name it by; `index` is its place on the tape, -1 for one that repair made."""

    key: str
    index: int
    message: BaseMessage
    facts: Facts


@dataclass(slots=True)
class Unit:
    """A message that stands alone, or an assistant message with the result of each of its calls, in call order."""

    head: Entry
    results: tuple[Entry, ...] = ()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The messages of the unit in the order in which they are sent."""
        return (self.head, *self.results)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: its span and its units in the order in which they are sent."""

    span: TurnSpan
    units: list[Unit]


@dataclass(frozen=True, slots=True)
class Tape:
    """A tape as turns. `systems` are system messages from anywhere on it; `spare` are messages that cannot be sent."""

    turns: list[Turn]
    systems: list[Entry]
    spare: list[Entry]
    keys: list[str]
    place: dict[str, int]
    owner: list[int]
    facts: list[Facts]


def read_tape(messages: Sequence[BaseMessage | AnyMessage], anchors: Iterable[Anchor]) -> Tape:
    """The tape in sendable order. Law: each message is in exactly one of a unit, `systems` and `spare`."""
    facts = [facts_of(message) for message in messages]
    plain: list[BaseMessage] = [each.plain or message for each, message in zip(facts, messages, strict=True)]
    keys = keys_of(plain)
    turns = find_turns(plain, keys, anchors, facts)
    pairs = pair_results(plain, turns.owner, facts)
    place = {key: at for at, key in enumerate(keys)}
    tape = Tape([Turn(span, []) for span in turns.spans], [], [], keys, place, turns.owner, facts)
    entries = [Entry(key, at, plain[at], facts[at]) for at, key in enumerate(keys)]
    taken: set[str] = set()
    for at, entry in enumerate(entries):
        match entry.facts.kind:
            case "assistant":
                unit = _unit(entry, entries, pairs, taken) if entry.facts.call_ids else Unit(entry)
                tape.turns[turns.owner[at]].units.append(unit)
            case "user":
                tape.turns[turns.owner[at]].units.append(Unit(entry))
            case "system":
                tape.systems.append(entry)
            case "other":
                tape.spare.append(entry)
    tape.spare.extend(entries[at] for at in pairs.spare)
    return tape


def _unit(entry: Entry, entries: Sequence[Entry], pairs: Pairs, taken: set[str]) -> Unit:
    """The unit of a message with calls: ids made unique, each call with its result, real or stated as missing."""
    message = entry.message
    assert isinstance(message, AIMessage)
    unique = with_unique_ids(message, entry.index, taken)
    results: list[Entry] = []
    for position, call in enumerate(unique.tool_calls):
        at = pairs.result_at.get((entry.index, position))
        if at is None:
            made = missing_result(unique, call)
            results.append(Entry(made.id or "", -1, made, facts_of(made)))
        else:
            results.append(_answering(entries[at], call["id"], call["name"]))
    head = entry if unique is message else Entry(entry.key, entry.index, unique, facts_of(unique))
    return Unit(head, tuple(results))


def _answering(result: Entry, call_id: str | None, name: str) -> Entry:
    """The result under the id of its call, named."""
    message = result.message
    assert isinstance(message, ToolMessage)
    if message.tool_call_id == call_id and message.name:
        return result
    made = result.facts.answering
    if made is None or made.name != (message.name or name) or made.tool_call_id != call_id:
        made = message.model_copy(update={"tool_call_id": call_id, "name": message.name or name})
        result.facts.answering = made
    return Entry(result.key, result.index, made, facts_of(made))
