"""Pauses: what a person is asked, and the answers that exist. Plain JSON, as it is stored and sent."""

from typing import Any, Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict


class ActionRequest(TypedDict):
    """One call as LangChain's human-in-the-loop UIs draw it."""

    name: str
    args: dict[str, Any]
    description: str


class ReviewConfig(TypedDict):
    """The decisions that those UIs may offer for one call: approve, edit, reject, respond."""

    action_name: str
    allowed_decisions: list[str]


class PendingRequest(TypedDict):
    """Our own fields of one request, parallel to `action_requests`."""

    call_id: str
    kind: Literal["permission", "ask_user"]
    digest: str
    questions: NotRequired[list[dict[str, Any]]]
    extra_decisions: list[str]


class TurnPayload(TypedDict):
    version: int
    turn_id: str
    error: str | None
    requests: list[PendingRequest]


class PausePayload(TypedDict):
    """The value of the one interrupt of a batch, in call order."""

    action_requests: list[ActionRequest]
    review_configs: list[ReviewConfig]
    turngraph: TurnPayload


class Approve(TypedDict):
    type: Literal["approve"]


class EditedAction(TypedDict):
    name: str
    args: dict[str, Any]


class Edit(TypedDict):
    type: Literal["edit"]
    edited_action: EditedAction


class Reject(TypedDict):
    type: Literal["reject"]
    message: str


class Always(TypedDict):
    """Approve, and grant the same from now on: scope `call` is tool and exact arguments, `tool` is the tool."""

    type: Literal["always"]
    scope: Literal["call", "tool"]


class Respond(TypedDict, total=False):
    """The person answers in the tool's place: `message`, or `answers` by question id for ask_user."""

    type: Literal["respond"]
    message: str
    answers: dict[str, str | list[str]]


class Abandon(TypedDict):
    type: Literal["abandon"]


Decision: TypeAlias = Approve | Edit | Reject | Always | Respond | Abandon
