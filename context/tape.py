"""Reads tape and anchors into turns of units: an assistant message with all its results is one, never split."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    BaseMessageChunk,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_chunk_to_message,
)

from turngraph.context.repair import Pairs, missing_result, pair_results, with_unique_ids
from turngraph.context.turns import TurnSpan, find_turns, keys_of, marks_of
from turngraph.state.anchors import Anchor


@dataclass(slots=True)  # not frozen: one is made for each message of each view, at a third of the cost
class Entry:
    """A message and the key that reports name it by; `index` is its place on the tape, -1 for one that repair made."""

    key: str
    index: int
    message: BaseMessage


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


def is_answer(message: BaseMessage) -> bool:
    """Whether a tool message holds what a person answered; such text is never shortened or folded."""
    if not isinstance(message, ToolMessage):
        return False
    return message.name == "ask_user" or marks_of(message).get("role") == "answer"


def read_tape(messages: Sequence[BaseMessage], anchors: Iterable[Anchor]) -> Tape:
    """The tape in sendable order. Law: each message is in exactly one of a unit, `systems` and `spare`."""
    plain = [_plain(message) for message in messages]
    keys = keys_of(plain)
    turns = find_turns(plain, keys, anchors)
    pairs = pair_results(plain, turns.owner)
    tape = Tape([Turn(span, []) for span in turns.spans], [], [], keys, {k: n for n, k in enumerate(keys)}, turns.owner)
    taken: set[str] = set()
    for at, message in enumerate(plain):
        entry = Entry(keys[at], at, message)
        match message:
            case SystemMessage():
                tape.systems.append(entry)
            case AIMessage():
                tape.turns[turns.owner[at]].units.append(_unit(entry, message, plain, keys, pairs, taken))
            case HumanMessage():
                tape.turns[turns.owner[at]].units.append(Unit(entry))
            case ToolMessage():
                pass
            case _:
                tape.spare.append(entry)
    tape.spare.extend(Entry(keys[at], at, plain[at]) for at in pairs.spare)
    return tape


def _unit(
    entry: Entry,
    message: AIMessage,
    messages: Sequence[BaseMessage],
    keys: Sequence[str],
    pairs: Pairs,
    taken: set[str],
) -> Unit:
    """The unit of an assistant message: ids made unique, each call with its result, real or stated as missing."""
    if not message.tool_calls:
        return Unit(entry)
    unique = with_unique_ids(message, entry.index, taken)
    results: list[Entry] = []
    for position, call in enumerate(unique.tool_calls):
        at = pairs.result_at.get((entry.index, position))
        if at is None:
            made = missing_result(unique, call)
            results.append(Entry(made.id or "", -1, made))
            continue
        result = messages[at]
        update = {
            field: value
            for field, value in (("tool_call_id", call["id"]), ("name", result.name or call["name"]))
            if getattr(result, field) != value
        }
        results.append(Entry(keys[at], at, result.model_copy(update=update) if update else result))
    return Unit(Entry(entry.key, entry.index, unique), tuple(results))


_ROLES: dict[str, type[BaseMessage]] = {"system": SystemMessage, "developer": SystemMessage, "assistant": AIMessage}


def _plain(message: BaseMessage) -> BaseMessage:
    """A message of one of the four kinds, where it is a chunk or names its role in words."""
    if isinstance(message, BaseMessageChunk):
        message = message_chunk_to_message(message)
    if isinstance(message, ChatMessage):
        kind = _ROLES.get(message.role, HumanMessage)
        return kind(content=message.content, id=message.id, additional_kwargs=message.additional_kwargs)
    return message
