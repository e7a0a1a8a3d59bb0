"""Requests of a growing thread: each begins with the one before, except after an anchor that cuts."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage

from tests.context.tapes import calls, result, says, turn_anchor, user
from tests.support.strict import assert_valid_history
from turngraph.context import view
from turngraph.context.fold import plan_fold
from turngraph.context.terms import ViewTerms
from turngraph.state.settings import ModelProfile, TurnSettings

STEPS = ["round", "answered", "empty", "part", "steer", "checkpoint", "turn", "late"]


class Thread:
    """A thread as the graph would write it, step by step."""

    def __init__(self) -> None:
        self.tape: list[Any] = []
        self.anchors: list[Any] = []
        self.turn = 0
        self.count = 0
        self.open()

    def open(self) -> None:
        self.turn += 1
        key = self.key("u")
        self.tape.append(user(key, f"question {self.turn}"))
        self.anchors.append(turn_anchor(self.name, key, seed=f"seed {self.turn}"))

    @property
    def name(self) -> str:
        return f"t{self.turn}"

    def key(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def note(self, text: str) -> None:
        self.anchors.append(
            {
                "id": self.key("n"),
                "kind": "note",
                "turn_id": self.name,
                "after_message_id": self.tape[-1].id,
                "text": text,
            }
        )

    def round(self, *results: tuple[str, str]) -> AIMessage:
        ids = [self.key("c") for _ in results]
        message = calls(self.name, self.key("a"), ids, text="hm")
        self.tape.append(message)
        for call_id, (role, text) in zip(ids, results, strict=True):
            self.tape.append(result(self.name, call_id, text, role=role))
        return message

    def step(self, what: str, size: int) -> None:
        match what:
            case "round":
                self.round(("tool", "data " * size), ("tool", "more " * size))
            case "answered":
                self.round(("answer", "my answer " * 3), ("tool", "data " * size))
            case "empty":
                self.tape.append(says(self.name, self.key("a"), "", role="empty", raw_text="<think>plan</think>"))
                self.note("Call a tool or answer.")
            case "part":
                self.tape.append(says(self.name, self.key("a"), "The ans", role="part"))
                self.note("Continue.")
            case "steer":
                self.tape.append(user(self.key("u"), "Also this."))
            case "checkpoint":
                through = self.tape[-1].id
                made = self.round(("tool", "saved"))
                self.anchors.append(
                    {"id": self.key("f"), "kind": "fold", "turn_id": self.name, "through_message_id": through,
                     "call_id": made.tool_calls[0]["id"], "text": "What was found. " * 3, "why": "x"}
                )  # fmt: skip
            case "turn":
                self.tape.append(says(self.name, self.key("a"), "Done."))
                self.open()
            case "late":
                open_call = calls(self.name, self.key("a"), [self.key("c")])
                self.tape.append(open_call)
                closed = result(self.name, open_call.tool_calls[0]["id"], "cancelled")
                self.open()
                self.tape.append(closed)


@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(1, 120)), min_size=1, max_size=14),
    st.sampled_from([700, 1_500, 4_000, 40_000]),
    st.sampled_from([None, True]),
)
@settings(max_examples=200, deadline=None)
def test_a_growing_thread(steps, window, alternate):
    limits = TurnSettings(context_window=window, max_output_tokens=100)
    profile = ModelProfile(alternate_roles=alternate)
    thread, before, cutting = Thread(), [], 0
    for what, size in steps:
        seen = view(thread.tape, thread.anchors, limits, profile=profile)
        thread.anchors += seen.new_anchors
        assert_valid_history(seen.messages, alternate=bool(alternate))
        cuts = sum(anchor["kind"] != "note" for anchor in thread.anchors)
        if cuts == cutting and not alternate:
            assert seen.messages[: len(before)] == before
        assert any("question" in message.text and f"seed {thread.turn}" in message.text for message in seen.messages)
        before, cutting = seen.messages, cuts
        thread.step(what, size)
        if (fold := plan_fold(thread.tape, thread.anchors, ViewTerms(limits, profile=profile))) is not None:
            thread.anchors.append(fold)
