"""Tool calls as they are stored: what was asked, what is wrong with it, how it ended. Plain JSON."""

from typing import Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from turngraph.state.words import FinishKind, ToolStatus

ProblemCode: TypeAlias = Literal["unknown_tool", "bad_arguments", "cut_off"]


class CallProblem(TypedDict):
    """Why a call cannot run, in the words that the model is told."""

    code: ProblemCode
    text: str


class Call(TypedDict):
    """One normalised tool call: unique id, a name, a JSON object as arguments."""

    id: str
    name: str
    args: dict[str, Any]


class CallOutcome(TypedDict):
    """How one call ended; becomes its one tool message. `effects` is consumed by fold_checkpoint, never on the tape."""

    call_id: str
    name: str
    status: ToolStatus
    content: str | list[str | dict[str, Any]]
    seconds: float
    artifact: NotRequired[Any]
    effects: NotRequired[dict[str, Any]]
    full: NotRequired[str]
    """The whole text, where `content` was cut to head and tail."""
    update: NotRequired[dict[str, Any]]


class Marks(TypedDict, total=False):
    """`additional_kwargs["turngraph"]` of a message that turngraph wrote."""

    turn_id: str
    round: int
    role: str
    """narration | finish | part (of a continued answer) | partial (broken off) | empty | tool | answer (a person's)"""
    question: str
    """The first message of the turn, where the message stands behind a newer one on the tape."""
    cut: str
    """cancelled | max_seconds | broken: why the text of this message stops where it does."""
    finish: FinishKind
    problems: dict[str, CallProblem]
    status: ToolStatus
