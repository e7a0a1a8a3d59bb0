"""A supervisor with two turn agents: each is a whole turn, called like a tool, and its pauses are the supervisor's.

    python examples/supervisor.py                         # offline, no key
    OPENAI_API_KEY=... python examples/supervisor.py openai:gpt-5-mini "What is 12 * 7? Note the result."

The offline model calls a tool it does not know when the user writes the call out, as in PROMPT.
"""

import sys
from collections.abc import Iterator
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from turngraph.graph import TurnGraph, TurnSettings, as_tool, build_turn_graph
from turngraph.tools.demo import demo_tools

PROMPT = """Please ask both:
mathematician {"question": "What is 12 * (3 + 4)?"}
librarian {"question": "Save a note: the answer is 84"}"""


def supervisor(model: str | None = None) -> TurnGraph:
    """The supervising turn. The librarian asks before it writes a note; that pause surfaces here."""
    tools = {tool.name: tool for tool in demo_tools()}
    mathematician = build_turn_graph(model, [tools["calculator"]], name="mathematician")
    librarian = build_turn_graph(model, [tools["search_docs"], tools["save_note"]], name="librarian")
    agents = [
        as_tool(
            mathematician,
            description="Works out arithmetic. Give it one whole question.",
            settings=TurnSettings(system_prompt="You are a mathematician. Always use the calculator.", max_rounds=6),
        ),
        as_tool(
            librarian,
            description="Knows turngraph's documentation and keeps the user's notes. Give it one whole question.",
            settings=TurnSettings(system_prompt="You are a librarian.", max_rounds=6),
        ),
    ]
    return build_turn_graph(model, agents, checkpointer=InMemorySaver(), name="supervisor")


def converse(graph: TurnGraph, prompt: str, thread_id: str = "example") -> Iterator[str]:
    """Runs one turn and approves what it asks for; gives a line for all that happens (what the agents
    do is indented), and the answer at the end."""
    config: Any = {"configurable": {"thread_id": thread_id}}
    step: Any = {"messages": [("user", prompt)]}
    while step is not None:
        for namespace, event in graph.stream(step, config, stream_mode="custom", subgraphs=True):
            indent = "    " * len(namespace)
            match event["type"]:
                case "tool_started":
                    yield f"{indent}calls {event['name']} {event['args']}"
                case "tool_finished":
                    yield f"{indent}{event['name']}: {event['status']}"
                case "interaction_requested" if namespace == ():
                    yield "waits for a person"
        pauses = graph.get_state(config).interrupts
        step = None
        if pauses:
            asked = pauses[0].value["action_requests"]
            yield from (f"approved: {request['name']} {request['args']}" for request in asked)
            step = Command(resume={"decisions": [{"type": "approve"}] * len(asked)})
    yield graph.get_state(config).values["answer"]


if __name__ == "__main__":
    model, prompt, *_ = [*sys.argv[1:], None, None]
    for line in converse(supervisor(model), prompt or PROMPT):
        print(line)
