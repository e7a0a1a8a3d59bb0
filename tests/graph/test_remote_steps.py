"""What a remote turn decides from its remote thread: steps, news, places and ids. No server."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.types import Command

from turngraph.graph.remote_steps import (
    OWN_THREAD,
    Ask,
    Asked,
    Done,
    Join,
    Pause,
    Run,
    Seen,
    news_for,
    next_step,
    place_of,
    revived,
    with_ids,
)

H1, H2 = HumanMessage("one", id="h1"), HumanMessage("two", id="h2")
PAUSE = Pause("a" * 32, {"action_requests": []})


def spoken(id: str, turn: str, **fields: Any) -> AIMessage:
    return AIMessage(id, id=id, additional_kwargs={"turngraph": {"turn_id": turn}}, **fields)


def held(*messages: BaseMessage, **fields: Any) -> Seen:
    receipts = fields.pop("receipts", [])
    return Seen(values={"messages": [m.model_dump() for m in messages], "receipts": receipts}, **fields)


A1 = spoken("a1", "t1")


def reply_to(pause_id: str) -> Asked:
    return {"id": pause_id, "value": {"decisions": []}}


@pytest.mark.parametrize(
    ("seen", "given", "reply", "ran", "step"),
    [
        (Seen(), [H1], None, False, Run({"messages": [H1]})),
        (Seen(active="run"), [H1], None, False, Join("run")),
        (held(H1, pauses=(PAUSE,)), [H1], None, True, Ask(PAUSE)),
        (held(H1, pauses=(PAUSE,)), [H1], None, False, Ask(PAUSE)),
        (held(H1, pauses=(PAUSE,)), [H1, H2], None, False, Run({"messages": [H2]})),
        (held(H1, pauses=(PAUSE,)), [H1], reply_to("b" * 32), False, Ask(PAUSE)),
        (held(H1, unfinished=True), [H1], None, False, Run(None)),
        (held(H1), [H1], None, False, Run({"messages": []})),
        (held(H1), [H1], None, True, Done([])),
        (held(H1, A1), [H1], None, False, Done([A1])),
        (held(H1, A1), [H1], reply_to(PAUSE.id), False, Done([A1])),
    ],
)
def test_the_next_step(seen: Seen, given: Any, reply: Any, ran: bool, step: Any) -> None:
    assert next_step(seen, given, reply, ran=ran) == step


def test_an_answer_goes_to_the_pause_that_was_shown() -> None:
    other = Pause("b" * 32, {})
    step = next_step(held(H1, pauses=(other, PAUSE)), [H1], reply_to(PAUSE.id), ran=False)
    assert isinstance(step, Run)
    assert isinstance(step.input, Command)
    assert step.input.resume == {PAUSE.id: {"decisions": []}}


Turn = tuple[str, bool]
"""How a turn ended, and whether it called a tool."""

ENDS = st.sampled_from(["completed", "incomplete", "cancelled", "error", "abandoned"])
LOST = ("cancelled", "error", "abandoned")


class Both:
    """A parent and its remote thread, over some turns. What LangGraph drops of a turn that was lost, the parent lacks."""

    def __init__(self) -> None:
        self.mine: list[BaseMessage] = []
        self.tape: list[BaseMessage] = []
        self.receipts: list[dict[str, Any]] = []
        self.open: ToolMessage | None = None

    def turn(self, number: int, status: str, calls: bool) -> list[BaseMessage]:
        """One turn, and what the parent is given; a lost turn leaves its call to be closed by the next one."""
        question, marks = HumanMessage("?", id=f"h{number}"), {"turngraph": {"turn_id": f"t{number}"}}
        self.mine.append(question)
        self.tape += [question, *([self.open] if self.open else [])]
        self.open = None
        if calls:
            call = {"name": "look", "args": {}, "id": f"c{number}", "type": "tool_call"}
            self.tape.append(spoken(f"n{number}", f"t{number}", tool_calls=[call]))
            result = ToolMessage("", tool_call_id=f"c{number}", id=f"r{number}", additional_kwargs=marks)
            self.open = result if status in LOST else None
            self.tape += [] if self.open else [result]
        if not (calls and status in LOST):
            self.tape.append(spoken(f"a{number}", f"t{number}"))
        self.receipts.append({"turn_id": f"t{number}", "status": status})
        if status in LOST:
            return []
        news = news_for(self.mine, self.tape, self.receipts)
        self.mine += news
        return news


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(ENDS, st.booleans()), max_size=8))
def test_after_a_finished_turn_the_parent_has_all_that_the_remote_has_and_nothing_twice(turns: list[Turn]) -> None:
    both = Both()
    for number, (status, calls) in enumerate([*turns, ("completed", True)]):
        both.turn(number, status, calls)
    ids = [message.id for message in both.mine]
    assert len(ids) == len(set(ids))
    assert set(ids) == {message.id for message in both.tape}
    calls_made = {call["id"] for m in both.mine if isinstance(m, AIMessage) for call in m.tool_calls}
    assert calls_made == {m.tool_call_id for m in both.mine if isinstance(m, ToolMessage)}


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["completed", "incomplete"]), st.booleans()), min_size=1, max_size=6), st.data()
)
def test_what_the_parent_removed_does_not_come_back(turns: list[Turn], data: st.DataObject) -> None:
    both = Both()
    for number, (status, calls) in enumerate(turns):
        both.turn(number, status, calls)
    removed = data.draw(st.sets(st.sampled_from([m.id for m in both.mine])))
    both.mine = [message for message in both.mine if message.id not in removed]
    news = both.turn(len(turns), "completed", False)
    assert [message.id for message in news] == [f"a{len(turns)}"]


def test_messages_of_the_servers_json_are_whole() -> None:
    usage: Any = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    messages = [
        HumanMessage("q", id="h"),
        spoken("a", "t", usage_metadata=usage, tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c"}]),
        ToolMessage("r", tool_call_id="c", id="r", status="error", artifact={"k": [1]}),
    ]
    assert revived([message.model_dump(mode="json") for message in messages]) == messages


def config(namespace: str, thread: str | None = "t", **more: Any) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, **more}}


def test_a_place_keeps_its_thread_and_every_other_has_another() -> None:
    def where(config: Any, assistant: str = "turn", continues: bool = True) -> str:
        return place_of(config, assistant, continues=continues).thread_id

    first = where(config("helper:1|remote:2"))
    assert where(config("helper:8|remote:9")) == first, "the next visit goes on with the conversation"
    others = [
        where(config("helper:1|remote:2", thread="u")),
        where(config("other:1|remote:2")),
        where(config("team:1|helper:1|remote:2")),
        where(config("helper:1|1|remote:2")),
        where(config("helper:1|remote:2"), assistant="another"),
        where(config("helper:1|remote:2"), continues=False),
        where(config("helper:8|remote:9"), continues=False),
        where(config("helper:1|remote:2", thread=None)),
        where(config("helper:1|remote:2", thread=None)),
    ]
    assert len({first, *others}) == len(others) + 1
    own = where(config("helper:1|remote:2", **{OWN_THREAD: True}))
    assert own == where(config("helper:1|remote:2"), continues=False)


def test_the_same_call_made_again_has_the_same_ids_and_no_other_has() -> None:
    def ids(namespace: str) -> list[str | None]:
        call = place_of(config(namespace), "turn", continues=True).call
        return [m.id for m in with_ids([("user", "yes"), {"role": "user", "content": "yes"}], call)]

    assert ids("helper:1|remote:2") == ids("helper:1|remote:3")
    assert len({*ids("helper:1|remote:2"), *ids("helper:4|remote:2"), *ids("remote:1"), *ids("remote:2")}) == 8
    assert [m.id for m in with_ids(H1, "call")] == ["h1"]
    assert [m.id for m in with_ids([{"role": "user", "content": "x", "id": "mine"}], "call")] == ["mine"]
