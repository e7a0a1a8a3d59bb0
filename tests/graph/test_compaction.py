"""Compaction: old turns become a rolling summary, written by a hidden call, before a turn, between rounds, by hand."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from tests.support.openai_server import Request, ScriptedServer, Step, call, count, error, say
from tests.support.turns import WAYS, Way, chat, check_turn, run, thread, types
from turngraph.graph import InputError, TurnConflict, TurnSettings, acompact, build_turn_graph, compact
from turngraph.tools import ask_user, tool_policy

WINDOW = 4_096
SETTINGS = TurnSettings(context_window=WINDOW, max_output_tokens=500)
FIRST = "Plan the voyage from Zeebrugge, please."
SUMMARY = "The user planned a voyage; the ship Meridian was chosen, and coal was ordered for 1911."
PARAGRAPH = "the ship left port at dawn with coal grain and timber for the islands under a pale sky "


def is_summary(request: Request) -> bool:
    return "memory of a conversation" in str(request.body["messages"][0]["content"])


def answering(summary: Step | Callable[[Request], Step], reply: Callable[[Request], Step] | None = None) -> Any:
    """A server that writes summaries when it is asked for one, and a long answer to anything else."""

    def answer(request: Request) -> Step:
        if is_summary(request):
            return summary if isinstance(summary, Step) else summary(request)
        return reply(request) if reply is not None else say(f"Answer {request.number}. " + PARAGRAPH * 12)

    return answer


def talk(graph: Any, turns: int, settings: TurnSettings = SETTINGS, start: int = 0, **kwargs: Any) -> list[Any]:
    """Turns of one thread: (output, events) of each."""
    done = []
    for number in range(start, start + turns):
        asked = FIRST if number == 0 else f"Question {number}: {PARAGRAPH * 6}"
        done.append(run(graph, asked, thread(), context=settings, **kwargs))
    return done


def said(request: Request) -> str:
    return "\n".join(str(message["content"]) for message in request.body["messages"])


def anchors(graph: Any, kind: str) -> list[Any]:
    return [each for each in graph.get_state(thread()).values["anchors"] if each["kind"] == kind]


@pytest.mark.parametrize("way", WAYS)
def test_old_turns_become_a_summary_before_the_prompt_is_full(openai_server: Any, way: Way) -> None:
    server = openai_server(answering(say(SUMMARY)), strict=True, max_context=WINDOW)
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())
    turns = talk(graph, 14, way=way)
    calls = [request for request in server.requests if is_summary(request)]
    assert calls
    assert len(server.accepted) == len(server.requests), "a request was too large, or refused"
    assert all(count(request.body) <= WINDOW for request in server.requests)
    for number, (output, events) in enumerate(turns):
        check_turn(output, events)
        assert SUMMARY not in output["answer"]
        assert len(output["messages"]) == 2 * number + 2, "the tape lost messages, or the summary is on it"
    last = [request for request in server.requests if not is_summary(request)][-1]
    assert SUMMARY in said(last)
    assert "Background only" in said(last)
    assert FIRST in said(last), "the first request is gone"
    assert "Question 13" in said(last)
    assert "Question 2:" not in said(last)
    receipt = turns[-1][0]["receipt"]
    assert receipt["context"]["excluded_counts"]["summarized"]["count"] >= 10
    assert "out_of_budget" not in receipt["context"]["excluded_counts"]


def test_the_summary_call_is_hidden_and_counted(openai_server: Any) -> None:
    server = openai_server(answering(say(SUMMARY, reasoning="hm")), strict=True)
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())
    talk(graph, 4)
    before = len(server.requests)
    parts = list(
        graph.stream(
            {"messages": [("user", f"Question 4: {PARAGRAPH * 80}")]},
            thread(),
            context=SETTINGS,
            stream_mode=["messages", "custom", "updates", "values"],
        )
    )
    assert any(is_summary(request) for request in server.requests[before:])
    shown = [data[0].text for mode, data in parts if mode == "messages"]
    assert SUMMARY not in "".join(shown)
    assert "hm" not in shown
    events = [data for mode, data in parts if mode == "custom"]
    assert not any(SUMMARY in str(event) for event in events)
    compacted = next(event for event in events if event["type"] == "history_compacted")
    assert compacted["summarized"] >= 2
    receipt = events[-1]["receipt"]
    assert receipt["compactions"] == 1
    usage = sum(count(request.body) for request in server.requests[before:])
    assert receipt["usage"]["input_tokens"] == usage
    assert receipt["rounds"] == 1


def test_the_next_summary_is_made_of_the_last_one(openai_server: Any) -> None:
    numbers = iter(range(1, 100))
    server = openai_server(answering(lambda _: say(f"Summary {next(numbers)}: {SUMMARY}")), strict=True)
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())
    talk(graph, 16)
    calls = [request for request in server.requests if is_summary(request)]
    assert len(calls) >= 2
    assert "Summary 1:" in said(calls[1])
    last = [request for request in server.requests if not is_summary(request)][-1]
    assert said(last).count("[Summary of the earlier conversation]") == 1
    assert said(last).count(FIRST) == 1
    assert f"Summary {len(calls)}:" in said(last)
    stored = anchors(graph, "summary")
    assert len(stored) == len(calls)
    assert max(len(each["text"]) for each in stored) < 2_000


def test_between_rounds_of_a_turn(openai_server: Any) -> None:
    """A turn that grows makes room in what came before it, too."""

    def reply(request: Request) -> Step:
        looks = sum(message["role"] == "tool" for message in request.body["messages"])
        if "Look" in said(request) and looks < 5:
            return call(("look", {"place": f"place {request.number}"}), ids=[f"c{request.number}"])
        return say("Answer. " + PARAGRAPH * 8)

    def look(place: str) -> str:
        """Look at a place."""
        return f"{place}: {PARAGRAPH * 25}"

    server = openai_server(answering(say(SUMMARY), reply), strict=True)
    settings = SETTINGS.model_copy(update={"fold_at": 1.0, "protected_turns": 1})
    graph = build_turn_graph(chat(server), [tool_policy(look, effect="read")], checkpointer=InMemorySaver())
    talk(graph, 5, settings)
    before = len(server.requests)
    assert not any(is_summary(request) for request in server.requests)
    output, events = run(graph, "Look around.", thread(), context=settings)
    check_turn(output, events)
    made = server.requests[before:]
    assert any(is_summary(request) for request in made[1:]), "no room was made between the rounds"
    assert not is_summary(made[0])
    assert all("Look around." in said(request) for request in made if not is_summary(request))


@pytest.mark.parametrize(
    "broken",
    [say(""), say("   \n"), say("", reasoning="I think"), error(500, "down"), error(400, "context_length_exceeded")],
    ids=["empty", "blank", "reasoning only", "server error", "refused"],
)
def test_without_a_summary_nothing_changes_and_the_turn_goes_on(openai_server: Any, broken: Step) -> None:
    server = openai_server(answering(broken), strict=True, max_context=WINDOW)
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())
    turns = talk(graph, 14, SETTINGS.model_copy(update={"max_retries": 0}))
    for output, events in turns:
        check_turn(output, events)
        assert output["receipt"]["status"] == "completed"
        assert output["receipt"]["compactions"] == 0
        assert "history_compacted" not in types(events)
    assert anchors(graph, "summary") == []
    assert anchors(graph, "trim"), "whole turns make the room instead"
    last = [request for request in server.requests if not is_summary(request)][-1]
    assert "Question 13" in said(last)


def test_calls_are_bounded_in_a_turn(openai_server: Any) -> None:
    """A summary that never comes is asked for twice in a turn, not in every round."""

    def reply(request: Request) -> Step:
        rounds = sum(message["role"] == "tool" for message in request.body["messages"])
        if "Look" in said(request) and rounds < 8:
            return call(("look", {"place": f"p{request.number}"}), ids=[f"c{request.number}"])
        return say("Answer. " + PARAGRAPH * 8)

    def look(place: str) -> str:
        """Look at a place."""
        return f"{place}: nothing"

    server = openai_server(answering(say(""), reply), strict=True)
    settings = SETTINGS.model_copy(update={"compact_at": 0.1, "fold_at": 1.0})
    graph = build_turn_graph(chat(server), [tool_policy(look, effect="read")], checkpointer=InMemorySaver())
    talk(graph, 5, settings)
    before = len(server.requests)
    output, _ = run(graph, "Look around.", thread(), context=settings)
    assert output["receipt"]["rounds"] == 9
    assert sum(is_summary(request) for request in server.requests[before:]) == 2


def test_secrets_and_endless_summaries_are_not_kept(openai_server: Any) -> None:
    key = "sk-abcDEF1234567890abcDEF1234567890"
    server = openai_server(answering(say(f"The key is {key}. " + "again and again " * 3_000)), strict=True)
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())
    run(graph, f"My key is {key}, plan the voyage. {PARAGRAPH * 6}", thread(), context=SETTINGS)
    talk(graph, 10, start=1)
    text = anchors(graph, "summary")[0]["text"]
    assert key not in text
    assert text.count("[redacted]") == 2
    assert len(text) < 4_000
    assert key not in said(server.requests[-1])


def test_the_source_is_fitted_to_the_window(openai_server: Any) -> None:
    server = openai_server(answering(say(SUMMARY)), strict=True, max_context=WINDOW)
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())
    history = [message for n in range(40) for message in (("user", f"q{n} " + PARAGRAPH * 30), ("ai", f"a{n} " * 300))]
    output, _ = run(graph, {"messages": [*history, ("user", "And now?")]}, thread(), context=SETTINGS)
    assert output["receipt"]["status"] == "completed"
    assert all(count(request.body) <= WINDOW for request in server.requests)
    assert len(server.accepted) == len(server.requests)
    assert output["receipt"]["compactions"] == 1


class TestByHand:
    def graph(self, server: ScriptedServer, saver: Any) -> Any:
        return build_turn_graph(chat(server), [ask_user], checkpointer=saver)

    def test_all_turns_but_the_newest(self, openai_server: Any) -> None:
        server = openai_server(answering(say(SUMMARY)), strict=True)
        graph = self.graph(server, InMemorySaver())
        talk(graph, 4)
        done = compact(graph, "t1")
        assert done is not None
        assert done["summarized"] == 6
        assert done["summary"].endswith(SUMMARY)
        assert done["usage"]["input_tokens"] == count(server.requests[-1].body)
        state = graph.get_state(thread())
        assert state.next == ()
        assert len(state.values["messages"]) == 8
        output, events = run(graph, "And then?", thread(), context=SETTINGS)
        check_turn(output, events)
        assert SUMMARY in said(server.requests[-1])
        assert "Question 3" in said(server.requests[-1])
        assert "Question 2" not in said(server.requests[-1])
        assert output["receipt"]["compactions"] == 0
        assert len(state.values["receipts"]) == 4

    def test_nothing_to_do(self, openai_server: Any) -> None:
        server = openai_server(answering(say("")), strict=True)
        graph = self.graph(server, InMemorySaver())
        assert compact(graph, "t1") is None
        talk(graph, 1)
        assert compact(graph, "t1") is None
        assert len(server.requests) == 1
        talk(graph, 3, start=1)
        before = graph.get_state(thread()).config
        assert compact(graph, "t1") is None, "a blank summary was kept"
        assert graph.get_state(thread()).config == before

    def test_a_turn_that_waits_is_left_alone(self, openai_server: Any) -> None:
        asks = call(("ask_user", {"questions": [{"question": "Where to?"}]}), ids=["c1"])
        server = openai_server([asks, say("Done.")], strict=True)
        graph = self.graph(server, InMemorySaver())
        run(graph, "Go.", thread(), context=SETTINGS)
        with pytest.raises(InputError, match="not ended"):
            compact(graph, "t1")

    async def test_async_on_sqlite_and_never_beside_a_running_turn(self, openai_server: Any, tmp_path: Any) -> None:
        server = openai_server(answering(say(SUMMARY)), strict=True)
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "t.sqlite")) as saver:
            graph = self.graph(server, saver)
            for number in range(4):
                asked = {"messages": [HumanMessage(f"Question {number}: {PARAGRAPH * 6}")]}
                await graph.ainvoke(asked, thread(), context=SETTINGS)
            running = graph.astream({"messages": [HumanMessage("More.")]}, thread(), context=SETTINGS)
            await anext(running)
            with pytest.raises(TurnConflict):
                await acompact(graph, "t1")
            async for _ in running:
                pass
            done = await acompact(graph, "t1", keep_turns=2)
            assert done is not None
            assert done["summarized"] == 6
            assert (await graph.aget_state(thread())).values["answer"].startswith("Answer")
