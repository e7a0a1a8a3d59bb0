"""B05: what is stored after a resume holds the call with its result, in this turn and in every later one."""

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from tests.support.scripts import YES, Effects, calls, scripted
from tests.support.turns import check_calls, check_turn, run, thread


def test_b05_after_an_approval_and_a_second_round(tmp_path) -> None:  # type: ignore[no-untyped-def]
    effects = Effects()
    with SqliteSaver.from_conn_string(str(tmp_path / "t.sqlite")) as saver:
        script = [calls(("send", {"to": "ann"})), calls(("write", {"name": "log"})), "Done.", "Next."]
        graph, model = scripted(script, effects.tools(), checkpointer=saver)
        output, _ = run(graph, "go", thread())
        assert [type(message) for message in output["messages"]][-1] is AIMessage
        output, _ = run(graph, Command(resume={"decisions": [YES]}), thread())
        check_turn(output)
        for state in graph.get_state_history(thread()):
            stored = state.values.get("messages", [])
            asked = {call["id"] for m in stored if isinstance(m, AIMessage) for call in m.tool_calls}
            assert {m.tool_call_id for m in stored if isinstance(m, ToolMessage)} <= asked
        output, _ = run(graph, "and now?", thread())
        check_calls(output["messages"])
        assert model.results == ["sent to ann", "wrote log"]
        assert effects == ["send ann", "write log"]
        model.assert_strict()
