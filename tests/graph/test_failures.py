"""Empty, cut and failing model calls through the compiled graph: every one ends in a documented way."""

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import broken, call, error, say
from tests.support.turns import WAYS, Way, chat, check_turn, finish_text, roles, run, thread, types
from turngraph.graph import ProviderError, TurnSettings, build_turn_graph


def look(place: str) -> str:
    """Look at a place."""
    return f"nothing in {place}"


LOOK = call(("look", {"place": "yard"}), text="Looking.")


def test_an_empty_message_is_nudged_and_the_next_one_is_the_answer(openai_server: Any) -> None:
    server = openai_server([say(""), say("Here.")], strict=True)
    output, events = run(build_turn_graph(chat(server), [look]), "go")
    assert output["answer"] == "Here."
    assert output["receipt"]["status"] == "completed"
    assert output["receipt"]["rounds"] == 2
    assert "no visible text" in server.requests[-1].said("user")
    check_turn(output, events)


def test_a_nudge_is_never_seen_in_a_later_turn_or_on_the_tape(openai_server: Any) -> None:
    server = openai_server([say(""), say("Here."), say("Again.")], strict=True)
    graph = build_turn_graph(chat(server), [look], checkpointer=InMemorySaver())
    run(graph, "go", thread())
    output, _ = run(graph, "more", thread())
    assert "no visible text" not in server.requests[-1].said("user")
    assert not any("no visible text" in m.text for m in output["messages"])
    check_turn(output)


def test_a_cut_answer_is_continued_and_joined_without_a_separator(openai_server: Any) -> None:
    server = openai_server(
        [say("One, two, th", finish="length"), say("ree, fo", finish="length"), say("ur.")], strict=True
    )
    output, events = run(build_turn_graph(chat(server)), "count")
    assert output["answer"] == "One, two, three, four."
    assert output["receipt"]["status"] == "completed"
    assert finish_text(events) == output["answer"]
    assert [m.text for m in output["messages"] if m.type == "ai"] == ["One, two, th", "ree, fo", "ur."]
    check_turn(output, events)


def test_an_answer_still_cut_after_all_continuations_is_truncated(openai_server: Any) -> None:
    server = openai_server([say("a", finish="length"), say("b", finish="length")], strict=True)
    output, events = run(build_turn_graph(chat(server)), "go", context=TurnSettings(max_continuations=1))
    assert output["answer"] == "ab"
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "truncated")
    check_turn(output, events)


def test_calls_whose_arguments_were_cut_never_run(openai_server: Any) -> None:
    cut = call({"index": 0, "id": "c1", "name": "look", "arguments": '{"place": "ya'}, finish="length")
    server = openai_server([cut, LOOK, say("Done.")], strict=True)
    output, events = run(build_turn_graph(chat(server), [look]), "go")
    assert output["answer"] == "Done."
    first = next(m for m in output["messages"] if m.type == "tool")
    assert first.status == "error"
    assert "cut off" in first.text
    check_turn(output, events)


def test_calls_that_are_cut_again_and_again_end_in_a_forced_finish(openai_server: Any) -> None:
    def cut(n: int) -> Any:
        return call({"index": 0, "id": f"c{n}", "name": "look", "arguments": '{"place": "ya'}, finish="length")

    server = openai_server([cut(1), cut(2), cut(3), say("I gave up.")], strict=True)
    output, events = run(build_turn_graph(chat(server), [look]), "go")
    assert output["answer"] == "I gave up."
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "truncated")
    check_turn(output, events)


@pytest.mark.parametrize("way", WAYS)
def test_a_failure_in_the_first_round_is_raised_and_the_thread_stays_valid(openai_server: Any, way: Way) -> None:
    server = openai_server([error(401, "bad key"), say("Now it works.")], strict=True)
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())
    with pytest.raises(ProviderError) as raised:
        run(graph, "hi", thread(), way=way)
    assert raised.value.fault.kind == "auth"
    output, _ = run(graph, None, thread(), way=way)
    assert output["answer"] == "Now it works."
    assert output["receipt"]["status"] == "completed"
    assert len(server.requests) == 2


def test_a_turn_that_failed_gets_its_receipt_from_the_next_one(openai_server: Any) -> None:
    server = openai_server([error(401, "bad key"), say("Hello.")], strict=True)
    graph = build_turn_graph(chat(server), checkpointer=InMemorySaver())
    with pytest.raises(ProviderError):
        run(graph, "hi", thread())
    output, _ = run(graph, "hello?", thread())
    first, second = graph.get_state(thread()).values["receipts"]
    assert (first["status"], first["stop_reason"]) == ("error", "provider_error")
    assert first["error"]["message"]
    assert second["status"] == "completed"
    check_turn(output)


def test_a_failure_after_work_was_gathered_ends_in_an_answer(openai_server: Any) -> None:
    server = openai_server([LOOK, error(400, "odd"), say("From what I saw: nothing.")], strict=True)
    output, events = run(build_turn_graph(chat(server), [look]), "go")
    assert output["answer"] == "From what I saw: nothing."
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("incomplete", "provider_error")
    assert output["receipt"]["error"]["type"]
    check_turn(output, events)


def test_a_failure_in_the_last_call_too_lists_the_results(openai_server: Any) -> None:
    server = openai_server([LOOK, error(400, "odd"), error(400, "odd")], strict=True)
    output, events = run(build_turn_graph(chat(server), [look]), "go")
    assert "nothing in yard" in output["answer"]
    assert output["receipt"]["stop_reason"] == "provider_error"
    assert roles(events) == ["narration", "narration", "narration", "finish"]
    check_turn(output, events)


def test_a_transport_fault_before_output_is_retried(openai_server: Any) -> None:
    server = openai_server([error(503, "busy", headers={"Retry-After": "0"}), say("Fine.")], strict=True)
    output, events = run(build_turn_graph(chat(server)), "hi")
    assert output["answer"] == "Fine."
    assert output["receipt"]["rounds"] == 1
    check_turn(output, events)


def test_text_that_was_streamed_when_a_stream_broke_is_kept_and_marked(openai_server: Any) -> None:
    server = openai_server([broken(say("The first half", chunks=4)), say("The whole answer.")], strict=True)
    output, events = run(build_turn_graph(chat(server)), "hi")
    assert output["answer"] == "The whole answer."
    assert output["receipt"]["status"] == "incomplete"
    kept = next(m for m in output["messages"] if m.additional_kwargs.get("turngraph", {}).get("cut"))
    assert kept.additional_kwargs["turngraph"]["cut"] == "broken"
    check_turn(output, events)


def test_nothing_is_emitted_after_turn_finished(openai_server: Any) -> None:
    server = openai_server([LOOK, say("ok")], strict=True)
    _, events = run(build_turn_graph(chat(server), [look]), "go")
    assert types(events).count("turn_finished") == 1
    assert types(events)[-1] == "turn_finished"
    assert all({"type", "turn_id", "round"} <= set(event) for event in events)
