"""A model that cannot be loaded: a clear error before anything is saved where that is possible, else a valid thread."""

import asyncio
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph

from tests.support.turns import check_turn, thread
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm import ScriptedModel
from turngraph.llm.loading import ModelLoadError
from turngraph.state.errors import TurnError

GO: Any = {"messages": [("user", "go")]}

UNLOADABLE = {
    "no colon": ("gpt-5-mini", "openai:gpt-5-mini"),
    "no such provider": ("nosuch:model", "nosuch:model"),
    "no key": ("openai:gpt-5-mini", "OPENAI_API_KEY"),
}


@pytest.fixture(params=UNLOADABLE.values(), ids=UNLOADABLE)
def unloadable(request: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "TURNGRAPH_MODEL"):
        monkeypatch.delenv(name, raising=False)
    found: tuple[str, str] = request.param
    return found


def go(graph: Any, form: str, config: Any, input: Any = GO, **options: Any) -> Any:
    if form == "sync":
        return graph.invoke(input, config, **options)
    return asyncio.run(graph.ainvoke(input, config, **options))


@pytest.mark.parametrize("form", ["sync", "async"])
@pytest.mark.parametrize("where", ["built", "settings", "environment", "fallback"])
def test_it_is_refused_with_nothing_saved(
    unloadable: tuple[str, str], form: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, words = unloadable
    options: dict[str, Any] = {}
    given: dict[str, Any] = {"model": ScriptedModel(["Fine."] * 4)}
    match where:
        case "built":
            given["model"] = name
        case "settings":
            options["context"] = TurnSettings(model=name)
        case "environment":
            given["model"] = None
            monkeypatch.setenv("TURNGRAPH_MODEL", name)
        case "fallback":
            given["fallback_models"] = [name]
    saver = InMemorySaver()
    graph = build_turn_graph(**given, checkpointer=saver)
    with pytest.raises(ModelLoadError, match=words):
        go(graph, form, thread(), **options)
    assert list(saver.list(None)) == []
    usable = build_turn_graph(ScriptedModel(["Fine."]), checkpointer=saver)
    output = go(usable, form, thread())
    check_turn(output)
    assert len(usable.get_state(thread()).values["receipts"]) == 1


@pytest.mark.parametrize("form", ["sync", "async"])
@pytest.mark.parametrize("then", ["continue", "new message"])
def test_as_on_a_server_the_thread_takes_the_next_message(unloadable: tuple[str, str], form: str, then: str) -> None:
    """A server has stored the input: the error is typed, and the turn that never began has its receipt."""
    saver = InMemorySaver()
    served = {"configurable": {"thread_id": "t1", "langgraph_request_id": "r1"}}
    graph = build_turn_graph(unloadable[0], checkpointer=saver)
    with pytest.raises(TurnError, match=unloadable[1]):
        go(graph, form, served)
    usable = build_turn_graph(ScriptedModel(["Fine."]), checkpointer=saver)
    output = go(usable, form, served, None if then == "continue" else {"messages": [("user", "and now?")]})
    check_turn(output)
    receipts = usable.get_state(thread()).values["receipts"]
    if then == "continue":
        assert [receipt["status"] for receipt in receipts] == ["completed"]
        assert receipts[0]["error"] is None
    else:
        assert [receipt["status"] for receipt in receipts] == ["error", "completed"]
        assert receipts[0]["error"]["type"] == "ModelLoadError"
        assert receipts[0]["stop_reason"] == "provider_error"


@pytest.mark.parametrize("form", ["sync", "async"])
def test_inside_a_parent_the_error_is_typed_and_the_next_message_is_answered(
    unloadable: tuple[str, str], form: str
) -> None:
    saver = InMemorySaver()

    def parent(model: Any) -> Any:
        builder = StateGraph(MessagesState)
        builder.add_node("turn", build_turn_graph(model))
        builder.add_edge(START, "turn")
        builder.add_edge("turn", END)
        return builder.compile(checkpointer=saver)

    with pytest.raises(ModelLoadError, match=unloadable[1]):
        go(parent(unloadable[0]), form, thread())
    output = go(parent(ScriptedModel(["Fine."])), form, thread(), {"messages": [("user", "and now?")]})
    assert [m.text for m in output["messages"]] == ["go", "and now?", "Fine."]
