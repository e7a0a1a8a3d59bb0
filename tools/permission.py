"""May this call run? The order of the rules, standing grants, and what a resume may tighten. Pure."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from turngraph.state.channels import Grant
from turngraph.state.errors import InputError
from turngraph.state.settings import TurnSettings
from turngraph.state.words import Permission, PermissionMode
from turngraph.tools.policy import ToolPolicy

_STRICTNESS: dict[Permission, int] = {"allow": 0, "ask": 1, "deny": 2}
_MODE_STRICTNESS: dict[PermissionMode, int] = {"full_access": 0, "declared": 1, "ask_all": 2}

_BUDGETS = (
    "max_rounds",
    "settlement_rounds",
    "max_continuations",
    "max_tool_calls",
    "max_tokens",
    "max_seconds",
    "max_output_tokens",
    "max_tool_output_tokens",
    "max_parallel_tools",
    "max_retries",
    "tool_timeout",
)
"""Settings where less is stricter and None is no bound."""


def canonical_args(args: Mapping[str, Any]) -> str:
    """Arguments as one JSON text. Law: equal JSON objects give equal texts, whatever the order of their keys."""
    return json.dumps(args, sort_keys=True, separators=(",", ":"), default=str)


def digest(name: str, args: Mapping[str, Any]) -> str:
    """sha256 (hex) of tool and canonical arguments: what an approval is bound to."""
    # canonical JSON holds no line break, so the last one divides name and arguments without doubt
    return hashlib.sha256(f"{name}\n{canonical_args(args)}".encode("utf-8", "surrogatepass")).hexdigest()


def decide_permission(
    name: str, args: Mapping[str, Any], policy: ToolPolicy, settings: TurnSettings, grants: Iterable[Grant]
) -> Permission:
    """Whether a call may run, must be asked for, or is refused.

    The declaration; `settings.permissions[name]` in its place; then the mode (`ask_all`: allow becomes ask,
    `full_access`: ask becomes allow); standing grants last, from ask to allow only and never under `ask_all`.
    Law: a `deny` in declaration or settings always wins.
    """
    declared, set_by_caller = policy.permission, settings.permissions.get(name)
    if "deny" in (declared, set_by_caller):
        return "deny"
    permission = set_by_caller or declared
    match settings.permission_mode:
        case "ask_all":
            return "ask"
        case "full_access":
            return "allow"
        case "declared":
            return "allow" if permission == "ask" and is_granted(name, args, grants) else permission


def is_granted(name: str, args: Mapping[str, Any], grants: Iterable[Grant]) -> bool:
    """Whether a standing grant that was not revoked covers exactly this call, or every call of this tool."""
    for grant in grants:
        if grant.get("revoked") or grant.get("tool") != name:
            continue
        match grant.get("scope"):
            case "tool":
                return True
            case "call" if grant.get("digest") == digest(name, args):
                return True
    return False


def make_grant(name: str, args: Mapping[str, Any], scope: Literal["call", "tool"], turn_id: str) -> Grant:
    """The standing grant that a person gave. Its id follows from what it covers: given twice, it is one grant."""
    covered = digest(name, args)
    identity = f"{scope}\n{name}\n{covered if scope == 'call' else ''}"
    grant: Grant = {
        "id": f"grant-{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()[:20]}",
        "tool": name,
        "scope": scope,
        "granted_in": turn_id,
        "revoked": False,
    }
    return {**grant, "digest": covered} if scope == "call" else grant


def revoke(grants: Sequence[Grant], grant_id: str) -> list[Grant]:
    """The grants with one of them ended. Raises InputError for an id that no standing grant has."""
    standing = [grant["id"] for grant in grants if not grant.get("revoked")]
    if grant_id not in standing:
        raise InputError(f"No standing grant has the id {grant_id!r}. Standing: {', '.join(standing) or 'none'}.")
    return [{**grant, "revoked": True} if grant["id"] == grant_id else grant for grant in grants]


def tighten(recorded: TurnSettings, given: TurnSettings) -> TurnSettings:
    """The recorded settings, tightened by what a context given on resume sets explicitly; all else of it is ignored.

    Laws: no call is allowed more than before, no budget grows, and `tighten(s, s) == s`.
    """
    said = given.model_fields_set
    changes: dict[str, Any] = {}
    for field in _BUDGETS:
        if field in said and (bound := getattr(given, field)) is not None:
            before = getattr(recorded, field)
            changes[field] = bound if before is None else min(before, bound)
    if "permission_mode" in said:
        changes["permission_mode"] = max(
            recorded.permission_mode, given.permission_mode, key=_MODE_STRICTNESS.__getitem__
        )
    if "permissions" in said:
        changes["permissions"] = _stricter(recorded.permissions, given.permissions)
    if "enabled_tools" in said and given.enabled_tools is not None:
        before = recorded.enabled_tools
        changes["enabled_tools"] = [name for name in given.enabled_tools if before is None or name in before]
    return recorded.model_copy(update=changes)


def _stricter(recorded: Mapping[str, Permission], given: Mapping[str, Permission]) -> dict[str, Permission]:
    """Per tool the stricter of both. A tool that the record leaves to its declaration is never set to allow."""
    merged = dict(recorded)
    for name, permission in given.items():
        before = recorded.get(name, "allow")
        if _STRICTNESS[permission] > _STRICTNESS[before]:
            merged[name] = permission
    return merged
