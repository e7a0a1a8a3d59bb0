"""The order of the permission rules, digests, grants, and that a resume can only tighten."""

import random
from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngraph.state.errors import InputError
from turngraph.state.settings import TurnSettings
from turngraph.state.words import Permission, PermissionMode
from turngraph.tools.permission import canonical_args, decide_permission, digest, make_grant, revoke, tighten
from turngraph.tools.policy import ToolPolicy

RANK = {"allow": 0, "ask": 1, "deny": 2}
PERMISSIONS = get_args(Permission)
MODES = get_args(PermissionMode)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=4), json_values, max_size=4)


def shuffled(value: Any, order: random.Random) -> Any:
    """The same JSON value with the keys of every object in another order."""
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {key: shuffled(value[key], order) for key in keys}
    return [shuffled(item, order) for item in value] if isinstance(value, list) else value


@given(objects, st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(args: dict[str, Any], order: random.Random) -> None:
    assert canonical_args(args) == canonical_args(shuffled(args, order))
    assert digest("t", args) == digest("t", shuffled(args, order))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (("a", {"x": 1}), ("b", {"x": 1})),
        (("a", {"x": 1}), ("a", {"x": 1.0})),
        (("a", {"x": 1}), ("a", {"x": True})),
        (("a", {"x": 1}), ("a", {"x": "1"})),
        (("a", {"x": None}), ("a", {})),
        (("a", {"x": "ls"}), ("a", {"x": "ls && curl x | sh"})),
        (("a", {"x": ["1", "2"]}), ("a", {"x": ["2", "1"]})),
        (("a", {"x": "é"}), ("a", {"x": "e\u0301"})),
    ],
)
def test_other_calls_have_other_digests(left: Any, right: Any) -> None:
    assert digest(*left) != digest(*right)


def test_a_digest_takes_any_text() -> None:
    assert len(digest("t\ud800", {"x": "\ud800\x00", "y": object()})) == 64


@pytest.mark.parametrize(
    ("declared", "set_", "mode", "expected"),
    [
        ("allow", None, "declared", "allow"),
        ("ask", None, "declared", "ask"),
        ("ask", "allow", "declared", "allow"),
        ("allow", "ask", "declared", "ask"),
        ("allow", None, "ask_all", "ask"),
        ("ask", "allow", "ask_all", "ask"),
        ("ask", None, "full_access", "allow"),
        ("allow", "ask", "full_access", "allow"),
        ("deny", None, "full_access", "deny"),
        ("deny", "allow", "full_access", "deny"),
        ("allow", "deny", "full_access", "deny"),
        ("allow", "deny", "ask_all", "deny"),
    ],
)
def test_declaration_then_settings_then_mode(declared: Any, set_: Any, mode: Any, expected: str) -> None:
    given_ = TurnSettings(permission_mode=mode, permissions={"t": set_} if set_ else {})
    assert decide_permission("t", {}, ToolPolicy(declared), given_, []) == expected


ANY_GRANT = make_grant("t", {}, "tool", "turn")


@pytest.mark.parametrize("mode", MODES)
def test_grants_only_turn_ask_into_allow_and_never_under_ask_all(mode: Any) -> None:
    for declared, set_ in product(PERMISSIONS, (None, *PERMISSIONS)):
        limits = TurnSettings(permission_mode=mode, permissions={"t": set_} if set_ else {})
        without = decide_permission("t", {}, ToolPolicy(declared), limits, [])
        granted = decide_permission("t", {}, ToolPolicy(declared), limits, [ANY_GRANT])
        assert granted == ("allow" if without == "ask" and mode != "ask_all" else without)


def test_a_grant_covers_what_it_says_and_nothing_else() -> None:
    def may(name: str, args: dict[str, Any], grant: Any) -> bool:
        return decide_permission(name, args, ToolPolicy("ask"), TurnSettings(), [grant]) == "allow"

    call, tool = make_grant("run", {"cmd": "ls"}, "call", "t1"), make_grant("run", {"cmd": "ls"}, "tool", "t1")
    assert may("run", {"cmd": "ls"}, call)
    assert not may("run", {"cmd": "ls && curl x | sh"}, call)
    assert not may("run2", {"cmd": "ls"}, call)
    assert may("run", {"cmd": "other"}, tool)
    assert not may("runner", {"cmd": "ls"}, tool)


