"""Anchors: small append-only records that say how the tape is to be read. Plain JSON.

Every anchor has an `id` (unique in the thread) and a `kind`. What a model is sent is a pure function of tape and
anchors.
"""

from typing import Any, Literal, TypeAlias

from typing_extensions import TypedDict


class TurnAnchor(TypedDict, total=False):
    """A turn starts at `first_message_id`; its own input ends at `last_message_id`.

    `seed` is the turn's volatile text (knowledge blocks, time), rendered inside its first user message for ever.
    `version` is the version of the state that the turn was written in.
    `settings` are the resolved TurnSettings that differ from the defaults; `model` is the resolved model's name.
    """

    id: str
    kind: Literal["turn"]
    version: int
    turn_id: str
    first_message_id: str
    last_message_id: str
    seed: str
    settings: dict[str, Any]
    model: str


class NoteAnchor(TypedDict):
    """An instruction of turngraph to the model, rendered after the message for the rest of this turn only."""

    id: str
    kind: Literal["note"]
    turn_id: str
    after_message_id: str
    text: str


class FoldAnchor(TypedDict, total=False):
    """The rounds of a turn up to and including `through_message_id` leave the view; `text` stands in their place.

    With `message_ids` only those tool results are replaced, each by a short placeholder (an automatic fold).
    `made_after` is the newest message at the time of an automatic fold.
    """

    id: str
    kind: Literal["fold"]
    turn_id: str
    call_id: str
    through_message_id: str
    message_ids: list[str]
    made_after: str
    text: str
    why: str


class TrimAnchor(TypedDict):
    """Whole turns before `before_message_id` leave the view."""

    id: str
    kind: Literal["trim"]
    before_message_id: str
    why: str


class ShortenAnchor(TypedDict):
    """The results in `message_ids` are shown shortened, each to its number of tokens."""

    id: str
    kind: Literal["shorten"]
    tokens: dict[str, int]
    why: str


class SummaryAnchor(TypedDict):
    """Turns before `before_message_id` are replaced by the rolling summary `text`. The newest summary holds."""

    id: str
    kind: Literal["summary"]
    before_message_id: str
    text: str
    why: str


Anchor: TypeAlias = TurnAnchor | NoteAnchor | FoldAnchor | TrimAnchor | ShortenAnchor | SummaryAnchor
