"""What tools can do to the turn: fold, terminate, load tools, activate skills; and the guard against circles."""

from pathlib import Path
from typing import Any

from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.support.openai_server import Request, Step, call, say
from tests.support.turns import chat, check_turn, pause_of, run, thread
from turngraph.graph import Capability, TurnSettings, build_turn_graph
from turngraph.tools import TurnEffects, load_skills, tool_policy


@tool(response_format="content_and_artifact")
def checkpoint(summary: str) -> tuple[str, TurnEffects]:
    """Fold what was done so far."""
    return "folded", TurnEffects(context_checkpoint=summary)


@tool(response_format="content_and_artifact")
def done(answer: str) -> tuple[str, TurnEffects]:
    """End the turn with this answer."""
    return "ended", TurnEffects(terminate=answer)


def look(place: str) -> str:
    """Look at a place."""
    return f"verbose view of {place}"


def test_a_checkpoint_folds_the_rounds_before_it(openai_server: Any) -> None:
    server = openai_server(
        [
            call(("look", {"place": "yard"})),
            call(("checkpoint", {"summary": "The yard is empty."})),
            call(("look", {"place": "roof"})),
            say("Empty."),
        ],
        strict=True,
    )
    output, events = run(build_turn_graph(chat(server), [look, checkpoint]), "Look around, please")
    sent = str(server.requests[2].messages)
    assert "verbose view of yard" not in sent
    assert "[Context checkpoint]" in sent
    assert "The yard is empty." in sent
    assert "Look around, please" in sent
    assert "read_tool_result" in server.requests[2].tool_names
    assert output["receipt"]["folds"] == 1
    (folded,) = [event["folded"] for event in events if event["type"] == "checkpoint_folded"]
    assert folded == len([m for m in server.requests[1].messages if m["role"] in ("assistant", "tool")])
    assert any("verbose view of yard" in m.text for m in output["messages"]), "the tape must keep it"
    check_turn(output, events)


def test_a_folded_result_can_be_read_again(openai_server: Any) -> None:
    def script(request: Request) -> Step:
        count = request.roles.count("assistant")
        if "verbose view of yard" in request.said("tool") and "read_tool_result" in request.tool_names:
            return say("Found it.")
        if "[Context checkpoint]" in str(request.messages):
            return call(("read_tool_result", {"call_id": "call-yard"}))
        if count == 0:
            return call({"index": 0, "id": "call-yard", "name": "look", "arguments": '{"place": "yard"}'})
        return call(("checkpoint", {"summary": "Looked at the yard."}))

    server = openai_server(script, strict=True)
    output, events = run(build_turn_graph(chat(server), [look, checkpoint]), "go", context=TurnSettings(max_rounds=6))
    assert output["answer"] == "Found it."
    check_turn(output, events)


def test_terminate_ends_the_turn_with_the_tools_text(openai_server: Any) -> None:
    server = openai_server([call(("done", {"answer": "All settled."}), text="Ending.")], strict=True)
    output, events = run(build_turn_graph(chat(server), [done]), "go")
    assert output["answer"] == "All settled."
    assert (output["receipt"]["status"], output["receipt"]["stop_reason"]) == ("completed", "terminated")
    assert output["receipt"]["rounds"] == 1
    check_turn(output, events)
    server.done()


def test_a_pause_in_the_same_batch_goes_before_terminate(openai_server: Any) -> None:
    sent: list[str] = []

    def send(to: str) -> str:
        """Send."""
        sent.append(to)
        return "sent"

    server = openai_server([call(("done", {"answer": "Bye."}), ("send", {"to": "ann"}))], strict=True)
    tools = [done, tool_policy(send, permission="ask")]
    graph = build_turn_graph(chat(server), tools, checkpointer=InMemorySaver())
    output, _ = run(graph, "go", thread())
    assert pause_of(output)
    output, events = run(graph, Command(resume={"decisions": [{"type": "approve"}]}), thread())
    assert sent == ["ann"]
    assert output["answer"] == "Bye."
    check_turn(output, events)


