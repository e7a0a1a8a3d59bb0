"""Pauses: permission and ask_user through the compiled graph, every kind of answer, and no answer at all."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.support.openai_server import Request, Step, call, say
from tests.support.turns import WAYS, Way, chat, check_calls, check_turn, pause_of, run, thread, types
from turngraph.graph import ResumeError, TurnSettings, build_turn_graph
from turngraph.tools import ask_user, tool_policy


class Effects:
    """Tools whose effects are counted in memory."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tools(self) -> list[Any]:
        def send(to: str) -> str:
            """Send a mail."""
            self.done.append(f"send {to}")
            return f"sent to {to}"

        def note(text: str) -> str:
            """Write a note."""
            self.done.append(f"note {text}")
            return "noted"

        return [tool_policy(send, permission="ask", effect="write"), tool_policy(note), ask_user]


def paused(openai_server: Any, *steps: Step, **options: Any) -> tuple[Any, Effects, Any, Any]:
    server = openai_server(list(steps), strict=True)
    effects = Effects()
    graph = build_turn_graph(chat(server), effects.tools(), checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread(), **options)
    return graph, effects, output, (server, events)


ONE = call(("send", {"to": "ann"}), text="Sending.")


@pytest.mark.parametrize("way", WAYS)
def test_a_tool_that_asks_pauses_and_runs_once_when_approved(openai_server: Any, way: Way) -> None:
    graph, effects, output, (server, events) = paused(openai_server, ONE, say("Sent."), way=way)
    payload = pause_of(output)
    assert [(r["name"], r["args"]) for r in payload["action_requests"]] == [("send", {"to": "ann"})]
    assert payload["review_configs"][0]["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
    assert payload["turngraph"]["version"] == 1
    assert effects.done == []
    assert not output.get("answer")
    if events:
        assert types(events)[-1] == "interaction_requested"
    output, events = run(graph, Command(resume={"decisions": [{"type": "approve"}]}), thread(), way=way)
    assert effects.done == ["send ann"]
    assert output["answer"] == "Sent."
    assert output["receipt"]["interactions"] == 1
    check_turn(output)
    if events:
        assert types(events)[0] == "interaction_resolved"
    server.done()


def test_edit_runs_the_edited_call_and_tells_the_model(openai_server: Any) -> None:
    graph, effects, _, (server, _) = paused(openai_server, ONE, say("ok"))
    edited = {"type": "edit", "edited_action": {"name": "send", "args": {"to": "bob"}}}
    output, _ = run(graph, Command(resume={"decisions": [edited]}), thread())
    assert effects.done == ["send bob"]
    told = server.requests[-1].said("tool")
    assert "bob" in told
    assert "sent to bob" in told
    check_turn(output)


def test_reject_tells_the_reason_and_runs_nothing(openai_server: Any) -> None:
    graph, effects, _, (server, _) = paused(openai_server, ONE, say("ok"))
    output, _ = run(graph, Command(resume={"decisions": [{"type": "reject", "message": "not now"}]}), thread())
    assert effects.done == []
    assert "not now" in server.requests[-1].said("tool")
    check_turn(output)


def test_respond_answers_in_the_tools_place(openai_server: Any) -> None:
    graph, effects, _, (server, _) = paused(openai_server, ONE, say("ok"))
    output, _ = run(graph, Command(resume={"decisions": [{"type": "respond", "message": "I did it myself"}]}), thread())
    assert effects.done == []
    assert "I did it myself" in server.requests[-1].said("tool")
    check_turn(output)


def test_always_grants_the_same_call_from_then_on(openai_server: Any) -> None:
    graph, effects, _, _ = paused(openai_server, ONE, ONE_AGAIN, call(("send", {"to": "eve"})), say("ok"))
    output, _ = run(graph, Command(resume={"decisions": [{"type": "always", "scope": "call"}]}), thread())
    assert effects.done == ["send ann", "send ann"]
    assert pause_of(output)["action_requests"][0]["args"] == {"to": "eve"}


ONE_AGAIN = call(("send", {"to": "ann"}), text="Once more.")


def test_siblings_run_before_the_pause_and_never_again(openai_server: Any) -> None:
    batch = call(("note", {"text": "a"}), ("send", {"to": "ann"}), ("note", {"text": "b"}))
    graph, effects, output, _ = paused(openai_server, batch, say("ok"))
    assert sorted(effects.done) == ["note a", "note b"]
    check_no_results_yet(output)
    output, _ = run(graph, Command(resume={"decisions": [{"type": "approve"}]}), thread())
    assert sorted(effects.done) == ["note a", "note b", "send ann"]
    assert [m.text for m in output["messages"] if m.type == "tool"] == ["noted", "sent to ann", "noted"]
    check_turn(output)


def check_no_results_yet(output: Any) -> None:
    assert not [m for m in output["messages"] if m.type == "tool"]


def test_several_calls_answered_partly_in_any_order(openai_server: Any) -> None:
    batch = call(("send", {"to": "a"}), ("send", {"to": "b"}), ("send", {"to": "c"}))
    graph, effects, output, _ = paused(openai_server, batch, say("ok"))
    ids = [r["call_id"] for r in pause_of(output)["turngraph"]["requests"]]
    output, _ = run(graph, Command(resume={"decisions": {ids[0]: {"type": "reject", "message": "no"}}}), thread())
    assert [r["call_id"] for r in pause_of(output)["turngraph"]["requests"]] == ids[1:]
    output, _ = run(graph, Command(resume={"decisions": {ids[1]: {"type": "approve"}}}), thread())
    assert effects.done == ["send b"]
    output, _ = run(graph, Command(resume={"decisions": {ids[2]: {"type": "approve"}}}), thread())
    assert effects.done == ["send b", "send c"]
    assert [m.status for m in output["messages"] if m.type == "tool"] == ["error", "success", "success"]
    check_turn(output)


def test_a_write_never_overtakes_an_earlier_call_that_waits(openai_server: Any) -> None:
    batch = call(("send", {"to": "first"}), ("send", {"to": "second"}))
    graph, effects, output, _ = paused(openai_server, batch, say("ok"))
    ids = [r["call_id"] for r in pause_of(output)["turngraph"]["requests"]]
    output, _ = run(graph, Command(resume={"decisions": {ids[1]: {"type": "approve"}}}), thread())
    assert effects.done == []
    output, _ = run(graph, Command(resume={"decisions": {ids[0]: {"type": "approve"}}}), thread())
    assert effects.done == ["send first", "send second"]
    check_turn(output)


ASK = call(("ask_user", {"questions": [{"question": "Which colour?", "id": "colour"}]}), text="One question.")


@pytest.mark.parametrize(
    ("answer", "tells"),
    [
        ({"decisions": [{"type": "respond", "answers": {"colour": "red"}}]}, "red"),
        ("red", "red"),
        ({"decisions": [{"type": "respond", "message": "red"}]}, "red"),
        ("", "no answer"),
        (None, "no answer"),
    ],
)
def test_ask_user_pauses_and_its_answer_is_the_result(openai_server: Any, answer: Any, tells: str) -> None:
    graph, _, output, (server, _) = paused(openai_server, ASK, say("Red it is."))
    request = pause_of(output)["turngraph"]["requests"][0]
    assert request["kind"] == "ask_user"
    assert request["questions"][0]["question"] == "Which colour?"
    output, _ = run(graph, Command(resume=answer), thread())
    assert tells in server.requests[-1].said("tool").lower()
    check_turn(output)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"decisions": []},
        {"decisions": {"nope": {"type": "approve"}}},
        {"decisions": [{"type": "fly"}]},
        {"decisions": [{"type": "edit", "edited_action": {"name": "no_such_tool", "args": {}}}]},
        {"f" * 32: "x"},
    ],
)
def test_an_answer_that_cannot_be_applied_changes_nothing(openai_server: Any, answer: Any) -> None:
    graph, effects, output, _ = paused(openai_server, ONE, say("Sent."))
    before = graph.get_state(thread()).config
    with pytest.raises(ResumeError):
        run(graph, Command(resume=answer), thread())
    assert graph.get_state(thread()).config == before
    output, _ = run(graph, None, thread())
    assert pause_of(output)["turngraph"]["error"] is None
    output, _ = run(graph, Command(resume={"decisions": [{"type": "approve"}]}), thread())
    assert effects.done == ["send ann"]
    check_turn(output)


