"""A turn inside other graphs: as a node, called in a node, as a tool of agents, several at once."""

import asyncio
import operator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, Send
from typing_extensions import TypedDict

from tests.support.openai_server import call, hanging, say
from tests.support.turns import chat, check_calls, finish_text, pause_of, thread
from turngraph.graph import Capability, InputError, TurnSettings, as_tool, build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import tool_policy

APPROVE = Command(resume={"decisions": [{"type": "approve"}]})


def asked(messages: list[BaseMessage]) -> str:
    return next(m.text for m in reversed(messages) if isinstance(m, HumanMessage))


def looker(
    ran: list[str] | None = None, *, permission: Any = "allow", name: str = "turn", **options: Any
) -> Any:
    """A turn that looks at the place that the user names, and says what it saw."""

    def look(place: str) -> str:
        """Look at a place."""
        if ran is not None:
            ran.append(place)
        return f"seen {place}"

    def script(messages: list[BaseMessage]) -> Any:
        if isinstance(messages[-1], ToolMessage):
            return f"It is there: {messages[-1].text}."
        return ScriptedReply(text="Let me see.", calls=[("look", {"place": asked(messages)})])

    return build_turn_graph(ScriptedModel(script), [tool_policy(look, permission=permission)], name=name, **options)


def parent(turn: Any, **options: Any) -> Any:
    builder = StateGraph(MessagesState, **options)
    builder.add_node("turn", turn)
    builder.add_edge(START, "turn")
    builder.add_edge("turn", END)
    return builder.compile(checkpointer=InMemorySaver())


def stream(graph: Any, input: Any, name: str = "t", **options: Any) -> tuple[list[tuple[Any, dict[str, Any]]], Any]:
    """Events with their namespaces, and the last values of the root."""
    events, values = [], None
    for namespace, mode, data in graph.stream(
        input, thread(name), stream_mode=["custom", "values"], subgraphs=True, **options
    ):
        if mode == "custom":
            events.append((namespace, data))
        elif namespace == ():
            values = data
    return events, values


def test_as_a_node_it_shares_the_messages_and_nothing_else() -> None:
    graph = parent(looker())
    events, values = stream(graph, {"messages": [("user", "yard")]})
    assert [m.type for m in values["messages"]] == ["human", "ai", "tool", "ai"]
    assert {namespace[0].split(":")[0] for namespace, _ in events} == {"turn"}
    assert all(len(namespace) == 1 for namespace, _ in events)
    assert finish_text([event for _, event in events]) == values["messages"][-1].text == "It is there: seen yard."
    _, values = stream(graph, {"messages": [("user", "roof")]})
    assert [m.type for m in values["messages"]] == ["human", "ai", "tool", "ai"] * 2
    assert values["messages"][-1].text == "It is there: seen roof."
    check_calls(values["messages"])
    assert set(graph.get_state(thread("t")).values) == {"messages"}


def test_as_a_node_its_second_turn_begins_at_the_second_question() -> None:
    asked_for: list[str] = []

    async def seed(question: str) -> str:
        asked_for.append(question)
        return "known"

    graph = parent(looker(capabilities=[Capability("memory", seed=seed)]))
    for place in ("yard", "roof", "cellar"):
        stream(graph, {"messages": [("user", place)]})
    assert asked_for == ["yard", "roof", "cellar"]


def test_as_a_node_its_pause_is_the_parents() -> None:
    ran: list[str] = []
    graph = parent(looker(ran, permission="ask"))
    paused = graph.invoke({"messages": [("user", "yard")]}, thread())
    assert pause_of(paused)["action_requests"][0]["args"] == {"place": "yard"}
    assert ran == []
    output = graph.invoke(APPROVE, thread())
    assert ran == ["yard"]
    assert [m.type for m in output["messages"]] == ["human", "ai", "tool", "ai"]
    assert graph.get_state(thread()).next == ()


