"""Context overflow, said or silent: room is made once, the call is made once more, a second one ends the turn."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import Request, Step, call, count, error, say
from tests.support.turns import check_turn, finish_text, run, thread, types
from tests.support.wire import both_ways, check_requests, client
from turngraph.graph import ProviderError, TurnSettings, build_turn_graph
from turngraph.llm.fault_overflow import stated_limit

SAID = error(
    400,
    {
        "error": {
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
            "code": 400,
            "n_prompt_tokens": 9_000,
            "n_ctx": 4_096,
        }
    },
)
WORDED = error(400, "prompt is too long: 213462 tokens > 200000 maximum")
NO_BODY = error(413, b"")
BY_REASON = say("", finish="model_context_window_exceeded")
BY_USAGE = say("", finish="length", usage={"prompt_tokens": 32_700, "completion_tokens": 0, "total_tokens": 32_700})
OVERFLOWS = {"code": SAID, "wording": WORDED, "no body": NO_BODY, "finish reason": BY_REASON, "input cut": BY_USAGE}

HISTORY = [
    message
    for n in range(20)
    for message in (HumanMessage(f"question {n} " + "word " * 400), AIMessage(f"answer {n} " + "word " * 400))
]
TURN = {"messages": [*HISTORY, HumanMessage("the question")]}


def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is empty " + "word " * 200


def bound(limit: int, then: Any) -> Any:
    """A server whose real window is smaller than anybody knows."""

    def answer(request: Request) -> Step:
        if count(request.body) > limit:
            return error(
                400, f"This model's maximum context length is {limit} tokens. However, your messages resulted in more."
            )
        step: Step = then(request)
        return step

    return answer


@both_ways
@pytest.mark.parametrize("overflow", OVERFLOWS.values(), ids=OVERFLOWS)
def test_room_is_made_once_and_the_call_made_once_more(openai_server: Any, overflow: Step, streamed: bool) -> None:
    server = openai_server([overflow, say("It fits now."), say("Next.")], strict=True)
    graph = build_turn_graph(client(server, streamed), [look], checkpointer=InMemorySaver())
    output, events = run(graph, TURN, thread())
    assert (output["answer"], output["receipt"]["status"]) == ("It fits now.", "completed")
    assert output["receipt"]["rounds"] == 1
    first, second = server.requests
    assert count(second.body) < 0.7 * count(first.body)
    assert "the question" in second.said("user")
    assert len(output["messages"]) == len(HISTORY) + 2, "the tape lost messages"
    assert "history_trimmed" in types(events)
    assert output["receipt"]["context"]["excluded_counts"]["out_of_budget"]["count"] > 0
    check_turn(output, events)
    output, events = run(graph, "more", thread())
    assert output["answer"] == "Next."
    assert count(server.requests[-1].body) < count(first.body), "the room that was made was forgotten"
    check_requests(server)


@both_ways
@pytest.mark.parametrize("second", OVERFLOWS.values(), ids=OVERFLOWS)
@pytest.mark.parametrize("first", [SAID, BY_REASON], ids=["said", "silent"])
def test_the_second_overflow_ends_the_turn(openai_server: Any, first: Step, second: Step, streamed: bool) -> None:
    server = openai_server([first, second, say("Next.")], strict=True)
    graph = build_turn_graph(client(server, streamed), [look], checkpointer=InMemorySaver())
    output, events = run(graph, TURN, thread())
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "context_window")
    assert output["receipt"]["error"]["message"]
    assert "does not fit" in output["answer"]
    assert len(server.requests) == 2
    check_turn(output, events)
    output, events = run(graph, "more", thread())
    assert (output["answer"], output["receipt"]["status"]) == ("Next.", "completed")
    check_turn(output, events)
    check_requests(server)


@both_ways
def test_the_answer_comes_from_what_is_there(openai_server: Any, streamed: bool) -> None:
    step = call(("look", {"place": "yard"}), text="The yard it is.")
    server = openai_server([step, SAID, SAID], strict=True)
    output, events = run(build_turn_graph(client(server, streamed), [look]), "go")
    assert output["answer"] == "The yard it is."
    assert output["receipt"]["stop_reason"] == "context_window"
    check_turn(output, events)
    server = openai_server([call(("look", {"place": "yard"})), SAID, SAID], strict=True)
    output, events = run(build_turn_graph(client(server, streamed), [look]), "go")
    assert "yard is empty" in output["answer"]
    check_turn(output, events)


def test_a_rate_limit_that_looks_like_an_overflow_makes_no_room(openai_server: Any) -> None:
    groq = error(
        413,
        "Request too large for model `llama` on tokens per minute (TPM): Limit 6000, Requested 9000",
        headers={"Retry-After": "0"},
    )
    server = openai_server([groq, say("Later it works.")], strict=True)
    output, events = run(build_turn_graph(client(server)), TURN)
    assert output["answer"] == "Later it works."
    first, second = server.requests
    assert first.messages == second.messages
    check_turn(output, events)


def test_a_small_real_window_is_found_out_in_the_middle_of_a_turn(openai_server: Any) -> None:
    """Results of the running turn are what does not fit; the question is always sent."""

    looked: list[int] = []

    def more(_: Request) -> Step:
        looked.append(len(looked))
        at = looked[-1]
        return call(("look", {"place": f"room {at}"}), ids=[f"c{at}"]) if at < 6 else say("Seen all.")

    server = openai_server(bound(1_500, more), strict=True)
    graph = build_turn_graph(client(server), [look], checkpointer=InMemorySaver())
    settings = TurnSettings(context_window=3_000, max_output_tokens=200)
    output, events = run(graph, "look everywhere", thread(), context=settings)
    assert (output["answer"], output["receipt"]["status"]) == ("Seen all.", "completed")
    assert all("look everywhere" in each.said("user") for each in server.requests)
    assert any(each.step is not None and each.step.status == 400 for each in server.requests), "nothing overflowed"
    check_turn(output, events)
    check_requests(server)


@pytest.mark.parametrize("limit", [1_100, 1_800, 3_000])
def test_the_window_that_the_provider_names_is_believed(openai_server: Any, limit: int) -> None:
    """Half of a window that was thought ten times as large would not fit either."""
    server = openai_server(bound(limit, lambda _: say("It fits now.")), strict=True)
    output, events = run(build_turn_graph(client(server)), TURN)
    assert (output["answer"], output["receipt"]["status"]) == ("It fits now.", "completed")
    assert len(server.requests) == 2
    assert "the question" in server.requests[1].said("user")
    check_turn(output, events)


LIMITS = [
    (8192, "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens."),
    (
        8191,
        "This model's maximum context length is 8191 tokens, however you requested 10346 tokens (10346 in your prompt; 5 for the completion).",
    ),
    (None, "Your input exceeds the context window of this model"),
    (922000, "Input tokens exceed the configured limit of 922000 tokens. Your messages resulted in 1751400 tokens."),
    (131072, "Requested token count exceeds the model's maximum context length of 131072 tokens"),
    (200000, "prompt is too long: 213462 tokens > 200000 maximum"),
    (200000, "input length and max_tokens exceed context limit: 170636 + 34048 > 200000, decrease input length"),
    (1048575, "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)"),
    (
        4096,
        "{'message': 'the request exceeds the available context size, try increasing it', 'n_prompt_tokens': 9000, 'n_ctx': 4096}",
    ),
    (202745, "Range of input length should be [1, 202745]"),
    (4096, "total tokens exceeds the model's max of 4096"),
    (
        262144,
        "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your prompt contains at least 262145 input tokens",
    ),
    (5000, "The input (6000 tokens) is longer than the model's context length (5000 tokens)."),
    (4096, "Prompt contains 9000 tokens and 0 draft tokens, too large for model with 4096 maximum context length"),
    (None, "prompt too long; exceeded max context length by 300 tokens"),
    (1024, "request (1527 tokens) exceeds the available context size (1024 tokens), try increasing it"),
]


@pytest.mark.parametrize(("limit", "words"), LIMITS)
def test_the_limit_is_read_from_the_words(limit: int | None, words: str) -> None:
    assert stated_limit(words) == limit


def test_text_before_a_silent_overflow_is_kept_and_continued(openai_server: Any) -> None:
    server = openai_server([say("Half a", finish="model_context_window_exceeded"), say("n answer.")], strict=True)
    output, events = run(build_turn_graph(client(server)), "go")
    assert output["answer"] == "Half an answer."
    assert finish_text(events) == "Half an answer."
    check_turn(output, events)


def test_an_overflow_in_the_forced_finish_makes_room_too(openai_server: Any) -> None:
    server = openai_server([call(("look", {"place": "yard"})), SAID, say("In short: empty.")], strict=True)
    graph = build_turn_graph(client(server), [look])
    output, events = run(graph, "go", context=TurnSettings(max_rounds=1))
    assert (output["answer"], output["receipt"]["stop_reason"]) == ("In short: empty.", "max_rounds")
    check_turn(output, events)


def test_an_overflow_is_no_provider_error(openai_server: Any) -> None:
    server = openai_server([error(401, "bad key")])
    with pytest.raises(ProviderError):
        run(build_turn_graph(client(server)), "go")
    server = openai_server([SAID, SAID])
    output, events = run(build_turn_graph(client(server)), "go")
    assert output["receipt"]["stop_reason"] == "context_window"
    check_turn(output, events)
