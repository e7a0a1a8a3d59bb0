"""The words of the journal: claims of calls, what is known of one, and the JSON that it stores."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from turngraph.state.calls import CallOutcome
from turngraph.state.errors import TurnError


class JournalError(TurnError):
    """The journal cannot do what was asked: a value that is not JSON, or a database that it cannot use."""


@dataclass(frozen=True)
class ClaimRequest:
    """One call that is about to run: its id, its tool, and the digest of tool and canonical arguments."""

    call_id: str
    name: str
    digest: str


@dataclass(frozen=True)
class Fresh:
    """Nobody ran this call; the claim is now the caller's."""


@dataclass(frozen=True)
class Started:
    """Somebody claimed this call before and never settled it: its outcome is unknown."""

    name: str
    digest: str


@dataclass(frozen=True)
class Paused:
    """The tool asked a person itself and waits; the call may run again from its top."""

    name: str
    digest: str


@dataclass(frozen=True)
class Settled:
    """The call ended; this is its one outcome."""

    outcome: CallOutcome
    digest: str = field(default="", compare=False)


ClaimState: TypeAlias = Fresh | Started | Paused | Settled
"""What the journal knows of a call. `claim` gives Fresh, Started or Settled; `lookup` Started, Paused or Settled."""


def claim_state(name: str, digest: str, state: str, outcome: str | None) -> Started | Paused | Settled:
    """A stored claim as its closed form."""
    if outcome is not None:
        return Settled(cast(CallOutcome, json.loads(outcome)), digest)
    return Paused(name, digest) if state == "paused" else Started(name, digest)


_OTHER = "~#"


def claim_keys(call_id: str, digest: str) -> tuple[str, str]:
    """The keys that a call may be claimed under: its id, and one of its own where that is another call's.

    An id alone does not name a call for ever: providers repeat theirs, and people edit calls and fork threads.
    """
    return call_id, f"{call_id}{_OTHER}{plain_digest(digest)[:16]}"


def call_id_of(key: str) -> str:
    """The id of the call that is claimed under this key."""
    return key.partition(_OTHER)[0]


def plain_digest(digest: str) -> str:
    """The digest of tool and arguments alone, of a claim that may be one after another of unknown outcome."""
    return digest.partition("-")[0]


def is_claim_of(claim: Started | Paused | Settled, digest: str) -> bool:
    """Whether a claim was made for the call with this digest, and not for another one under the same id."""
    return claim.digest in ("", digest) or plain_digest(claim.digest) == plain_digest(digest)


def distinct(calls: Sequence[ClaimRequest]) -> list[ClaimRequest]:
    """The requests, one for each call id: asked twice for one call, the first counts."""
    return list({call.call_id: call for call in reversed(calls)}.values())[::-1]


def to_json(value: Any, what: str) -> str:
    """JSON text of a value that comes back equal from it. Raises JournalError that says where it is not JSON."""
    try:
        text = json.dumps(value, allow_nan=False)
        if json.loads(text) == value:
            return text
        reason = _not_json(value, "$")
    except (TypeError, ValueError):
        reason = _not_json(value, "$")
    except RecursionError:
        reason = "it is nested too deeply"
    raise JournalError(f"{what} is not plain JSON: {reason or 'it does not come back equal'}.")


def _not_json(value: Any, path: str, inside: tuple[int, ...] = ()) -> str:
    """Where and why a value is not JSON; empty where it is."""
    if id(value) in inside:
        return f"{path} contains itself"
    inside = (*inside, id(value))
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                return f"the key {key!r} at {path} is a {type(key).__name__}"
            if found := _not_json(item, f"{path}.{key}", inside):
                return found
        return ""
    if isinstance(value, list):
        return next((found for at, item in enumerate(value) if (found := _not_json(item, f"{path}[{at}]", inside))), "")
    if value is None or isinstance(value, str | bool | int):
        return ""
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"{path} is {value}, which JSON has no word for"
    return f"{path} is a {type(value).__name__}"


def message_id(message: Mapping[str, Any]) -> str:
    """The id of a message in JSON: of LangChain's `{"type", "data"}` form, or its own `id`. Raises JournalError."""
    data = message.get("data")
    found = (data.get("id") if isinstance(data, Mapping) else None) or message.get("id")
    if not isinstance(found, str) or not found:
        raise JournalError("A queued message needs an id: a non-empty string.")
    return found
