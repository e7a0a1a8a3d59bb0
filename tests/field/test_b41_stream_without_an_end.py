"""B41 (hermes-agent#6847): a stream that ends cleanly in the middle, without any finish reason."""

from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import call, raw, say, text_frame
from tests.support.turns import chat, check_turn, run, thread
from turngraph.graph import build_turn_graph


def test_b41_a_call_that_is_cut_is_not_run(openai_server: Any) -> None:
    ran: list[str] = []

    def write(path: str, text: str = "") -> str:
        """Write a file."""
        ran.append(path)
        return "written"

    fragment = {"index": 0, "id": "c1", "type": "function", "function": {"name": "write", "arguments": '{"path": "a'}}
    cut = raw([{"choices": [{"index": 0, "delta": {"tool_calls": [fragment]}, "finish_reason": None}]}])
    steps = [cut, call(("write", {"path": "a.txt"}), ids=["c2"]), say("Done.")]
    server = openai_server(steps, strict=True)
    output, events = run(build_turn_graph(chat(server), [write], checkpointer=InMemorySaver()), "go", thread())
    assert (ran, output["answer"]) == (["a.txt"], "Done.")
    first = next(message for message in output["messages"] if isinstance(message, ToolMessage))
    assert "cut off" in first.text
    check_turn(output, events)


def test_b41_half_a_sentence_is_continued_once(openai_server: Any) -> None:
    server = openai_server([raw([text_frame("Half a sen")]), say("tence.", chunks=2)], strict=True)
    output, events = run(build_turn_graph(chat(server), checkpointer=InMemorySaver()), "go", thread())
    assert output["answer"] == "Half a sentence."
    check_turn(output, events)


def test_b41_a_stream_that_never_ends_well_is_reported(openai_server: Any) -> None:
    server = openai_server(lambda _: raw([text_frame("again ")]))
    output, events = run(build_turn_graph(chat(server), checkpointer=InMemorySaver()), "go", thread())
    assert output["answer"] == "again again "
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "truncated")
    assert len(server.requests) == 2
    check_turn(output, events)