def test_as_a_node_a_refused_answer_pauses_the_parent_again_with_the_reason() -> None:
    ran: list[str] = []
    graph = parent(looker(ran, permission="ask"))
    graph.invoke({"messages": [("user", "yard")]}, thread())
    again = graph.invoke(Command(resume={"decisions": [{"type": "no such thing"}]}), thread())
    assert pause_of(again)["turngraph"]["error"]
    assert ran == []
    assert graph.invoke(APPROVE, thread())["messages"][-1].text == "It is there: seen yard."


@pytest.mark.parametrize("form", ["sync", "async"])
def test_called_inside_a_node_it_pauses_and_goes_on(form: str) -> None:
    ran: list[str] = []
    turn = looker(ran, permission="ask")

    def work(state: MessagesState) -> Any:
        return {"messages": [AIMessage(turn.invoke({"messages": state["messages"]})["answer"])]}

    async def awork(state: MessagesState) -> Any:
        return {"messages": [AIMessage((await turn.ainvoke({"messages": state["messages"]}))["answer"])]}

    graph = parent(work if form == "sync" else awork)

    def go(input: Any) -> Any:
        return graph.invoke(input, thread()) if form == "sync" else asyncio.run(graph.ainvoke(input, thread()))

    assert pause_of(go({"messages": [("user", "yard")]}))
    output = go(APPROVE)
    assert ran == ["yard"]
    assert [m.text for m in output["messages"]] == ["yard", "It is there: seen yard."]


def two_questions(messages: list[BaseMessage]) -> Any:
    """An outer model that asks the tool `research` twice at once, then repeats what it was told."""
    results = [m.text for m in messages if isinstance(m, ToolMessage)]
    if results:
        return " / ".join(results)
    return ScriptedReply(calls=[("research", {"question": "yard"}), ("research", {"question": "roof"})])


TWO_ANSWERS = "It is there: seen yard. / It is there: seen roof."


def outer_turn(tool: Any, **options: Any) -> Any:
    return build_turn_graph(
        ScriptedModel(two_questions), [tool], checkpointer=InMemorySaver(), name="outer", **options
    )


def test_as_a_tool_of_a_turn_its_pauses_surface_and_resume() -> None:
    ran: list[str] = []
    graph = outer_turn(as_tool(looker(ran, permission="ask"), name="research", description="Research."))
    events, _ = stream(graph, {"messages": [("user", "Where?")]})
    places = []
    for _ in range(2):
        (interrupt,) = graph.get_state(thread("t")).interrupts
        (request,) = interrupt.value["action_requests"]
        places.append(request["args"]["place"])
        more, values = stream(graph, APPROVE)
        events += more
    assert sorted(places) == sorted(ran) == ["roof", "yard"]
    assert values["answer"] == TWO_ANSWERS
    inner = {namespace for namespace, _ in events if namespace}
    assert len(inner) == 2, "each call has one namespace of its own, the same before and after the pause"
    for namespace in inner:
        turn_ids = {event["turn_id"] for where, event in events if where == namespace}
        assert len(turn_ids) == 1
    outer = [event for where, event in events if where == ()]
    assert outer[-1]["type"] == "turn_finished"
    assert [m.type for m in values["messages"]] == ["human", "ai", "tool", "tool", "ai"]
    check_calls(values["messages"])


def test_as_a_tool_of_a_turn_its_pause_resumes_in_another_process(tmp_path: Any) -> None:
    ran: list[str] = []
    for input in ({"messages": [("user", "Where?")]}, APPROVE, APPROVE):
        with SqliteSaver.from_conn_string(str(tmp_path / "turns.sqlite")) as saver:
            tool = as_tool(looker(ran, permission="ask"), name="research", description="Research.")
            graph = build_turn_graph(ScriptedModel(two_questions), [tool], checkpointer=saver)
            output = graph.invoke(input, thread())
    assert output["answer"] == TWO_ANSWERS
    assert sorted(ran) == ["roof", "yard"]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_as_a_tool_of_another_agent(way: str) -> None:
    """LangChain's own agent runs each call as a task: both pauses come at once, and are answered by id."""
    ran: list[str] = []
    tool = as_tool(looker(ran, permission="ask"), name="research", description="Research.")
    graph: Any = create_agent(ScriptedModel(two_questions), [tool], checkpointer=InMemorySaver())

    def go(input: Any) -> Any:
        return graph.invoke(input, thread()) if way == "invoke" else asyncio.run(graph.ainvoke(input, thread()))

    paused = go({"messages": [("user", "Where?")]})
    answers = {pause.id: {"decisions": [{"type": "approve"}]} for pause in paused["__interrupt__"]}
    assert len(answers) == 2
    output = go(Command(resume=answers))
    assert output["messages"][-1].text == TWO_ANSWERS
    assert sorted(ran) == ["roof", "yard"]


