"""B51 (langchain#30429): running totals in every chunk, usage twice, usage never."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import broken, raw, say, text_frame
from tests.support.turns import chat, check_turn, run, thread
from turngraph.graph import build_turn_graph


def totals(made: int) -> dict[str, int]:
    return {"prompt_tokens": 35, "completion_tokens": made, "total_tokens": 35 + made}


EVERY_CHUNK = raw([text_frame(word, usage=totals(at)) for at, word in enumerate(["a ", "b ", "c"])], finish="stop")
TWICE = say("a b c", usage=[totals(2), totals(2)])


@pytest.mark.parametrize("step", [EVERY_CHUNK, TWICE], ids=["every-chunk", "twice"])
def test_b51_the_largest_value_counts(openai_server: Any, step: Any) -> None:
    output, events = run(build_turn_graph(chat(openai_server([step])), checkpointer=InMemorySaver()), "go", thread())
    usage = output["receipt"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["estimated"]) == (35, 2, False)
    check_turn(output, events)


def test_b51_missing_usage_is_estimated_and_marked(openai_server: Any) -> None:
    server = openai_server([say("A few words of an answer.", usage=None)])
    output, events = run(build_turn_graph(chat(server), checkpointer=InMemorySaver()), "go", thread())
    usage = output["receipt"]["usage"]
    assert usage["estimated"]
    assert usage["input_tokens"] > 0
    assert 4 <= usage["output_tokens"] <= 40
    check_turn(output, events)


def test_b51_a_retry_does_not_count_the_round_twice(openai_server: Any) -> None:
    step = say("a b c", usage=totals(2))
    server = openai_server([broken(step, after=0), step])
    output, events = run(build_turn_graph(chat(server), checkpointer=InMemorySaver()), "go", thread())
    usage = output["receipt"]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["estimated"]) == (35, 2, False)
    assert output["receipt"]["rounds"] == 1
    check_turn(output, events)


def test_b51_a_provider_that_refuses_stream_options(openai_server: Any) -> None:
    server = openai_server([say("one", usage=totals(2))], no_stream_options=True)
    output, events = run(build_turn_graph(chat(server), checkpointer=InMemorySaver()), "go", thread())
    assert output["receipt"]["usage"]["output_tokens"] == 2
    check_turn(output, events)
