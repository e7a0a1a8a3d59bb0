"""Pauses as the graph sends them, for tests that need no graph."""

from typing import Any

from turngraph.state.decisions import PausePayload

QUESTIONS: list[dict[str, Any]] = [
    {
        "id": "city",
        "question": "Which city?",
        "options": [{"label": "Paris", "description": "France"}, {"label": "Rome"}],
    },
    {"id": "why", "question": "Why?", "free_text": True},
]


def pause(*kinds: str, error: str | None = None) -> PausePayload:
    """A pause with one request per kind; call ids are call-1, call-2, ..."""
    payload: PausePayload = {
        "action_requests": [],
        "review_configs": [],
        "turngraph": {"version": 1, "turn_id": "t", "error": error, "requests": []},
    }
    for at, kind in enumerate(kinds, 1):
        asks = kind == "ask_user"
        name = "ask_user" if asks else "send_note"
        args = {"questions": QUESTIONS} if asks else {"text": f"it's {at}"}
        payload["action_requests"].append({"name": name, "args": args, "description": f"Call {at}"})
        allowed = ["respond"] if asks else ["approve", "edit", "reject", "respond"]
        payload["review_configs"].append({"action_name": name, "allowed_decisions": allowed})
        payload["turngraph"]["requests"].append(
            {
                "call_id": f"call-{at}",
                "kind": "ask_user" if asks else "permission",
                "digest": "d",
                "extra_decisions": ["abandon"] if asks else ["always", "abandon"],
                **({"questions": QUESTIONS} if asks else {}),  # type: ignore[typeddict-item]
            }
        )
    return payload
