"""What a visit of a remote turn does next, from what its remote thread holds. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID, uuid4, uuid5

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from turngraph.nodes.closing import marks_of
from turngraph.state.channels import coerce_messages

_NAMESPACE = UUID("0b6f5e0a-6f0e-4a53-9c55-6f3f0f0d6c27")
OWN_THREAD = "__turngraph_own_thread"
"""In the config of a call that gets a remote thread of its own. LangGraph stores no key that begins like this."""

_messages: TypeAdapter[list[AnyMessage]] = TypeAdapter(list[AnyMessage])


@dataclass(frozen=True)
class Pause:
    """A pause of the remote thread that waits for an answer."""

    id: str
    value: Any


@dataclass(frozen=True)
class Seen:
    """The remote thread as it is now. `active`: the run that works or waits there, then nothing else is known.

    `unfinished`: its last run stopped somewhere between start and end, and no answer is waited for.
    """

    active: str | None = None
    values: dict[str, Any] = field(default_factory=dict)
    pauses: tuple[Pause, ...] = ()
    unfinished: bool = False


class Asked(TypedDict):
    """A pause in the state: its id on the server, and its payload or its answer."""

    id: str
    value: Any


@dataclass(frozen=True)
class Join:
    """A run works on the thread: hear it to its end, then look again."""

    run_id: str


@dataclass(frozen=True)
class Run:
    """Start a run: new messages, the answer to a pause, or None to go on where the last run stopped."""

    input: dict[str, Any] | Command[Any] | None


@dataclass(frozen=True)
class Ask:
    """The thread waits for a person."""

    pause: Pause


@dataclass(frozen=True)
class Done:
    """The messages are answered; `messages` is what the caller does not have yet."""

    messages: list[BaseMessage]


Step: TypeAlias = Join | Run | Ask | Done


def next_step(seen: Seen, given: Sequence[BaseMessage], reply: Asked | None, *, ran: bool) -> Step:
    """What is to be done about these messages (each with an id), from what the remote thread holds.

    The thread alone decides, so a call that is made again (a crash, a retry, a resume) finds what the first one did.
    Laws: what is on the thread is not sent again; an answer goes only to the pause that was shown; after a run of
    this visit (`ran`) only answers start another one, so that a visit ends.
    """
    if seen.active is not None:
        return Join(seen.active)
    if reply is not None and any(pause.id == reply["id"] for pause in seen.pauses):
        return Run(Command(resume={reply["id"]: reply["value"]}))
    tape = revived(seen.values.get("messages", []))
    there = {message.id for message in tape}
    unsent = [message for message in given if message.id not in there]
    if unsent and not ran:
        return Run({"messages": unsent})
    if seen.pauses:
        return Ask(seen.pauses[0])
    if seen.unfinished and not ran:
        return Run(None)
    news = news_for(given, tape, seen.values.get("receipts", []))
    if not news and not ran:
        return Run({"messages": []})
    return Done(news)


def news_for(
    given: Sequence[BaseMessage], tape: Sequence[BaseMessage], receipts: Sequence[Mapping[str, Any]]
) -> list[BaseMessage]:
    """What the caller of a finished remote turn does not have, in tape order.

    That is all after its own messages, and before them what turns wrote that were cut off or walked away from since
    its last answer: no output of theirs ever reached it, and results without their calls would make its tape invalid.
    What a finished turn gave, and the caller removed, does not come back.
    """
    mine = {message.id for message in given}
    cut = {each["turn_id"] for each in receipts if each.get("status") in ("cancelled", "error", "abandoned")}
    last = max((at for at, message in enumerate(tape) if message.id in mine), default=-1)
    start = last + 1
    for message in reversed(tape[: last + 1]):
        known = message.id in mine
        if (known and not isinstance(message, HumanMessage)) or not (known or marks_of(message).get("turn_id") in cut):
            break
        start -= 1
    return [message for message in tape[start:] if message.id not in mine]


def revived(messages: Sequence[Any]) -> list[BaseMessage]:
    """The messages of a server's JSON."""
    return list(_messages.validate_python(list(messages)))


@dataclass(frozen=True)
class Place:
    """Where a call is made: the remote thread of it, and what tells it from every other call."""

    thread_id: str
    call: str


def place_of(config: RunnableConfig, assistant: str, *, continues: bool) -> Place:
    """The place of the node that has this config. Law: a call that is made again after a crash has the same place."""
    configurable = config.get("configurable", {})
    thread = str(configurable.get("thread_id") or uuid4())
    namespace = str(configurable.get("checkpoint_ns", "")).split("|")
    outer = "|".join(namespace[:-1])
    call = outer or namespace[-1]
    names = "|".join(part.split(":")[0] for part in namespace[:-1])
    where = names if continues and not configurable.get(OWN_THREAD) else call
    return Place(str(uuid5(_NAMESPACE, f"{thread}\n{where}\n{assistant}")), f"{thread}\n{call}")


def with_ids(messages: Any, call: str) -> list[BaseMessage]:
    """Message-likes as messages, each with an id: its own, or one that follows from the call and the position."""
    items = messages if isinstance(messages, list) else [messages]
    found = []
    for at, item in enumerate(items):
        given = item.get("id") if isinstance(item, dict) else getattr(item, "id", None)
        message = coerce_messages(item)[0]
        found.append(message if given else message.model_copy(update={"id": str(uuid5(_NAMESPACE, f"{call}\n{at}"))}))
    return found
