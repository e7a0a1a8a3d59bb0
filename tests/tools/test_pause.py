"""The payload of a pause, as UIs read it."""

import json
from typing import Any

from turngraph.tools.pause import build_payload, question_text
from turngraph.tools.permission import digest
from turngraph.tools.plan import Wait


def wait(kind: Any, name: str, args: dict[str, Any], at: int = 0, **more: Any) -> Wait:
    return Wait({"id": f"c{at}", "name": name, "args": args}, kind, digest(name, args), **more)


QUESTION: Any = {
    "id": "q1",
    "question": "Which?",
    "options": [{"label": "A", "description": "the first"}, {"label": "B"}],
    "multiple": True,
    "free_text": True,
}
SEND = wait("permission", "send", {"to": "ann"})
ASK = wait("ask_user", "ask_user", {"questions": [{"question": "Which?"}]}, 1, questions=(QUESTION,))


def test_the_payload_is_the_shape_that_uis_draw_with_our_fields_beside_it() -> None:
    payload = build_payload("turn", [SEND, ASK], "not that way")
    assert json.loads(json.dumps(payload)) == payload
    assert [(a["name"], a["args"]) for a in payload["action_requests"]] == [
        ("send", {"to": "ann"}),
        ("ask_user", {"questions": [{"question": "Which?"}]}),
    ]
    assert payload["review_configs"] == [
        {"action_name": "send", "allowed_decisions": ["approve", "edit", "reject", "respond"]},
        {"action_name": "ask_user", "allowed_decisions": ["reject", "respond"]},
    ]
    assert payload["turngraph"] == {
        "version": 1,
        "turn_id": "turn",
        "error": "not that way",
        "requests": [
            {"call_id": "c0", "kind": "permission", "digest": SEND.digest, "extra_decisions": ["always", "abandon"]},
            {
                "call_id": "c1",
                "kind": "ask_user",
                "digest": ASK.digest,
                "extra_decisions": ["abandon"],
                "questions": [QUESTION],
            },
        ],
    }


def test_people_are_told_what_they_decide() -> None:
    described = [action["description"] for action in build_payload("turn", [SEND, ASK])["action_requests"]]
    assert described[0] == 'The assistant wants to run send with {"to": "ann"}.'
    assert described[1] == "Which? (several may be chosen)\n   - A: the first\n   - B"
    again = build_payload("turn", [wait("permission", "send", {}, unknown=True)])
    assert "may have had its effect" in again["action_requests"][0]["description"]


def test_long_arguments_are_shortened_in_the_description_only() -> None:
    action = build_payload("turn", [wait("permission", "write", {"text": "x" * 50_000})])["action_requests"][0]
    assert len(action["description"]) < 2_300
    assert "more characters" in action["description"]
    assert len(action["args"]["text"]) == 50_000


def test_what_waits_as_one_text() -> None:
    assert question_text(build_payload("t", [SEND, ASK])).startswith("Which?")
    assert "send" in question_text(build_payload("t", [SEND]))
    assert question_text(build_payload("t", [])) == ""
