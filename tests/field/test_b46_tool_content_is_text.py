"""B46 (langchain PR#31913): whatever a tool returns, the wire carries one string."""

from dataclasses import dataclass
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import Request, Step, call, error, say
from tests.support.turns import check_turn, run, thread
from tests.support.wire import both_ways, check_requests, client, results_in
from turngraph.graph import TurnSettings, build_turn_graph

DEEPSEEK = (
    "Failed to deserialize the JSON body into the target type: messages[3]: invalid type: sequence, expected a string"
)


@dataclass
class Thing:
    size: int


RETURNS: dict[str, tuple[Any, list[str]]] = {
    "text blocks": ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], ["a", "b"]),
    "None": (None, ["no output"]),
    "bytes": (b"\x89PNG\x00\xff", ["bytes"]),
    "an object": (Thing(3), ["3"]),
    "a dict": ({"size": 3}, ['"size": 3']),
    "an image block": (
        [{"type": "text", "text": "a"}, {"type": "image", "base64": "AAAA", "mime_type": "image/png"}],
        ["a", "image"],
    ),
    "an empty text": ("", ["no output"]),
    "an empty list": ([], ["[]"]),
    "NUL and surrogates": ("a\x00b\ud800c", ["a", "b", "c"]),
    "a number": (7, ["7"]),
}


def text_only(then: list[Step]) -> Any:
    """A server that takes nothing but strings in tool messages."""

    def answer(request: Request) -> Step:
        lists = any(not isinstance(each["content"], str) for each in request.messages if each["role"] == "tool")
        return error(400, DEEPSEEK) if lists else then.pop(0)

    return answer


@both_ways
@pytest.mark.parametrize(("value", "holds"), RETURNS.values(), ids=RETURNS)
def test_b46_one_string_on_the_wire(openai_server: Any, value: Any, holds: list[str], streamed: bool) -> None:
    def fetch() -> Any:
        """Fetch something."""
        return value

    server = openai_server(text_only([call(("fetch", {})), say("Fetched."), say("Yes.")]))
    graph = build_turn_graph(client(server, streamed), [fetch], checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread())
    assert output["answer"] == "Fetched."
    check_turn(output, events)
    [sent] = results_in(server.requests[-1])
    assert all(part in sent for part in holds), sent
    assert "AAAA" not in sent
    run(graph, "sure?", thread())
    check_requests(server)


def test_b46_five_megabytes_are_capped_and_say_so(openai_server: Any) -> None:
    original = "".join(f"line {n}\n" for n in range(500_000))

    def fetch() -> str:
        """Fetch something."""
        return original

    server = openai_server(
        text_only(
            [
                call(("fetch", {})),
                call(("read_tool_result", {"call_id": "call_0_fetch", "offset": 100_000})),
                say("Read."),
            ]
        )
    )
    graph = build_turn_graph(client(server), [fetch], checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread(), context=TurnSettings(max_tool_output_tokens=500))
    assert output["answer"] == "Read."
    check_turn(output, events)
    capped, more = results_in(server.requests[-1])
    assert len(capped) < 8_000
    assert capped.startswith("line 0\n")
    assert "line 499999" in capped
    assert "read_tool_result" in capped
    assert original[100_000:100_200] in more
    check_requests(server)


def test_b46_many_medium_results_fit_together(openai_server: Any) -> None:
    """deepagents PR#3405: each result is below its cap, all of them are above the window."""

    def fetch(part: int) -> str:
        """Fetch a part."""
        return f"part {part}: " + "word " * 1_500

    many = call(*(("fetch", {"part": n}) for n in range(12)))
    server = openai_server([many, say("Read.")], strict=True, max_context=8_192)
    graph = build_turn_graph(client(server), [fetch], checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread(), context=TurnSettings(context_window=8_192, max_output_tokens=500))
    assert (output["answer"], output["receipt"]["status"]) == ("Read.", "completed")
    assert not any(each.refused for each in server.requests)
    check_turn(output, events)
    check_requests(server)
