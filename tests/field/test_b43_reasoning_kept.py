"""B43 (langchain#35059): reasoning in every field name that was seen is kept, shown as thinking, and sent back."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import call, say
from tests.support.turns import check_turn, run, thread
from tests.support.wire import both_ways, check_requests, client
from turngraph.graph import ModelProfile, TurnSettings, build_turn_graph

FIELDS = ["reasoning_content", "reasoning", "thinking", "reasoning_details"]
THOUGHT = "I should look first."


def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is empty"


def sent_back(message: dict[str, Any], field: str) -> str:
    value = message.get(field)
    return "".join(each.get("text", "") for each in value) if isinstance(value, list) else value or ""


@both_ways
@pytest.mark.parametrize("back", [True, False])
@pytest.mark.parametrize("field", FIELDS)
def test_b43_kept_and_sent_back_where_it_is_wanted(openai_server: Any, field: str, back: bool, streamed: bool) -> None:
    first = call(("look", {"place": "yard"}), text="Looking.", reasoning=THOUGHT, reasoning_field=field, chunks=5)
    server = openai_server([first, say("Empty.", reasoning="Clear.", reasoning_field=field), say("Yes.")], strict=True)
    graph = build_turn_graph(client(server, streamed), [look], checkpointer=InMemorySaver())
    settings = TurnSettings(model_profile=ModelProfile(reasoning_back=back))
    output, events = run(graph, "go", thread(), context=settings)
    stored = [m for m in output["messages"] if m.type == "ai"]
    assert [m.additional_kwargs.get("reasoning_content") for m in stored] == [THOUGHT, "Clear."]
    assert [m.text for m in stored] == ["Looking.", "Empty."]
    assert "".join(e["text"] for e in events if e["type"] == "thinking") == THOUGHT + "Clear."
    assert output["answer"] == "Empty."
    check_turn(output, events)
    assistant = next(each for each in server.requests[1].messages if each["role"] == "assistant")
    assert sent_back(assistant, field) == (THOUGHT if back else "")
    assert back or not {*FIELDS} & set(assistant)
    run(graph, "sure?", thread(), context=settings)
    check_requests(server)


@both_ways
def test_b43_a_provider_that_wants_it_back_gets_it(openai_server: Any, streamed: bool) -> None:
    """DeepSeek: the refusal itself teaches that reasoning has to be sent back."""
    from tests.support.openai_server import Request, Step, error

    def answer(request: Request) -> Step:
        assistants = [each for each in request.messages if each["role"] == "assistant"]
        if not assistants:
            return call(("look", {"place": "yard"}), reasoning=THOUGHT)
        if not assistants[0].get("reasoning_content"):
            return error(400, "The reasoning_content in the thinking mode must be passed back to the API.")
        return say("Empty.")

    server = openai_server(answer, strict=True)
    output, events = run(build_turn_graph(client(server, streamed), [look]), "go")
    assert output["answer"] == "Empty."
    assert output["receipt"]["status"] == "completed"
    assert len(server.requests) == 3
    check_turn(output, events)
    check_requests(server)
