"""B16: an edited call runs as edited, the model is told what ran, and its own call asked for again asks again."""

from langgraph.types import Command

from tests.support.scripts import Effects, calls, scripted
from tests.support.turns import check_turn, pause_of, run, thread

ANN = calls(("send", {"to": "ann"}))


def edit(to: str) -> Command:
    return Command(resume={"decisions": [{"type": "edit", "edited_action": {"name": "send", "args": {"to": to}}}]})


def test_b16_the_model_is_told_and_the_original_is_never_run_unasked() -> None:
    effects = Effects()
    graph, model = scripted([ANN, ANN, "Done.", "Next."], effects.tools())
    run(graph, "go", thread())
    output, _ = run(graph, edit("bob"), thread())
    assert effects == ["send bob"]
    assert "bob" in model.results[0]
    assert "original call was not run" in model.results[0]
    assert pause_of(output)["action_requests"][0]["args"] == {"to": "ann"}, "asked again, not run"
    output, _ = run(graph, Command(resume={"decisions": [{"type": "reject", "message": "I changed that"}]}), thread())
    assert effects == ["send bob"]
    check_turn(output)
    run(graph, "next", thread())
    for request in model.requests[1:]:
        sent = [call["args"] for message in request.messages for call in getattr(message, "tool_calls", [])]
        assert all(args == {"to": "ann"} for args in sent), "the model's own call stays as it was written"
        assert model.results[0] in [message.text for message in request.messages]
    model.assert_strict()


def test_b16_an_edit_to_a_denied_tool_does_not_run() -> None:
    effects = Effects()
    graph, model = scripted([ANN, "Done."], effects.tools())
    run(graph, "go", thread(), context={"permissions": {"write": "deny"}})
    action = {"name": "write", "args": {"name": "x"}}
    run(graph, Command(resume={"decisions": [{"type": "edit", "edited_action": action}]}), thread())
    assert effects == []
    assert "not permitted" in model.results[0]