def test_resume_without_a_pause_is_refused(openai_server: Any) -> None:
    graph = build_turn_graph(chat(openai_server([say("hi")])), checkpointer=InMemorySaver())
    run(graph, "hi", thread())
    with pytest.raises(ResumeError, match="Nothing waits"):
        run(graph, Command(resume="yes"), thread())


def test_continuing_a_paused_thread_answers_nothing(openai_server: Any) -> None:
    graph, effects, output, _ = paused(openai_server, ONE, say("Sent."))
    for _ in range(3):
        again, events = run(graph, None, thread())
        assert pause_of(again) == pause_of(output)
        assert events == []
    assert effects.done == []


def test_a_plain_message_closes_the_calls_and_starts_a_new_turn(openai_server: Any) -> None:
    graph, effects, _, (server, _) = paused(openai_server, ONE, say("All right."))
    output, events = run(graph, "never mind", thread())
    assert effects.done == []
    assert output["answer"] == "All right."
    assert server.requests[-1].roles == ["system", "user", "assistant", "tool", "user"]
    assert "not answered" in server.requests[-1].said("tool").lower()
    assert [r["status"] for r in graph.get_state(thread()).values["receipts"]] == ["abandoned", "completed"]
    check_turn(output, events)


def test_abandon_ends_the_turn_with_the_question(openai_server: Any) -> None:
    graph, _, _, _ = paused(openai_server, ASK)
    output, events = run(graph, Command(resume={"type": "abandon"}), thread())
    assert output["receipt"]["status"] == "abandoned"
    assert output["receipt"]["stop_reason"] == "user_abandoned"
    assert "Which colour?" in output["answer"]
    check_calls(output["messages"])
    assert types(events)[-1] == "turn_finished"


