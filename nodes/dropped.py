"""Turns inside another graph whose step that graph dropped: what they had said and done comes back with the next turn.

LangGraph drops what a node of an unfinished step wrote as soon as new input comes: a parent that was cancelled, that
waited for an answer, or that died, forgets the turn inside it. The turn itself does not: its record in the journal
says where it stood, and holds its messages if it was cancelled; its own checkpoints hold what it had before that.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage, message_to_dict, messages_from_dict
from langchain_core.runnables import RunnableConfig

from turngraph.nodes.closing import marks_of
from turngraph.nodes.earlier import close_earlier
from turngraph.nodes.parts import Visit, turn_anchor
from turngraph.nodes.place import Place
from turngraph.nodes.progress import whole
from turngraph.state.anchors import TurnAnchor
from turngraph.state.channels import TurnState
from turngraph.state.receipt import TurnReceipt

KEPT = 16
"""Turns of one graph that are remembered at most after their step is over."""

LOOK_BACK = 64
"""Checkpoints of the root that are looked through for the step of an earlier turn."""

Fate = Literal["live", "held", "dropped", "gone"]
"""live: its step is not over. held: the tape has its messages. dropped: it has the question, and no reply to it.
gone: neither; a rolled-back run, another tape, or a reply that the parent gave itself."""


@dataclass
class Dropped:
    """What is to be added to the tape, and whose claims on queued input are void.

    `known` is an anchor of the newest of these turns whose input ends where the parent's tape did.
    """

    messages: list[AnyMessage] = field(default_factory=list)
    anchors: list[TurnAnchor] = field(default_factory=list)
    receipts: list[TurnReceipt] = field(default_factory=list)
    dead: set[str] = field(default_factory=set)
    known: TurnAnchor | None = None


async def enter_place(visit: Visit, place: Place, tape: Sequence[BaseMessage]) -> None:
    """Records that a turn begins here, before it takes anything. `tape` is the parent's."""
    after = tape[-1].id if tape else ""
    record = {"namespace": place.namespace, "steps": dict(place.steps), "after": after}
    await visit.journal.open_turn(place.shelf, _name(place), record)


async def leave_place(visit: Visit, place: Place) -> None:
    """The turn has ended; its parent takes its messages, unless it drops the step for another reason."""
    await visit.journal.update_turn(place.shelf, _name(place), {"ended": True})


async def leave_cancelled(
    visit: Visit, place: Place, messages: Sequence[BaseMessage], receipt: TurnReceipt
) -> None:
    """The turn was cancelled, most likely with its parent: keeps what it adds to the tape until that holds it."""
    record = {
        "messages": [message_to_dict(message) for message in messages],
        "anchor": visit.anchor,
        "receipt": receipt,
    }
    await visit.journal.update_turn(place.shelf, _name(place), record)


def _name(place: Place) -> str:
    return uuid5(NAMESPACE_OID, place.key).hex[:20]


async def find_dropped(visit: Visit, place: Place, state: TurnState) -> Dropped:
    """What earlier turns inside the same graph left, where its tape shows that it was dropped.

    A record goes once a later message from outside stands behind what it held: such a run began from saved
    checkpoints. Until then the same is added again, under the same ids. It goes, too, once a turn of an earlier run
    was told of it and ended well, and the tape still lacks it: that graph takes only the answers of its turns.
    """
    tape, found, over = state.get("messages", []), Dropped(), []
    records = await visit.journal.open_turns(place.shelf)
    unfinished = {record["namespace"] for record in records if not record.get("ended")}
    for record in records:
        fate = fate_of(record, place, tape)
        if fate == "live":
            continue
        if fate == "gone" and await _entered_again(visit, place, record, tape):
            fate = "dropped"
        if await _is_settled(visit, place, record, fate, unfinished, _asked(tape)):
            await visit.journal.close_turn(place.shelf, record["turn_id"])
            continue
        found.dead.add(f"{place.thread}|{record['namespace']}")
        over.append(record)
        if fate == "held" and _followed(record, tape):
            await visit.journal.close_turn(place.shelf, record["turn_id"])
        elif fate == "dropped":
            await _recover(found, visit, place, record, state)
    for record in over[:-KEPT]:
        await visit.journal.close_turn(place.shelf, record["turn_id"])
    return found


