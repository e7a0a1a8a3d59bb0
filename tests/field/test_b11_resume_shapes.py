"""B11 (CopilotKit#3096, agent-chat-ui#85): whatever a client resumes with has a defined meaning, or changes nothing."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.support.openai_server import call, say
from tests.support.turns import WAYS, Way, chat, check_turn, pause_of, run, thread
from turngraph.graph import ResumeError, build_turn_graph
from turngraph.tools import ask_user, tool_policy

ASK = call(("ask_user", {"questions": [{"question": "Which colour?", "id": "colour"}]}))
NO_ANSWER = "The user gave no answer."


def asked(openai_server: Any, way: Way = "invoke") -> tuple[Any, Any]:
    server = openai_server([ASK, say("Thanks.")], strict=True)
    graph = build_turn_graph(chat(server), [ask_user], checkpointer=InMemorySaver())
    output, _ = run(graph, "go", thread(), way=way)
    assert pause_of(output)["turngraph"]["requests"][0]["questions"][0]["question"] == "Which colour?"
    return graph, server


SHAPES: list[Any] = [
    ("red", "red"),
    ("", NO_ANSWER),
    ("   ", NO_ANSWER),
    (None, NO_ANSWER),
    ('{"a":1}', '{"a":1}'),
    ('{"type": "respond", "message": "red"}', "red"),
    ({"a": 1}, '{"a": 1}'),
    ({"answer": ""}, NO_ANSWER),
    ({"answer": "red"}, "red"),
    ({"colour": "red"}, "red"),
    (["x"], "x"),
    ([""], NO_ANSWER),
    (7, "7"),
    (False, "false"),
    (0, "0"),
    ([HumanMessage("red")], "red"),
    ([AIMessage("Which?"), HumanMessage([{"type": "text", "text": "dark red"}])], "dark red"),
    ([{"role": "user", "content": "red"}], "red"),
    ([{"type": "response", "args": "the whole answer"}], "the whole answer"),
    ([{"decisions": [{"type": "respond", "message": "red"}]}], "red"),
    ({"decisions": [{"type": "respond", "answers": {"colour": ["red"]}}]}, "red"),
]


@pytest.mark.parametrize(("value", "text"), SHAPES)
def test_b11_every_shape_is_the_one_tool_message_of_the_call(openai_server: Any, value: Any, text: str) -> None:
    graph, server = asked(openai_server)
    output, _ = run(graph, Command(resume=value), thread(), way="invoke")
    assert [message.text for message in output["messages"] if message.type == "tool"] == [text]
    assert server.requests[-1].said("tool") == text
    assert output["answer"] == "Thanks."
    check_turn(output)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", [None, "", [HumanMessage("")]])
def test_b11_a_blank_answer_is_an_explicit_one_however_it_runs(openai_server: Any, way: Way, value: Any) -> None:
    graph, _ = asked(openai_server, way)
    output, _ = run(graph, Command(resume=value), thread(), way=way)
    assert [message.text for message in output["messages"] if message.type == "tool"] == [NO_ANSWER]
    check_turn(output)


@pytest.mark.parametrize("value", [{}, [], ["red", "blue"], {"answers": {"size": "L"}}, {"type": "approve"}, b"red"])
def test_b11_what_is_not_certain_is_refused_and_changes_nothing(openai_server: Any, value: Any) -> None:
    graph, _ = asked(openai_server)
    before = graph.get_state(thread())
    with pytest.raises(ResumeError, match="Resume with"):
        run(graph, Command(resume=value), thread())
    assert graph.get_state(thread()).config == before.config
    output, _ = run(graph, Command(resume="red"), thread())
    check_turn(output)


@pytest.mark.parametrize(
    ("value", "runs"),
    [("approve", 1), (["approve"], 1), (True, 1), ("", 0), (None, 0), (False, 0), ("use bob's address", 0)],
)
def test_b11_only_an_unmistakable_yes_runs_a_tool(openai_server: Any, value: Any, runs: int) -> None:
    sent: list[str] = []

    def send(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "sent"

    server = openai_server([call(("send", {"to": "ann"})), say("ok")], strict=True)
    tools = [tool_policy(send, permission="ask", effect="write")]
    graph = build_turn_graph(chat(server), tools, checkpointer=InMemorySaver())
    run(graph, "go", thread())
    output, _ = run(graph, Command(resume=value), thread())
    assert len(sent) == runs
    if isinstance(value, str) and value and not runs:
        assert value in server.requests[-1].said("tool")
    check_turn(output)
