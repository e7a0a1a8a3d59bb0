"""B30 (renderers PR#80): a call drafted inside the thinking block and made after it runs once."""

from typing import Any

import pytest

from tests.support.openai_server import Step, call, say
from tests.support.turns import check_turn, run
from tests.support.wire import both_ways, check_requests, client
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.tools import tool_policy

CALL = '<tool_call>{"name": "pay", "arguments": {"to": "Ann"}}</tool_call>'
DRAFT = f"<think>maybe {CALL}</think>"


def paying(server: Any, streamed: bool, paid: list[str]) -> Any:
    def pay(to: str) -> str:
        """Pay somebody."""
        paid.append(to)
        return f"paid {to}"

    return build_turn_graph(client(server, streamed), [tool_policy(pay, effect="write")])


@both_ways
@pytest.mark.parametrize("text_tools", ["auto", "always"])
@pytest.mark.parametrize("chunks", [1, 7, None])
def test_b30_a_draft_and_a_call_are_one_call(
    openai_server: Any, chunks: int | None, text_tools: Any, streamed: bool
) -> None:
    paid: list[str] = []
    server = openai_server([say(DRAFT + CALL, chunks=chunks), say("Done.")], strict=True)
    graph = paying(server, streamed, paid)
    output, events = run(graph, "pay Ann", context=TurnSettings(text_tools=text_tools))
    assert paid == ["Ann"]
    assert output["answer"] == "Done."
    shown = "".join(e["text"] for e in events if e["type"] == "content")
    assert "tool_call" not in shown
    assert "maybe" not in shown
    check_turn(output, events)
    check_requests(server)


@both_ways
@pytest.mark.parametrize(
    "step",
    [
        say(f"{DRAFT}I will not pay."),
        say("I will not pay.", reasoning=f"maybe {CALL}"),
        say(f"<thinking>```\n{CALL}\n```</thinking>I will not pay."),
    ],
    ids=["inline", "field", "fenced"],
)
def test_b30_a_call_only_inside_is_never_run(openai_server: Any, step: Step, streamed: bool) -> None:
    paid: list[str] = []
    server = openai_server([step], strict=True)
    output, events = run(paying(server, streamed, paid), "pay Ann")
    assert paid == []
    assert output["answer"] == "I will not pay."
    assert output["receipt"]["tool_calls"] == 0
    check_turn(output, events)


@both_ways
def test_b30_a_native_call_is_authoritative(openai_server: Any, streamed: bool) -> None:
    paid: list[str] = []
    native = call(("pay", {"to": "Ann"}), text=DRAFT + CALL)
    server = openai_server([native, say("Done.")], strict=True)
    output, events = run(paying(server, streamed, paid), "pay Ann")
    assert paid == ["Ann"]
    assert output["receipt"]["tool_calls"] == 1
    check_turn(output, events)
    check_requests(server)