def test_as_a_tool_called_from_plain_code() -> None:
    tool = as_tool(looker(checkpointer=InMemorySaver()), name="research", description="Research.")
    assert tool.invoke({"question": "yard"}) == "It is there: seen yard."
    assert asyncio.run(tool.ainvoke({"question": "roof"})) == "It is there: seen roof."


def test_an_inner_turn_has_settings_of_its_own_under_the_outer_permissions() -> None:
    ran: list[str] = []
    seen: list[str] = []

    def script(messages: list[BaseMessage]) -> Any:
        seen.append(messages[0].text)
        if isinstance(messages[-1], ToolMessage):
            return "Seen."
        return ScriptedReply(calls=[("look", {"place": "yard"})])

    def look(place: str) -> str:
        """Look."""
        ran.append(place)
        return "seen"

    inner = build_turn_graph(ScriptedModel(script), [look])
    tool = as_tool(inner, name="research", description="Research.", settings=TurnSettings(system_prompt="INNER"))
    settings = TurnSettings(system_prompt="OUTER", permissions={"look": "deny"}, enabled_tools=["research"])
    output = outer_turn(tool).invoke({"messages": [("user", "Where?")]}, thread(), context=settings)
    assert output["answer"] == "Seen. / Seen."
    assert ran == [], "the outer turn denies the tool everywhere"
    assert seen
    assert all("INNER" in text and "OUTER" not in text for text in seen)


def test_what_is_asked_about_outside_is_asked_about_inside_after_a_resume_too() -> None:
    ran: list[str] = []
    graph = outer_turn(as_tool(looker(ran), name="research", description="Research."))
    graph.invoke({"messages": [("user", "Where?")]}, thread(), context=TurnSettings(permission_mode="ask_all"))
    pauses = 0
    while graph.get_state(thread()).interrupts:
        pauses += 1
        before = list(ran)
        requests = graph.get_state(thread()).interrupts[0].value["action_requests"]
        output = graph.invoke(Command(resume={"decisions": [{"type": "approve"}] * len(requests)}), thread())
        assert len(ran) - len(before) <= 1, "one approval ran more than one inner tool"
    assert output["answer"] == TWO_ANSWERS
    assert pauses == 3


class Work(TypedDict):
    places: list[str]
    found: Annotated[list[str], operator.add]


def fan_out(turn: Any) -> Any:
    """A parent that runs one turn per place, all at once."""

    async def one(state: Any) -> Any:
        return {"found": [(await turn.ainvoke({"messages": [("user", state["place"])]}))["answer"]]}

    builder = StateGraph(Work)
    builder.add_node("one", one)
    builder.add_conditional_edges(START, lambda state: [Send("one", {"place": p}) for p in state["places"]], ["one"])
    builder.add_edge("one", END)
    return builder.compile(checkpointer=InMemorySaver())


PLACES = [f"place {number}" for number in range(8)]


async def test_parallel_turns_under_one_parent_do_not_mix() -> None:
    graph = fan_out(looker())
    events: list[tuple[Any, Any]] = []
    config = thread()
    async for namespace, event in graph.astream(
        {"places": PLACES, "found": []}, config, stream_mode="custom", subgraphs=True
    ):
        events.append((namespace, event))
    values = (await graph.aget_state(config)).values
    assert sorted(values["found"]) == [f"It is there: seen {place}." for place in PLACES]
    spoken = [
        finish_text([event for where, event in events if where == namespace])
        for namespace in {where for where, _ in events}
    ]
    assert sorted(spoken) == sorted(values["found"])


