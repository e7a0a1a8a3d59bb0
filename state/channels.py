"""The state of a turn graph: channels, reducers, and the input, output and private schemas."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypeAlias
from uuid import UUID, uuid5

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    RemoveMessage,
    convert_to_messages,
    message_chunk_to_message,
)
from langgraph.channels.delta import DeltaChannel
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.managed import RemainingSteps
from typing_extensions import TypedDict

from turngraph.state.anchors import Anchor
from turngraph.state.calls import CallOutcome
from turngraph.state.decisions import Decision
from turngraph.state.receipt import ContextReport, ErrorInfo, TurnReceipt, Usage
from turngraph.state.words import StopReason

SNAPSHOT_EVERY = 5_000
"""Updates between full snapshots of an append-only channel; between them each step stores only what is new."""

_NAMESPACE = UUID("6f1d0a52-9c0e-4c1b-8f38-5b2f6f9d4a11")


def coerce_messages(value: Any, position: int = 0) -> list[BaseMessage]:
    """Message-likes (message, dict, string, tuple; one or a list) as messages, each with an id.

    A message-like without an id gets one that follows from its content and `position`, so that a replay of the
    same writes gives the same ids.
    """
    items = value if isinstance(value, list) else [value]
    messages: list[BaseMessage] = []
    for offset, item in enumerate(items):
        message = message_chunk_to_message(item if isinstance(item, BaseMessage) else _from_like(item))
        if not message.id:
            derived = uuid5(_NAMESPACE, f"{position + offset}:{message.type}:{message.content!r}")
            message = message.model_copy(update={"id": str(derived)})
        messages.append(message)
    return messages


def _from_like(item: Any) -> BaseMessage:
    """A message-like as a message. Law: the dump of a message gives that message.

    A server that is asked for a thread's state hands its reducers dumps, and LangChain takes two fields of those for
    `additional_kwargs`.
    """
    message = convert_to_messages([item])[0]
    if not isinstance(item, dict) or not isinstance(message, AIMessage):
        return message
    kwargs = dict(message.additional_kwargs)
    fields = {key: kwargs.pop(key) for key in ("invalid_tool_calls", "usage_metadata") if key in item and key in kwargs}
    return message.model_copy(update={"additional_kwargs": kwargs, **fields})


def reduce_messages(tape: list[AnyMessage] | None, writes: Sequence[Any]) -> list[BaseMessage]:
    """Append new messages, replace by id, honour RemoveMessage (one id, or all).

    Law: `reduce(reduce(t, xs), ys) == reduce(t, xs + ys)`.
    """
    # A snapshot that a server reads to show a thread's state holds dumps, too.
    result: list[BaseMessage | None] = [
        item if isinstance(item, BaseMessage) else _from_like(item) for item in tape or []
    ]
    index = {message.id: at for at, message in enumerate(result) if message is not None}
    for write in writes:
        for message in coerce_messages(write, len(index)):
            if isinstance(message, RemoveMessage):
                if message.id == REMOVE_ALL_MESSAGES:
                    result, index = [], {}
                elif (at := index.pop(message.id, None)) is not None:
                    result[at] = None
            elif (at := index.get(message.id)) is not None:
                result[at] = message
            else:
                index[message.id] = len(result)
                result.append(message)
    return [message for message in result if message is not None]


def _keyed(key: str) -> Callable[[list[Any] | None, Sequence[Any]], list[Any]]:
    """A reducer over records: append, or replace the record of the same key. Same law as `reduce_messages`."""

    def reduce(records: list[Any] | None, writes: Sequence[Any]) -> list[Any]:
        by_key = {record[key]: record for record in records or []}
        for write in writes:
            for record in write if isinstance(write, list) else [write]:
                by_key[record[key]] = record
        return list(by_key.values())

    reduce.__name__ = f"reduce_by_{key}"
    return reduce


reduce_anchors = _keyed("id")
reduce_receipts = _keyed("turn_id")
reduce_originals = _keyed("call_id")


class MessagesChannel(DeltaChannel[Any]):
    """A DeltaChannel of messages that keeps its item type, so that schemas and Studio can draw it."""

    @property
    def ValueType(self) -> Any:
        return list[AnyMessage]

    @property
    def UpdateType(self) -> Any:
        return list[AnyMessage]


Next: TypeAlias = Literal["tools", "again", "forced", "final", "dispatch", "interrupt", "fold"]
"""What the node that just ran decided; the routes only map it to a node."""


class Final(TypedDict):
    """What `finalize` makes the answer of: the finishing round(s) on the tape, or a text that no round produced."""

    kind: Literal["round", "text"]
    text: NotRequired[str]


class BatchEffects(TypedDict, total=False):
    """What the tools of the last batch asked of the turn; consumed by fold_checkpoint."""

    checkpoints: list[dict[str, str]]
    terminate: str


class Progress(TypedDict, total=False):
    """The running turn, checkpointed at every step; starts fresh at the next user message. Kept small."""

    turn_id: str
    phase: Literal["running", "closed"]
    next: Next
    uncounted: int
    """Rounds that events spoke of and `rounds` does not count: failed ones and forced finishes."""
    rounds: int
    tool_calls: int
    tool_errors: int
    interactions: int
    usage: Usage
    seconds: float
    nudges: int
    continuations: int
    cut_batches: int
    overflows: int
    folds: int
    compactions: int
    summary_calls: int
    """Calls made for a summary, those that gave none included."""
    settling: bool
    reason: StopReason
    final: Final
    models: list[str]
    calibration: float
    context: ContextReport
    error: ErrorInfo
    effects: BatchEffects
    loaded: list[str]
    skills: list[str]
    guard: dict[str, Any]
    structured_error: str


class OwnPause(TypedDict):
    """A tool called LangGraph's `interrupt()` itself: its payload, the answers it already got, and whether it has all.

    `ids` are the pauses of a graph that the tool runs; empty for the tool's own.
    """

    payload: Any
    resumes: list[Any]
    ids: list[str]
    answered: bool


class Batch(TypedDict, total=False):
    """A tool batch that waits for a person: kept only while it does."""

    message_id: str
    outcomes: dict[str, CallOutcome]
    decisions: dict[str, Decision]
    waiting: list[str]
    asked: list[str]
    unknown: dict[str, str]
    own: dict[str, OwnPause]
    error: str | None


class Original(TypedDict):
    """The whole text of a result that was cut for the model, stored once."""

    call_id: str
    text: str


class Grant(TypedDict, total=False):
    """A standing grant of this thread; `revoked` ends it."""

    id: str
    tool: str
    scope: Literal["call", "tool"]
    digest: str
    granted_in: str
    revoked: bool


class TurnInput(TypedDict):
    """What a turn takes."""

    messages: Annotated[list[AnyMessage], MessagesChannel(reduce_messages, list, snapshot_frequency=SNAPSHOT_EVERY)]


class TurnOutput(TypedDict, total=False):
    """What a turn gives: the tape, the answer, the receipt, the structured value where one was asked for."""

    messages: Annotated[list[AnyMessage], MessagesChannel(reduce_messages, list, snapshot_frequency=SNAPSHOT_EVERY)]
    answer: str
    receipt: TurnReceipt
    structured: Any


class TurnState(TurnOutput, total=False):
    """The whole state. Everything but `messages`, `answer`, `receipt` and `structured` is private to turngraph."""

    anchors: Annotated[list[Anchor], DeltaChannel(reduce_anchors, list, snapshot_frequency=SNAPSHOT_EVERY)]
    receipts: Annotated[list[TurnReceipt], DeltaChannel(reduce_receipts, list, snapshot_frequency=SNAPSHOT_EVERY)]
    originals: Annotated[list[Original], DeltaChannel(reduce_originals, list, snapshot_frequency=SNAPSHOT_EVERY)]
    grants: Annotated[list[Grant], DeltaChannel(reduce_anchors, list, snapshot_frequency=SNAPSHOT_EVERY)]
    progress: Progress
    batch: Batch | None
    remaining_steps: RemainingSteps


Update: TypeAlias = dict[str, Any]
"""What a node returns: new values for some channels."""