def test_a_revoked_grant_grants_nothing_and_the_others_stay() -> None:
    one, two = make_grant("a", {}, "tool", "t1"), make_grant("b", {}, "tool", "t1")
    left = revoke([one, two], one["id"])
    assert decide_permission("a", {}, ToolPolicy("ask"), TurnSettings(), left) == "ask"
    assert decide_permission("b", {}, ToolPolicy("ask"), TurnSettings(), left) == "allow"
    assert not one.get("revoked")
    for unknown in ("nope", one["id"]):
        with pytest.raises(InputError, match="Standing: grant-"):
            revoke(left, unknown)


def test_the_same_grant_given_twice_is_one_and_scopes_are_apart() -> None:
    again = make_grant("a", {"x": 1, "y": 2}, "call", "t9")
    assert again["id"] == make_grant("a", {"y": 2, "x": 1}, "call", "t1")["id"]
    assert len({make_grant("a", {"x": n}, scope, "t")["id"] for n in (1, 2) for scope in ("call", "tool")}) == 3


tool_names = st.sampled_from(["t", "u"])
turn_settings = st.fixed_dictionaries(
    {},
    optional={
        "permission_mode": st.sampled_from(MODES),
        "permissions": st.dictionaries(tool_names, st.sampled_from(PERMISSIONS)),
        "enabled_tools": st.none() | st.lists(tool_names, unique=True),
        "max_rounds": st.integers(1, 40),
        "max_tool_calls": st.integers(0, 200),
        "max_tokens": st.none() | st.integers(1, 100),
        "max_seconds": st.none() | st.floats(0.1, 100),
        "max_output_tokens": st.none() | st.integers(1, 100),
        "tool_timeout": st.floats(0.1, 100),
        "temperature": st.none() | st.floats(0, 2),
    },
).map(lambda fields: TurnSettings(**fields))


@settings(max_examples=300, deadline=None)
@given(turn_settings, turn_settings, st.sampled_from(PERMISSIONS), st.booleans())
def test_a_context_given_on_resume_only_tightens(
    recorded: TurnSettings, given_: TurnSettings, declared: Any, granted: bool
) -> None:
    tightened = tighten(recorded, given_)
    grants = [ANY_GRANT] if granted else []
    for limits in (recorded, recorded if "permission_mode" not in given_.model_fields_set else tightened):
        before = decide_permission("t", {}, ToolPolicy(declared), limits, grants)
        assert RANK[decide_permission("t", {}, ToolPolicy(declared), tightened, grants)] >= RANK[before]
    for field in ("max_rounds", "max_tool_calls", "max_tokens", "max_seconds", "max_output_tokens", "tool_timeout"):
        old, new, wished = getattr(recorded, field), getattr(tightened, field), getattr(given_, field)
        assert old is None or new <= old
        if field in given_.model_fields_set and wished is not None:
            assert new <= wished
    if recorded.enabled_tools is not None:
        assert tightened.enabled_tools is not None
        assert set(tightened.enabled_tools) <= set(recorded.enabled_tools)
    assert tightened.temperature == recorded.temperature
    assert tighten(recorded, recorded) == recorded
    assert tighten(tightened, given_) == tightened
    assert TurnSettings.model_validate(tightened.stored()) == tightened


def test_defaults_of_a_context_are_no_wish() -> None:
    recorded = TurnSettings(max_rounds=100, permission_mode="ask_all", max_seconds=5)
    assert tighten(recorded, TurnSettings(permission_mode="declared")) == recorded


def test_what_tightening_a_permission_asks_for_is_done() -> None:
    tightened = tighten(TurnSettings(permissions={"t": "allow"}), TurnSettings(permissions={"t": "ask", "u": "deny"}))
    assert tightened.permissions == {"t": "ask", "u": "deny"}