async def _is_settled(
    visit: Visit, place: Place, record: Mapping[str, Any], fate: Fate, unfinished: Collection[str], asked: str
) -> bool:
    """Whether there is nothing to bring back: the turn ended and was taken, or one of an earlier run was told of it
    and ended."""
    told = [each for each in record.get("told", []) if each["asked"] != asked]
    if fate == "dropped" and any(each["namespace"] not in unfinished for each in told):
        return True
    return bool(record.get("ended")) and (fate != "dropped" or not await _step_dropped(visit, place, record))


async def _step_dropped(visit: Visit, place: Place, record: Mapping[str, Any]) -> bool:
    """Whether new input came to the root before the step of a turn that ended was complete.

    Its tape cannot say: the turn may have been one whose messages its parent never keeps. The checkpoints can: what
    follows the one that the step worked on is the step's own, or that of an input. False where they are not there.
    """
    saver = visit.config.get("configurable", {}).get("__pregel_checkpointer")
    base = {"thread_id": place.thread, "checkpoint_ns": "", "__pregel_checkpointer": saver}
    worked_on, source, at = record["steps"].get(""), "input", ""
    for _ in range(LOOK_BACK):
        config: RunnableConfig = {"configurable": {**base, "checkpoint_id": at} if at else base}
        saved = None if visit.scope.checkpoint_at is None else await visit.scope.checkpoint_at(config)
        if saved is None:
            return False
        if saved.checkpoint["id"] == worked_on:
            return source != "loop"
        source = saved.metadata.get("source", "")
        at = (saved.parent_config or {}).get("configurable", {}).get("checkpoint_id", "")
        if not at:
            return False
    return False


async def _entered_again(
    visit: Visit, place: Place, record: Mapping[str, Any], tape: Sequence[BaseMessage]
) -> bool:
    """Whether the state of the root was edited while an unfinished turn stood here, and this one takes its place.

    LangGraph gives the node a new task then, which knows nothing of what the old one did. The question is still on
    the tape, and of the root's checkpoints only edits lie between the old step and this one: what stands behind the
    question is theirs.
    """
    same = _names(record["namespace"]) == _names(place.namespace)
    if record.get("ended") or not same or record["after"] not in [message.id for message in tape]:
        return False
    at, saver = place.steps.get("", ""), visit.config.get("configurable", {}).get("__pregel_checkpointer")
    for _ in range(LOOK_BACK):
        there = {"thread_id": place.thread, "checkpoint_ns": "", "checkpoint_id": at, "__pregel_checkpointer": saver}
        read = visit.scope.checkpoint_at
        saved = None if read is None or not at else await read({"configurable": there})
        if saved is None or saved.checkpoint["id"] == record["steps"].get(""):
            return saved is not None
        if saved.metadata.get("source") not in ("update", "fork"):
            return False
        at = (saved.parent_config or {}).get("configurable", {}).get("checkpoint_id", "")
    return False


def _names(namespace: str) -> list[str]:
    """The names of the nodes in a namespace."""
    return [part.partition(":")[0] for part in namespace.split("|")]


def fate_of(record: Mapping[str, Any], place: Place, tape: Sequence[BaseMessage]) -> Fate:
    """What became of a turn, seen from a later one of the same graph.

    The parent adds new input right behind the question of a turn that it dropped; behind that of a turn that it
    took, or answered for itself, stands something else.
    """
    if not place.after(record["steps"]):
        return "live"
    own = {message["data"]["id"] for message in record.get("messages", [])}
    ids = [message.id for message in tape]
    if own and own <= set(ids):
        return "held"
    if record["after"] and record["after"] not in ids:
        return "gone"
    start = ids.index(record["after"]) + 1 if record["after"] else 0
    behind = (message for message in tape[start:] if message.id not in own and not marks_of(message).get("question"))
    return "dropped" if isinstance(next(behind, None), HumanMessage) else "gone"