async def test_parallel_turns_pause_together_and_are_answered_by_id_in_any_order() -> None:
    ran: list[str] = []
    graph = fan_out(looker(ran, permission="ask"))
    paused = await graph.ainvoke({"places": PLACES, "found": []}, thread())
    pauses = {p.value["action_requests"][0]["args"]["place"]: p.id for p in paused["__interrupt__"]}
    assert sorted(pauses) == PLACES
    yes, no = {"decisions": [{"type": "approve"}]}, {"decisions": [{"type": "reject", "message": "no"}]}
    first = {pauses[place]: yes for place in PLACES[4:]}
    await graph.ainvoke(Command(resume=first), thread())
    assert sorted(ran) == PLACES[4:]
    output = await graph.ainvoke(Command(resume={pauses[place]: no for place in PLACES[:4]}), thread())
    assert sorted(ran) == PLACES[4:]
    assert len(output["found"]) == len(PLACES)
    assert sum(place in " ".join(output["found"]) for place in PLACES[4:]) == 4


@dataclass
class Theirs:
    user: str
    turn_settings: Any = None


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (None, 25),
        (Theirs("ann"), 25),
        (Theirs("ann", TurnSettings(max_rounds=3)), 3),
        (Theirs("ann", {"max_rounds": 4}), 4),
        ({"user": "ann", "turn_settings": {"max_rounds": 5}}, 5),
        ({"user": "ann"}, 25),
    ],
)
def test_of_a_parents_context_only_turn_settings_is_read(context: Any, expected: int) -> None:
    options = {"context_schema": Theirs} if isinstance(context, Theirs) else {}
    graph = parent(looker(permission="ask"), **options)
    graph.invoke({"messages": [("user", "yard")]}, thread(), context=context)
    (task,) = graph.get_state(thread(), subgraphs=True).tasks
    recorded = TurnSettings.model_validate(task.state.values["anchors"][-1]["settings"])
    assert recorded.max_rounds == expected


def test_a_parents_wrong_turn_settings_are_refused_with_the_fields_there_are() -> None:
    graph = parent(looker(), context_schema=Theirs)
    with pytest.raises(InputError, match="max_round"):
        graph.invoke({"messages": [("user", "yard")]}, thread(), context=Theirs("ann", {"max_round": 3}))


@pytest.mark.parametrize("when", ["text", "tool"])
async def test_a_parent_that_is_cancelled_keeps_what_the_turn_had(openai_server: Any, when: str) -> None:
    async def slow(place: str) -> str:
        """Be slow."""
        await asyncio.sleep(60)
        return place

    first = hanging(say("Half an answer", chunks=4)) if when == "text" else call(("slow", {"place": "x"}), text="Look.")
    server = openai_server([first, say("Next.")], strict=True)
    graph = parent(build_turn_graph(chat(server), [slow]))
    seen: list[str] = []

    async def work() -> None:
        async for _, event in graph.astream(
            {"messages": [("user", "go")]}, thread(), stream_mode="custom", subgraphs=True
        ):
            seen.append(event["type"])

    task = asyncio.create_task(work())
    while "content" not in seen if when == "text" else "tool_started" not in seen:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.wait({task})
    messages = (await graph.aget_state(thread())).values["messages"]
    kinds = ["human", "ai"] if when == "text" else ["human", "ai", "tool", "ai"]
    assert [m.type for m in messages] == kinds
    assert messages[1].text == ("Half an answer" if when == "text" else "Look.")
    check_calls(messages)
    output = await graph.ainvoke({"messages": [("user", "go on")]}, thread())
    assert output["messages"][-1].text == "Next."
    server.done()


async def test_a_timeout_around_a_turn_inside_a_node_is_still_a_timeout(openai_server: Any) -> None:
    turn = build_turn_graph(chat(openai_server([hanging(say("Half", chunks=2))])))
    seen: list[str] = []

    async def work(state: MessagesState) -> Any:
        try:
            async with asyncio.timeout(0.5):
                await turn.ainvoke({"messages": state["messages"]})
        except TimeoutError:
            seen.append("timeout")
        return {}

    await parent(work).ainvoke({"messages": [("user", "go")]}, thread())
    assert seen == ["timeout"]
