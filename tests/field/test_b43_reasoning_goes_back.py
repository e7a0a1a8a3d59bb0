"""B43 (langchain#35059): reasoning fields reach the message, the stream, and the provider that wants them back."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import Request, Step, call, error, say
from tests.support.turns import chat, check_turn, run, thread
from turngraph.graph import TurnSettings, build_turn_graph
from turngraph.llm.profile import PROFILES
from turngraph.state.settings import ModelProfile


def search(query: str) -> str:
    """Search."""
    return f"found {query}"


def sent_back(server: Any, field: str) -> list[Any]:
    """That field of the assistant's messages in the last request."""
    return [each.get(field) for each in server.requests[-1].messages if each["role"] == "assistant"]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
@pytest.mark.parametrize("wanted", [True, False, None])
def test_b43_kept_shown_and_sent_back_where_it_is_wanted(openai_server: Any, field: str, wanted: bool | None) -> None:
    PROFILES.forget()
    first = call(("search", {"query": "x"}), text="Let me look.", reasoning="I should look.", reasoning_field=field)
    server = openai_server([first, say("Found.")], strict=True)
    graph = build_turn_graph(chat(server), [search], checkpointer=InMemorySaver())
    settings = TurnSettings(model_profile=ModelProfile(reasoning_back=wanted))
    output, events = run(graph, "go", thread(), context=settings)
    message = next(message for message in output["messages"] if isinstance(message, AIMessage))
    assert message.additional_kwargs["reasoning_content"] == "I should look."
    assert message.text == "Let me look."
    assert "".join(event["text"] for event in events if event["type"] == "thinking") == "I should look."
    assert sent_back(server, field) == ["I should look." if wanted else None]
    check_turn(output, events)


def test_b43_a_provider_that_refuses_without_it_is_understood(openai_server: Any) -> None:
    PROFILES.forget()

    def answer(request: Request) -> Step:
        said = [each for each in request.messages if each["role"] == "assistant"]
        if any("reasoning_content" not in each for each in said):
            return error(400, "The `reasoning_content` in the thinking mode must be passed back to the API.")
        return say("Found.") if said else call(("search", {"query": "x"}), reasoning="I should look.")

    server = openai_server(answer)
    graph = build_turn_graph(chat(server), [search], checkpointer=InMemorySaver())
    output, events = run(graph, "go", thread())
    assert (output["answer"], output["receipt"]["status"]) == ("Found.", "completed")
    assert sent_back(server, "reasoning_content") == ["I should look."]
    check_turn(output, events)
