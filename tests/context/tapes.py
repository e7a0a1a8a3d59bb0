"""Tapes for the tests of the context room: messy ones for laws, tidy ones in the form that turngraph writes."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

from turngraph.state.anchors import Anchor, TurnAnchor
from turngraph.state.settings import TurnSettings

IDS = [f"m{n}" for n in range(14)]
CALL_IDS = ["c1", "c2", "c3", ""]
TURN_IDS = ["t1", "t2", "t3"]

SMALL = TurnSettings(context_window=700, max_output_tokens=100)
"""A window so small that most tapes must be cut."""

_words = st.sampled_from(["", " ", "hi", "some words of text", "中文字符 " * 6, "word " * 300, "x\x00y\ud800", "{}"])
_contents = st.one_of(
    _words,
    st.lists(
        st.one_of(
            _words,
            _words.map(lambda text: {"type": "text", "text": text}),
            st.just({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
        ),
        max_size=3,
    ),
)
_marks = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"turn_id": st.sampled_from(TURN_IDS), "role": st.sampled_from(["tool", "answer", "part"])}),
).map(lambda marks: {"turngraph": marks} if marks else {})
_args = st.sampled_from(
    [{}, {"q": "x"}, {"q": "word " * 300}, {"q": ["a", 1, None], "n": float("nan")}, {"s": "\ud800"}]
)
_calls = st.lists(
    st.builds(
        lambda name, args, call_id: {"name": name, "args": args, "id": call_id},
        st.sampled_from(["search", "ask_user"]),
        _args,
        st.sampled_from(CALL_IDS),
    ),
    max_size=3,
)
_messages = st.one_of(
    st.builds(lambda c, k: HumanMessage(c, additional_kwargs=k), _contents, _marks),
    st.builds(lambda c, calls, k: AIMessage(c, tool_calls=calls, additional_kwargs=k), _contents, _calls, _marks),
    st.builds(
        lambda c, call_id, k: ToolMessage(c, tool_call_id=call_id, additional_kwargs=k),
        _contents,
        st.sampled_from(CALL_IDS),
        _marks,
    ),
    st.builds(lambda c: SystemMessage(c), _contents),
    st.builds(lambda c: ChatMessage(c, role="developer"), _words),
)
tapes = st.lists(_messages, max_size=len(IDS)).map(
    lambda row: [message.model_copy(update={"id": IDS[at]}) for at, message in enumerate(row)]
)

_key = st.sampled_from([*IDS, "gone"])
_turn = st.sampled_from([*TURN_IDS, "unknown"])
_anchor = st.one_of(
    st.builds(
        lambda t, a, b, s: {"kind": "turn", "turn_id": t, "first_message_id": a, "last_message_id": b, "seed": s},
        st.sampled_from(TURN_IDS),
        _key,
        _key,
        st.sampled_from(["", "seed text"]),
    ),
    st.builds(lambda t, k: {"kind": "note", "turn_id": t, "after_message_id": k, "text": "note"}, _turn, _key),
    st.builds(
        lambda t, k, c: {
            "kind": "fold",
            "turn_id": t,
            "through_message_id": k,
            "call_id": c,
            "text": "folded",
            "why": "",
        },
        _turn,
        _key,
        st.sampled_from(CALL_IDS),
    ),
    st.builds(
        lambda t, k: {"kind": "fold", "turn_id": t, "message_ids": k, "text": "", "why": ""}, _turn, st.lists(_key)
    ),
    st.builds(lambda k: {"kind": "trim", "before_message_id": k, "why": ""}, _key),
    st.builds(lambda k, n: {"kind": "shorten", "tokens": {k: n}, "why": ""}, _key, st.integers(200, 400)),
    st.builds(
        lambda k, t: {"kind": "summary", "before_message_id": k, "text": t, "why": ""}, _key, st.sampled_from(["", "S"])
    ),
)
anchor_lists = st.lists(_anchor, max_size=6).map(
    lambda row: [{**anchor, "id": f"a{at}"} for at, anchor in enumerate(row)]
)


def turn_anchor(turn_id: str, first: str, **more: Any) -> TurnAnchor:
    """The anchor of a turn of one user message."""
    return {"id": f"turn-{turn_id}", "kind": "turn", "turn_id": turn_id, "first_message_id": first, **more}  # type: ignore[typeddict-item]


def user(key: str, text: str = "a question") -> HumanMessage:
    return HumanMessage(text, id=key)


def says(turn_id: str, key: str, text: str, role: str = "finish", **kwargs: Any) -> AIMessage:
    marks = {"turn_id": turn_id, "round": 1, "role": role}
    return AIMessage(text, id=key, additional_kwargs={"turngraph": marks, **kwargs})


def calls(turn_id: str, key: str, ids: Sequence[str], text: str = "", name: str = "search") -> AIMessage:
    made = [{"name": name, "args": {"q": call_id}, "id": call_id} for call_id in ids]
    marks = {"turn_id": turn_id, "round": 1, "role": "narration"}
    return AIMessage(text, id=key, tool_calls=made, additional_kwargs={"turngraph": marks})


def result(turn_id: str, call_id: str, text: str = "a result", role: str = "tool", name: str = "search") -> ToolMessage:
    marks = {"turn_id": turn_id, "round": 1, "role": role, "status": "ok"}
    kwargs = {"turngraph": marks}
    return ToolMessage(text, id=f"r-{call_id}", tool_call_id=call_id, name=name, additional_kwargs=kwargs)


def long_thread(turns: int, rounds: int = 1, words: int = 20) -> tuple[list[BaseMessage], list[Anchor]]:
    """A thread of closed turns, each of a question, `rounds` tool rounds and an answer."""
    messages: list[BaseMessage] = []
    anchors: list[Anchor] = []
    for turn in range(turns):
        turn_id = f"turn{turn}"
        anchors.append(turn_anchor(turn_id, f"u{turn}"))
        messages.append(user(f"u{turn}", f"question {turn} " + "word " * words))
        for number in range(rounds):
            call_id = f"call-{turn}-{number}"
            messages.append(calls(turn_id, f"a{turn}-{number}", [call_id]))
            messages.append(result(turn_id, call_id, f"result {turn} {number} " + "data " * words))
        messages.append(says(turn_id, f"f{turn}", f"answer {turn}"))
    return messages, anchors


def texts_of(messages: Sequence[BaseMessage]) -> list[str]:
    return [message.text for message in messages]
