"""B29 (ds4#509): the output ends inside the thinking block; nothing of it is ever the answer."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import say
from tests.support.turns import check_turn, run, thread
from tests.support.wire import both_ways, check_requests, client
from turngraph.graph import build_turn_graph

TAGS = ["<think>", "<thinking>", "<THINK>", "\n<think>\n"]


@both_ways
@pytest.mark.parametrize("finish", ["length", "stop", None])
@pytest.mark.parametrize("tag", TAGS)
def test_b29_an_unclosed_block_is_reasoning(openai_server: Any, tag: str, finish: str | None, streamed: bool) -> None:
    server = openai_server([say(f"{tag}abc secret", chunks=2, finish=finish), say("Fine."), say("More.")], strict=True)
    graph = build_turn_graph(client(server, streamed), checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread())
    assert (output["answer"], output["receipt"]["status"]) == ("Fine.", "completed")
    assert output["receipt"]["rounds"] == 2
    assert not any("secret" in m.text for m in output["messages"])
    assert not any("secret" in e["text"] for e in events if e["type"] == "content")
    assert "secret" in "".join(e["text"] for e in events if e["type"] == "thinking")
    check_turn(output, events)
    output, events = run(graph, "and?", thread())
    assert output["answer"] == "More."
    check_turn(output, events)
    check_requests(server)


@both_ways
@pytest.mark.parametrize("finish", ["length", "stop"])
def test_b29_only_unclosed_blocks_end_as_an_empty_response(openai_server: Any, finish: str, streamed: bool) -> None:
    server = openai_server([say("<think>abc secret", finish=finish)] * 3, strict=True)
    output, events = run(build_turn_graph(client(server, streamed)), "go")
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "empty_response")
    assert "secret" not in output["answer"]
    check_turn(output, events)
    check_requests(server)


@both_ways
def test_b29_text_before_the_block_is_kept_and_continued(openai_server: Any, streamed: bool) -> None:
    server = openai_server([say("Half <think>abc secret", chunks=1, finish="length"), say("and half.")], strict=True)
    output, events = run(build_turn_graph(client(server, streamed)), "go")
    assert output["answer"] == "Half and half."
    assert output["receipt"]["status"] == "completed"
    check_turn(output, events)
    check_requests(server)
