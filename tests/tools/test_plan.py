"""Planning a batch: its laws over arbitrary batches, and the cases that the laws do not name."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngraph.state.calls import Call
from turngraph.state.settings import TurnSettings
from turngraph.tools.answers import normalise_resume
from turngraph.tools.pause import build_payload
from turngraph.tools.permission import decide_permission, digest
from turngraph.tools.plan import Answer, BatchFacts, Plan, Run, Wait, claim_digest, grants_of, plan_batch
from turngraph.tools.policy import ToolPolicy

POLICIES: dict[str, ToolPolicy] = {
    "read": ToolPolicy(effect="read"),
    "both": ToolPolicy(),
    "write": ToolPolicy(effect="write"),
    "ask_read": ToolPolicy("ask", "read"),
    "ask_both": ToolPolicy("ask"),
    "ask_write": ToolPolicy("ask", "write"),
    "never": ToolPolicy("deny", "write"),
    "ask_user": ToolPolicy(),
}
ASKED = {"questions": [{"question": "Which?"}]}


def call(name: str, at: int = 0, **args: Any) -> Call:
    return {"id": f"c{at}", "name": name, "args": args or (ASKED if name == "ask_user" else {"n": at})}


def facts(decisions: Mapping[str, Any] | None = None, **known: Any) -> BatchFacts:
    limits = known.pop("limits", TurnSettings())
    return BatchFacts(
        policies=POLICIES,
        permission_of=lambda name, args: decide_permission(name, args, POLICIES[name], limits, known.get("grants", ())),
        decisions=decisions or {},
        **{key: value for key, value in known.items() if key != "grants"},
    )


def parts(plan: Plan) -> list[str]:
    """The ids of all steps of a plan."""
    steps = [*plan.runs, *plan.waiting, *plan.own, *plan.held]
    return [step.call["id"] for step in steps] + [answer.outcome["call_id"] for answer in plan.answers]


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[Call], BatchFacts]:
    """A batch in which anything may be known of any call."""
    names = draw(st.lists(st.sampled_from([*POLICIES, "nowhere", "later"]), max_size=8))
    calls = [call(name, at) for at, name in enumerate(names)]
    some = st.sets(st.sampled_from([c["id"] for c in calls])) if calls else st.just(set())
    settled, unknown, own, bad = draw(some), draw(some), draw(some), draw(some)
    claims = {call_id: draw(st.sampled_from(["x", "y"])) for call_id in unknown}
    decided = {}
    for each in calls:
        if each["id"] in draw(some):
            before = claims.get(each["id"]) if draw(st.booleans()) else None
            kind = draw(st.sampled_from(["approve", "reject", "respond", "always", "abandon"]))
            decided[each["id"]] = {"type": kind, "scope": "call", "message": "m", "digest": claim_digest(each, before)}
    known = facts(
        decided,
        settled=settled,
        unknown=claims,
        own=own - settled,
        deferred={"later"},
        problems={c: {"code": "bad_arguments", "text": "bad"} for c in bad},
        calls_left=draw(st.integers(0, 9)),
        can_pause=draw(st.booleans()),
        limits=TurnSettings(permission_mode=draw(st.sampled_from(["declared", "ask_all", "full_access"]))),
    )
    return calls, known


@settings(max_examples=300, deadline=None)
@given(batches())
def test_each_unsettled_call_is_in_exactly_one_part(batch: tuple[list[Call], BatchFacts]) -> None:
    calls, known = batch
    assert sorted(parts(plan_batch(calls, known))) == sorted(c["id"] for c in calls if c["id"] not in known.settled)


@settings(max_examples=300, deadline=None)
@given(batches())
def test_what_is_settled_leaves_nothing_to_plan(batch: tuple[list[Call], BatchFacts]) -> None:
    calls, _ = batch
    assert plan_batch(calls, facts(settled={c["id"] for c in calls})).empty


@settings(max_examples=300, deadline=None)
@given(batches())
def test_writes_keep_their_order_and_never_pass_a_call_that_waits(batch: tuple[list[Call], BatchFacts]) -> None:
    calls, known = batch
    plan = plan_batch(calls, known)
    place = {c["id"]: at for at, c in enumerate(calls)}
    writes = [place[run.call["id"]] for run in plan.writes]
    assert writes == sorted(writes)
    waits = [place[step.call["id"]] for step in [*plan.waiting, *plan.own]]
    assert all(write < min(waits) for write in writes if waits)
    assert all(min(waits) < place[hold.call["id"]] for hold in plan.held)
    for kind in (plan.reads, plan.parallel, plan.waiting, plan.held):
        order = [place[step.call["id"]] for step in kind]
        assert order == sorted(order)


@settings(max_examples=300, deadline=None)
@given(batches())
def test_only_what_is_permitted_runs_and_the_budget_holds(batch: tuple[list[Call], BatchFacts]) -> None:
    calls, known = batch
    plan = plan_batch(calls, known)
    for run in plan.runs:
        call_id, name = run.call["id"], run.call["name"]
        assert known.permission_of(name, run.call["args"]) != "deny"
        assert call_id not in known.problems
        assert call_id not in known.own
        decision: Any = known.decisions.get(call_id)
        approves = decision is not None and decision["type"] in ("approve", "always")
        approved = approves and decision["digest"] == run.digest
        assert approved or known.permission_of(name, run.call["args"]) == "allow"
        if call_id in known.unknown and name != "ask_user":
            assert approved
            assert run.retry
            assert run.digest != digest(name, run.call["args"])
    decided = [answer for answer in plan.answers if answer.code == "decided"]
    assert len(plan.runs) + len(plan.waiting) + len(plan.held) + len(decided) <= known.calls_left
    if not known.can_pause:
        assert not plan.waiting


@settings(max_examples=200, deadline=None)
@given(batches())
def test_a_plan_that_is_carried_out_comes_to_an_end(batch: tuple[list[Call], BatchFacts]) -> None:
    """Settling what runs and answering what waits, again and again, settles every call in few passes."""
    calls, first = batch
    settled, decisions = set(first.settled), dict(first.decisions)
    for _ in range(2 * len(calls) + 2):
        known = BatchFacts(
            policies=first.policies, permission_of=first.permission_of, problems=first.problems,
            deferred=first.deferred, decisions=decisions, settled=settled, unknown=first.unknown,
        )  # fmt: skip
        plan = plan_batch(calls, known)
        if plan.empty:
            break
        settled |= {run.call["id"] for run in plan.runs} | {answer.outcome["call_id"] for answer in plan.answers}
        if plan.waiting:
            payload = build_payload("t", plan.waiting)
            answers = {
                r["call_id"]: {"type": "approve"} if r["kind"] == "permission" else {"type": "respond", "message": "x"}
                for r in payload["turngraph"]["requests"]
            }
            decisions |= normalise_resume({"decisions": answers}, payload)
    assert settled >= {c["id"] for c in calls}


def codes(plan: Plan) -> dict[str, str]:
    return {answer.outcome["call_id"]: answer.code for answer in plan.answers}


def test_what_cannot_run_is_answered_in_words_the_model_can_use() -> None:
    calls = [call("nowhere", 0), call("later", 1), call("never", 2), call("read", 3), call("both", 4), call("both", 5)]
    plan = plan_batch(
        calls,
        facts(deferred={"later"}, problems={"c3": {"code": "cut_off", "text": "Not run: cut off."}}, calls_left=1),
    )
    refused = {"c0": "unknown_tool", "c1": "not_loaded", "c2": "denied", "c3": "bad_call", "c5": "over_budget"}
    assert codes(plan) == refused
    told = {answer.outcome["call_id"]: str(answer.outcome["content"]) for answer in plan.answers}
    assert "ask_write" in told["c0"]
    assert "load_tools" in told["c1"]
    assert [run.call["id"] for run in plan.runs] == ["c4"]


def test_a_waiting_call_keeps_its_place_in_the_budget() -> None:
    calls = [call("ask_both", 0), call("both", 1), call("both", 2)]
    plan = plan_batch(calls, facts(calls_left=2))
    assert [w.call["id"] for w in plan.waiting] == ["c0"]
    assert [r.call["id"] for r in plan.runs] == ["c1"]
    assert codes(plan) == {"c2": "over_budget"}
    again = plan_batch(calls, facts(calls_left=1, settled={"c1", "c2"}))
    assert [w.call["id"] for w in again.waiting] == ["c0"]


@pytest.mark.parametrize("name", ["write", "both", "never", "gone"])
@pytest.mark.parametrize("budget", [0, 5])
def test_an_effect_of_unknown_outcome_is_told_and_never_repeated(name: str, budget: int) -> None:
    plan = plan_batch([call(name)], facts(unknown={"c0": "claim"}, calls_left=budget))
    assert codes(plan) == {"c0": "unknown_outcome"}
    assert plan.runs == ()


def test_an_edited_effect_of_unknown_outcome_is_not_repeated_either() -> None:
    asked = call("ask_read")
    waiting = plan_batch([asked], facts()).waiting
    edited = {"type": "edit", "edited_action": {"name": "write", "args": {}}}
    decisions = normalise_resume(edited, build_payload("t", waiting))
    claim = plan_batch([asked], facts(decisions)).writes[0].digest
    crashed = plan_batch([asked], facts(decisions, unknown={"c0": claim}))
    assert crashed.runs == ()
    assert crashed.waiting[0].unknown


def test_where_it_asks_the_person_decides_on_the_unknown_outcome_each_time_it_happens() -> None:
    asked = call("ask_write")
    before = plan_batch([asked], facts())
    approved = normalise_resume("yes", build_payload("t", before.waiting))
    assert plan_batch([asked], facts(approved)).writes[0].digest == digest(asked["name"], asked["args"])
    first_claim = plan_batch([asked], facts(approved)).writes[0].digest

    crashed = plan_batch([asked], facts(approved, unknown={"c0": first_claim}))
    assert crashed.waiting[0].unknown
    assert "already started" in build_payload("t", crashed.waiting)["action_requests"][0]["description"]
    approved = normalise_resume("yes", build_payload("t", crashed.waiting))
    second = plan_batch([asked], facts(approved, unknown={"c0": first_claim})).writes[0]
    assert second.retry

    crashed_again = plan_batch([asked], facts(approved, unknown={"c0": second.digest}))
    assert crashed_again.runs == ()
    assert crashed_again.waiting[0].unknown


def test_rejecting_a_call_of_unknown_outcome_does_not_claim_that_it_never_ran() -> None:
    asked = call("ask_write")
    waiting = plan_batch([asked], facts(unknown={"c0": "claim"})).waiting
    rejected = normalise_resume({"type": "reject", "message": "enough"}, build_payload("t", waiting))
    answer = plan_batch([asked], facts(rejected, unknown={"c0": "claim"})).answers[0]
    assert answer.outcome["status"] == "unknown"
    assert "unknown" in str(answer.outcome["content"])
    assert "enough" in str(answer.outcome["content"])


def test_an_approval_does_not_cover_other_arguments() -> None:
    shown = plan_batch([call("ask_write", 0, path="a")], facts()).waiting
    approved = normalise_resume("yes", build_payload("t", shown))
    changed = plan_batch([call("ask_write", 0, path="b")], facts(approved))
    assert changed.runs == ()
    assert [w.call["args"] for w in changed.waiting] == [{"path": "b"}]


def edit(name: str, **args: Any) -> Any:
    return {"c0": {"type": "edit", "edited_action": {"name": name, "args": args}}}


def test_an_edited_call_runs_under_its_own_id_and_says_what_ran() -> None:
    run = plan_batch([call("ask_write")], facts(edit("write", to="bob"))).writes[0]
    assert run.call == {"id": "c0", "name": "write", "args": {"to": "bob"}}
    assert "write" in run.note
    assert '{"to": "bob"}' in run.note
    unchanged = plan_batch([call("ask_write")], facts(edit("ask_write", n=0))).writes[0]
    assert unchanged.note == ""


@pytest.mark.parametrize(
    ("name", "code"), [("never", "denied"), ("gone", "unknown_tool"), ("ask_user", "unknown_tool")]
)
def test_an_edit_cannot_reach_what_may_not_run(name: str, code: str) -> None:
    plan = plan_batch([call("ask_write")], facts(edit(name)))
    assert plan.runs == ()
    assert codes(plan) == {"c0": code}


def test_nothing_decided_lifts_a_deny() -> None:
    decisions = {"c0": {"type": "approve"}}
    plan = plan_batch([call("ask_write")], facts(decisions, limits=TurnSettings(permissions={"ask_write": "deny"})))
    assert codes(plan) == {"c0": "denied"}


def test_without_a_checkpointer_nothing_waits() -> None:
    plan = plan_batch([call("ask_write", 0), call("ask_user", 1), call("write", 2)], facts(can_pause=False))
    assert codes(plan) == {"c0": "cannot_pause", "c1": "cannot_pause"}
    assert [run.call["id"] for run in plan.writes] == ["c2"]
    assert "checkpointer" in str(plan.answers[0].outcome["content"])


def test_a_question_is_never_run() -> None:
    for decision in ({"type": "approve"}, edit("ask_user")["c0"]):
        plan = plan_batch([call("ask_user")], facts({"c0": decision}))
        assert [type(step) for step in (*plan.runs, *plan.waiting)] == [Wait]


def test_a_question_that_cannot_be_asked_is_told_to_the_model() -> None:
    plan = plan_batch([call("ask_user", 0, questions=[])], facts())
    assert codes(plan) == {"c0": "bad_call"}


def test_a_tools_own_pause_holds_later_writes() -> None:
    plan = plan_batch([call("write", 0), call("write", 1), call("both", 2)], facts(own={"c0"}))
    assert [step.call["id"] for step in plan.own] == ["c0"]
    assert [step.call["id"] for step in plan.held] == ["c1"]
    assert [run.call["id"] for run in plan.runs] == ["c2"]


def test_always_gives_a_grant_that_covers_the_rest_of_the_batch() -> None:
    calls = [call("ask_both", 0, to="ann"), call("ask_both", 1, to="ann"), call("ask_both", 2, to="bob")]
    decisions: Any = {"c0": {"type": "always", "scope": "call"}}
    grants = grants_of(calls, decisions, "t1")
    assert [grant["granted_in"] for grant in grants] == ["t1"]
    plan = plan_batch(calls, facts(decisions, grants=grants))
    assert [run.call["id"] for run in plan.runs] == ["c0", "c1"]
    assert [wait.call["id"] for wait in plan.waiting] == ["c2"]


def test_steps_are_values() -> None:
    one, two = plan_batch([call("read")], facts()), plan_batch([call("read")], facts())
    assert one == two
    assert isinstance(one.runs[0], Run)
    assert not any(isinstance(answer, Answer) for answer in one.answers)
