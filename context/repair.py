"""Pairs each call with its one result, by turn and call id. Pure and idempotent; the tape is never changed."""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.tool import ToolCall

from turngraph.context import texts
from turngraph.context.facts import Facts, facts_of


@dataclass(frozen=True, slots=True)
class Pairs:
    """`result_at[(message, call)]` is the tape index of the result of the n-th call of a message; `spare` are the
    indexes of tool messages that answer no call, or a call that is answered already."""

    result_at: dict[tuple[int, int], int]
    spare: list[int]


def pair_results(messages: Sequence[BaseMessage], owner: Sequence[int], facts: Sequence[Facts] | None = None) -> Pairs:
    """Gives each tool message to a call of the same id.

    The nearest unanswered call before it in its own turn comes first, then any in its own turn, then, for a result
    that carries no mark of a turn, the nearest unanswered call of another turn. Marked results choose first: chat
    clients send made-up ones ("Successfully handled tool call.") along with a message that answers no pause.
    Law: no call has two results, no result two calls, each tool message is in `result_at` or in `spare`, and no call
    has an unmarked result while a marked one for it is spare.
    """
    known = [facts_of(message) for message in messages] if facts is None else facts
    calls: dict[str, list[tuple[int, int]]] = {}
    for at, each in enumerate(known):
        for position, call_id in enumerate(each.call_ids):
            calls.setdefault(call_id, []).append((at, position))
    result_at: dict[tuple[int, int], int] = {}
    spare: list[int] = []
    results = [(at, each) for at, each in enumerate(known) if each.kind == "result"]
    for marked in (True, False):
        for at, each in results:
            if bool(each.turn_id) is not marked:
                continue
            waiting = [slot for slot in calls.get(each.answers, ()) if slot not in result_at]
            slot = _choose(waiting, at, owner, anywhere=not each.turn_id)
            if slot is None:
                spare.append(at)
            else:
                result_at[slot] = at
    return Pairs(result_at, sorted(spare))


def _choose(
    waiting: Sequence[tuple[int, int]], at: int, owner: Sequence[int], *, anywhere: bool
) -> tuple[int, int] | None:
    """The call that a result at this index answers."""
    if len(waiting) == 1 and owner[waiting[0][0]] == owner[at]:
        return waiting[0]
    own = [slot for slot in waiting if owner[slot[0]] == owner[at]]
    for slots in (own, waiting if anywhere else []):
        if slots:
            return min(slots, key=lambda slot: (slot[0] > at, abs(at - slot[0]), slot[1]))
    return None


def missing_result(message: AIMessage, call: ToolCall) -> ToolMessage:
    """What is sent for a call that has no result on the tape."""
    return ToolMessage(
        content=texts.NOT_ANSWERED,
        tool_call_id=call["id"] or "",
        name=call["name"],
        status="error",
        id=f"missing-{message.id}-{call['id']}",
    )


def with_unique_ids(message: AIMessage, at: int, taken: set[str]) -> AIMessage:
    """The message with call ids that no earlier message uses; itself where they are unique. Adds them to `taken`."""
    ids = [call["id"] or "" for call in message.tool_calls]
    if "" not in ids and taken.isdisjoint(ids) and len(set(ids)) == len(ids):
        taken.update(ids)
        return message
    renamed: dict[int, str] = {}
    for position, call in enumerate(message.tool_calls):
        call_id = call["id"] or ""
        fresh, tries = call_id or f"call-{at}-{position}", 1
        while fresh in taken:
            tries += 1
            fresh = f"{call_id or 'call'}-{tries}"
        taken.add(fresh)
        if fresh != call_id:
            renamed[position] = fresh
    if not renamed:
        return message
    calls = [{**call, "id": renamed.get(n, call["id"])} for n, call in enumerate(message.tool_calls)]
    return message.model_copy(update={"tool_calls": calls, "content": _without_calls(message)})


def _without_calls(message: AIMessage) -> str | list[str | dict[str, object]]:
    """The content without blocks that repeat the calls under their old ids."""
    if isinstance(message.content, str):
        return message.content
    kinds = ("tool_use", "tool_call", "function_call")
    return [block for block in message.content if isinstance(block, str) or block.get("type") not in kinds]
