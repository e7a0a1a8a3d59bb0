"""B18 (openai-agents-python#719) and B19 (deer-flow PR#838): a limit never costs the work that was done."""

from typing import Any

from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import Request, Step, call, say
from tests.support.turns import chat, check_turn, run, thread
from turngraph.graph import TurnSettings, build_turn_graph


def search(query: str) -> str:
    """Search."""
    return f"results for {query}"


def always(request: Request) -> Step:
    if request.body.get("tool_choice") == "none":
        return say("Summary of what was found.")
    return call(("search", {"query": f"q{len(request.messages)}"}))


def test_b18_intermediate_results_are_in_reach_when_the_round_limit_is_hit(openai_server: Any) -> None:
    server = openai_server(always, strict=True)
    graph = build_turn_graph(chat(server), [search], checkpointer=InMemorySaver())
    output, events = run(graph, "find out", thread(), context=TurnSettings(max_rounds=2))
    assert output["answer"] == "Summary of what was found."
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "max_rounds")
    assert len([m for m in output["messages"] if m.type == "tool"]) == 2
    check_turn(output, events)


def test_b19_langgraphs_recursion_limit_never_fires_before_the_budget(openai_server: Any) -> None:
    server = openai_server(always, strict=True)
    graph = build_turn_graph(chat(server), [search], checkpointer=InMemorySaver())
    settings = TurnSettings(max_rounds=20)
    output, _ = run(graph, "find out", {**thread("default")}, context=settings)
    assert output["receipt"]["rounds"] == 20
    output, events = run(graph, "find out", {**thread("low"), "recursion_limit": 25}, context=settings)
    assert output["answer"] == "Summary of what was found."
    assert output["receipt"]["rounds"] < 20
    check_turn(output, events)
    after, events = run(graph, "and now?", {**thread("low"), "recursion_limit": 25}, context=settings)
    check_turn(after, events)
