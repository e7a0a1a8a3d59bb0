"""The reducers' laws, and what a stored state may hold."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from turngraph.state.channels import coerce_messages, reduce_anchors, reduce_messages, reduce_receipts

ids = st.sampled_from([f"m{n}" for n in range(6)])
messages = st.one_of(
    st.builds(lambda i, t: HumanMessage(t, id=i), ids, st.text(max_size=5)),
    st.builds(lambda i, t: AIMessage(t, id=i), ids, st.text(max_size=5)),
    st.builds(lambda i: RemoveMessage(id=i), ids),
    st.just(RemoveMessage(id=REMOVE_ALL_MESSAGES)),
    st.builds(lambda t: ("user", t), st.text(max_size=5)),
    st.builds(lambda t: {"role": "assistant", "content": t}, st.text(max_size=5)),
    st.text(max_size=5),
)
writes = st.lists(st.one_of(messages, st.lists(messages, max_size=4)), max_size=5)


def shown(tape: list[BaseMessage]) -> list[tuple[Any, ...]]:
    return [(m.id, m.type, m.text) for m in tape]


@given(tape=writes, first=writes, second=writes)
def test_two_batches_of_writes_are_one(tape: list[Any], first: list[Any], second: list[Any]) -> None:
    start = reduce_messages([], tape)
    apart = reduce_messages(reduce_messages(start, first), second)
    assert shown(apart) == shown(reduce_messages(start, first + second))


@given(tape=writes, more=writes)
def test_a_tape_of_dumps_is_that_tape(tape: list[Any], more: list[Any]) -> None:
    """What a server reads of a snapshot, to show the state of a thread that was forked."""
    start = reduce_messages([], tape)
    dumps: list[Any] = [message.model_dump(mode="json") for message in start]
    assert reduce_messages(dumps, more) == reduce_messages(start, more)


@given(tape=writes)
def test_every_message_has_an_id_and_ids_are_unique(tape: list[Any]) -> None:
    made = reduce_messages(None, tape)
    assert all(m.id for m in made)
    assert len({m.id for m in made}) == len(made)
    assert not any(isinstance(m, RemoveMessage) for m in made)


def test_edit_by_id_keeps_the_place_and_removal_takes_only_its_own() -> None:
    tape = reduce_messages([], [[HumanMessage("a", id="1"), AIMessage("b", id="2"), HumanMessage("c", id="3")]])
    edited = reduce_messages(tape, [HumanMessage("A", id="1"), RemoveMessage(id="2"), RemoveMessage(id="unknown")])
    assert shown(edited) == [("1", "human", "A"), ("3", "human", "c")]
    assert shown(tape) == [("1", "human", "a"), ("2", "ai", "b"), ("3", "human", "c")], "the old value must not change"


def test_the_callers_own_message_is_not_touched() -> None:
    mine = HumanMessage("same")
    first = reduce_messages([], [mine])
    assert mine.id is None
    assert len(reduce_messages(first, [mine])) == 2


def test_chunks_are_stored_as_messages() -> None:
    (stored,) = coerce_messages(AIMessageChunk(content="x", id="1"))
    assert type(stored) is AIMessage


records = st.lists(
    st.builds(lambda i, v: {"id": i, "turn_id": i, "kind": "note", "v": v}, ids, st.integers(0, 3)), max_size=6
)


@given(start=records, first=records, second=records)
def test_keyed_reducers_have_the_same_law(start: list[Any], first: list[Any], second: list[Any]) -> None:
    for reduce in (reduce_anchors, reduce_receipts):
        base = reduce(None, [start])
        assert reduce(reduce(base, [first]), [second]) == reduce(base, [first, second])
        assert len({record["id"] for record in base}) == len(base)


calls = st.lists(st.builds(lambda i: {"name": "look", "args": {"place": i}, "id": f"call-{i}"}, ids), max_size=2)
usage = st.none() | st.builds(lambda n: {"input_tokens": n, "output_tokens": 1, "total_tokens": n + 1}, st.integers(0, 9))
cut = {"name": "look", "args": "{", "id": "cut", "error": "cut off", "type": "invalid_tool_call"}
whole_messages = st.one_of(
    st.builds(
        lambda i, t, c, u, bad, more: AIMessage(
            t, id=i, tool_calls=c, usage_metadata=u, invalid_tool_calls=bad, additional_kwargs=more
        ),
        *(ids, st.text(max_size=5), calls, usage, st.sampled_from([[], [cut]])),
        st.sampled_from([{}, {"turngraph": {"round": 1}}]),
    ),
    st.builds(
        lambda i, t, s, a: ToolMessage(t, id=i, tool_call_id="c", name="look", status=s, artifact=a),
        *(ids, st.text(max_size=5), st.sampled_from(["success", "error"]), st.sampled_from([None, {"pages": 2}])),
    ),
    st.builds(lambda i, t: HumanMessage([{"type": "text", "text": t}], id=i), ids, st.text(max_size=5)),
)


@given(message=whole_messages)
def test_the_dump_of_a_message_is_that_message(message: BaseMessage) -> None:
    assert coerce_messages(message.model_dump(mode="json")) == [message]
