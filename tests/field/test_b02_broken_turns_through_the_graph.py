"""B02 through the graph: a thread whose last turn broke off inside its tools answers the next message, for ever."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from tests.support.scripts import Effects, calls, scripted
from tests.support.turns import check_turn, run, thread


def broken(*results: str) -> list[Any]:
    asked = [{"name": "fetch", "args": {"url": "x"}, "id": each} for each in ("A", "B")]
    return [HumanMessage("q"), AIMessage("", tool_calls=asked), *(ToolMessage(f"r{r}", tool_call_id=r) for r in results)]


@pytest.mark.parametrize("results", [(), ("B",), ("A",), ("B", "A"), ("A", "C"), ("C",), ("A", "A", "B")])
@pytest.mark.parametrize("path", ["input", "state"])
def test_b02_a_foreign_history_with_broken_pairs(results: tuple[str, ...], path: str) -> None:
    graph, model = scripted(["One.", calls(("note", {"text": "n"})), "Two.", "Three."], Effects().tools())
    if path == "state":
        graph.update_state(thread(), {"messages": broken(*results)}, as_node="finalize")
        output, _ = run(graph, "next", thread())
    else:
        output, _ = run(graph, {"messages": [*broken(*results), HumanMessage("next")]}, thread())
    assert output["answer"] == "One."
    for question in ("again", "and again"):
        run(graph, question, thread())
    model.assert_strict()
    assert len(model.requests) == 4


@pytest.mark.parametrize("how", ["continue", "message"])
def test_b02_a_node_that_died_inside_the_batch(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    effects = Effects()
    batch = calls(("note", {"text": "a"}), ("write", {"name": "b"}), ("fetch", {"url": "c"}))
    graph, model = scripted([batch, "Done.", "Next."], effects.tools())

    def die(*_: Any, **__: Any) -> Any:
        raise MemoryError("died")

    with monkeypatch.context() as patch:
        patch.setattr("turngraph.nodes.dispatch_tools.settle", die)
        with pytest.raises(MemoryError):
            run(graph, "go", thread())
    output, _ = run(graph, None if how == "continue" else "what now?", thread())
    assert sorted(effects) == ["note a", "write b"]
    assert model.results[:2] == ["noted", "wrote b"]
    model.assert_strict()
    check_turn(output)
    statuses = [each["status"] for each in graph.get_state(thread()).values["receipts"]]
    assert statuses == (["completed"] if how == "continue" else ["error", "completed"])