def test_deferred_tools_are_listed_loaded_and_kept_across_a_pause(openai_server: Any) -> None:
    def rare(x: int) -> str:
        """A rarely used tool."""
        return f"rare {x}"

    server = openai_server(
        [
            call(("rare", {"x": 1})),
            call(("load_tools", {"names": ["rare"]})),
            call(("rare", {"x": 2})),
            say("Done."),
        ],
        strict=True,
    )
    tools = [look, tool_policy(rare, deferred=True, permission="ask")]
    graph = build_turn_graph(chat(server), tools, checkpointer=InMemorySaver())
    output, _ = run(graph, "go", thread())
    assert "rare" not in server.requests[0].tool_names
    assert "A rarely used tool." in server.requests[0].said("system")
    assert "rare" in server.requests[2].tool_names
    output, events = run(graph, Command(resume={"decisions": [{"type": "approve"}]}), thread())
    assert [m.text for m in output["messages"] if m.type == "tool"][-1] == "rare 2"
    assert "must be loaded" in next(m.text for m in output["messages"] if m.type == "tool")
    assert "rare" in server.requests[3].tool_names
    check_turn(output, events)


def test_a_skill_changes_the_prompt_from_the_next_round_on(openai_server: Any, tmp_path: Path) -> None:
    folder = tmp_path / "skills" / "poet"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: poet\ndescription: Writes verse.\n---\nRhyme every line.\n")
    server = openai_server([call(("activate_skill", {"name": "poet"})), say("A line, so fine.")], strict=True)
    graph = build_turn_graph(chat(server), skills=load_skills(tmp_path / "skills"))
    output, events = run(graph, "go")
    assert "Writes verse." in server.requests[0].said("system")
    assert "Rhyme every line." not in server.requests[0].said("system")
    assert "Rhyme every line." in server.requests[1].said("system")
    check_turn(output, events)


def test_the_same_batch_again_is_corrected_and_then_ended(openai_server: Any) -> None:
    def script(request: Request) -> Step:
        if request.body.get("tool_choice") == "none":
            return say("I was going in circles.")
        return call(("look", {"place": "yard"}))

    server = openai_server(script, strict=True)
    output, events = run(build_turn_graph(chat(server), [look]), "go")
    assert output["receipt"]["stop_reason"] == "no_progress"
    assert output["receipt"]["rounds"] == 4
    assert "same results" not in server.requests[1].said("user")
    assert "same results" in server.requests[2].said("user")
    check_turn(output, events)


def test_polling_tools_may_repeat_themselves(openai_server: Any) -> None:
    server = openai_server([*[call(("look", {"place": "yard"}))] * 5, say("Done.")], strict=True)
    output, events = run(build_turn_graph(chat(server), [tool_policy(look, polling=True)]), "go")
    assert output["receipt"]["status"] == "completed"
    check_turn(output, events)


def test_a_capability_brings_prompt_tools_rounds_and_seed(openai_server: Any) -> None:
    async def seed(question: str) -> str:
        return f"Known about {question!r}: nothing."

    async def broken(_question: str) -> str:
        raise RuntimeError("no library")

    capabilities = [
        Capability("scout", prompt="You are a scout.", tools=[look], min_rounds=3, seed=seed),
        Capability("library", seed=broken),
    ]
    server = openai_server([*[call(("look", {"place": f"{n}"})) for n in range(3)], say("Done.")], strict=True)
    graph = build_turn_graph(chat(server), capabilities=capabilities)
    output, events = run(graph, "the yard", context=TurnSettings(max_rounds=1))
    assert "You are a scout." in server.requests[0].said("system")
    assert "Known about 'the yard'" in server.requests[0].said("user")
    assert output["receipt"]["rounds"] == 3
    check_turn(output, events)


def test_a_huge_result_is_cut_and_readable_in_whole(openai_server: Any) -> None:
    def big() -> str:
        """A big result."""
        return "start " + "x y z " * 100_000 + " end"

    first = {"index": 0, "id": "call-big", "name": "big", "arguments": "{}"}
    pages = call(("read_tool_result", {"call_id": "call-big", "offset": 300_000}))
    server = openai_server([call(first), pages, say("Read.")], strict=True)
    settings = TurnSettings(max_tool_output_tokens=500)
    output, events = run(build_turn_graph(chat(server), [big]), "go", context=settings)
    shown = [m.text for m in output["messages"] if m.type == "tool"]
    assert len(shown[0]) < 5_000
    assert "read_tool_result" in shown[0]
    assert "x y z" in shown[1]
    assert "read_tool_result" not in server.requests[0].tool_names
    assert "read_tool_result" in server.requests[1].tool_names
    check_turn(output, events)