def _asked(tape: Sequence[BaseMessage]) -> str:
    """The id of the newest question on a tape; another one in another run."""
    return next((m.id or "" for m in reversed(tape) if isinstance(m, HumanMessage) and not marks_of(m)), "")


def _followed(record: Mapping[str, Any], tape: Sequence[BaseMessage]) -> bool:
    """Whether a user's message stands behind everything that the turn wrote."""
    own = {message["data"]["id"] for message in record["messages"]}
    last = max(at for at, message in enumerate(tape) if message.id in own)
    return any(isinstance(message, HumanMessage) and not marks_of(message) for message in tape[last + 1 :])


async def _recover(
    found: Dropped, visit: Visit, place: Place, record: dict[str, Any], state: TurnState
) -> None:
    """Adds what one dropped turn had written."""
    if "messages" in record:
        messages, anchor = messages_from_dict(record["messages"]), cast(TurnAnchor | None, record["anchor"])
        found.receipts.append(record["receipt"])
    else:
        messages, anchor = await _unfinished(found, visit, place, record, state)
    tape = [message.id for message in state.get("messages", [])]
    held = {*tape, *(message.id for message in found.messages)}
    messages = [message for message in messages if message.id not in held]
    if anchor is None or not messages:
        return
    question = anchor["first_message_id"]
    if question in tape:
        found.anchors.append(anchor)
    else:  # it answered queued input alone, which comes back as a part of what was there before
        question = record["after"]
    before = -1 if found.known is None else tape.index(found.known["last_message_id"])
    if record["after"] and before < tape.index(record["after"]):
        found.known = cast(TurnAnchor, {**anchor, "last_message_id": record["after"]})
    asked = _asked(state.get("messages", []))
    told = [*record.get("told", []), {"namespace": place.namespace, "asked": asked}]
    await visit.journal.update_turn(place.shelf, record["turn_id"], {"told": told})
    found.messages.extend(_late(message, anchor["turn_id"], question) for message in messages)


async def _unfinished(
    found: Dropped, visit: Visit, place: Place, record: dict[str, Any], state: TurnState
) -> tuple[list[BaseMessage], TurnAnchor | None]:
    """A turn that never ended: what its own checkpoints hold, its open calls closed as the journal knows of them."""
    key = f"{place.thread}|{record['namespace']}"
    values = cast(TurnState, await _values(visit, place, record["namespace"]))
    opened = {each["turn_id"]: each for each in await visit.journal.open_turns(key)}
    anchor: TurnAnchor | None = turn_anchor(values)
    anchor = anchor or next((each.get("anchor") for each in reversed(opened.values())), None)
    if anchor is None:
        return [], None
    # Without a checkpoint of its own, its question is on the parent's tape only.
    known: TurnState = {**values, "messages": values.get("messages") or state.get("messages", [])}
    inner = replace(visit, thread=key, progress=whole(values.get("progress", {})), anchor=turn_anchor(values))
    earlier = await close_earlier(known, inner, opened)
    found.receipts.extend(earlier.receipts or values.get("receipts", [])[-1:])
    ids = [message.id for message in known["messages"]]
    start = ids.index(anchor["last_message_id"]) + 1 if anchor.get("last_message_id") in ids else len(ids)
    return [*known["messages"][start:], *earlier.messages], anchor


async def _values(visit: Visit, place: Place, namespace: str) -> Mapping[str, Any]:
    """The state that a turn had saved in its place."""
    if visit.scope.values_at is None:
        return {}
    saver = visit.config.get("configurable", {}).get("__pregel_checkpointer")
    there = {"thread_id": place.thread, "checkpoint_ns": namespace, "__pregel_checkpointer": saver}
    return await visit.scope.values_at({"configurable": there})


def _late(message: BaseMessage, turn_id: str, question: str) -> AnyMessage:
    """The message as it is put behind a newer question: marked with the one that its turn answers."""
    marks = {"turn_id": turn_id, "question": question, **marks_of(message)}
    kwargs = {**message.additional_kwargs, "turngraph": marks}
    return cast(AnyMessage, message.model_copy(update={"additional_kwargs": kwargs}))