def test_ten_pauses_still_end_at_three_rounds(openai_server: Any) -> None:
    def many(request: Request) -> Step:
        if request.body.get("tool_choice") == "none":
            return say("Three rounds were enough.")
        count = sum(role == "assistant" for role in request.roles)
        asks = {0: 4, 1: 3, 2: 3}[count]
        return call(*(("send", {"to": f"{count}.{n}"}) for n in range(asks)))

    server = openai_server(many, strict=True)
    effects = Effects()
    graph = build_turn_graph(chat(server), effects.tools(), checkpointer=InMemorySaver())
    settings = TurnSettings(max_rounds=3)
    output, _ = run(graph, "go", thread(), context=settings)
    pauses = 0
    while "__interrupt__" in output:
        pauses += 1
        first = pause_of(output)["turngraph"]["requests"][0]["call_id"]
        answer = Command(resume={"decisions": {first: {"type": "approve"}}})
        output, _ = run(graph, answer, thread(), context=settings)
    assert pauses == 10
    assert len(effects.done) == 10
    assert output["receipt"]["rounds"] == 3
    assert output["receipt"]["stop_reason"] == "max_rounds"
    assert output["answer"] == "Three rounds were enough."
    assert output["receipt"]["interactions"] == 10
    check_turn(output)


def test_a_context_given_on_resume_may_only_tighten(openai_server: Any) -> None:
    graph, effects, _, _ = paused(openai_server, ONE, ONE_AGAIN, say("ok"))
    loose = TurnSettings(permission_mode="full_access")
    output, _ = run(graph, Command(resume={"decisions": [{"type": "approve"}]}), thread(), context=loose)
    assert "__interrupt__" in output
    assert effects.done == ["send ann"]


def test_without_a_checkpointer_a_tool_that_asks_is_denied(openai_server: Any) -> None:
    server = openai_server([ONE, say("I could not.")], strict=True)
    effects = Effects()
    output, events = run(build_turn_graph(chat(server), effects.tools()), "go")
    assert effects.done == []
    assert output["answer"] == "I could not."
    assert "checkpointer" in server.requests[-1].said("tool")
    assert "notice" in types(events)
    check_turn(output, events)


def test_a_denied_tool_is_refused_whatever_the_mode(openai_server: Any) -> None:
    server = openai_server([ONE, say("ok")], strict=True)
    effects = Effects()
    graph = build_turn_graph(chat(server), effects.tools(), checkpointer=InMemorySaver())
    settings = TurnSettings(permission_mode="full_access", permissions={"send": "deny"})
    output, events = run(graph, "go", thread(), context=settings)
    assert effects.done == []
    assert [e["status"] for e in events if e["type"] == "tool_finished"] == ["denied"]
    check_turn(output, events)
