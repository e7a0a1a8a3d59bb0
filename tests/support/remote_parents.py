"""Local parents of a turn that a real server runs, and a child process that can be killed while it waits for it.

python -m tests.support.remote_parents URL DATABASE THREAD TEXT
"""

import sys
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteGraph

from turngraph.graph.remote import RemoteTurn, remote_turn

APPROVED = {"decisions": [{"type": "approve"}]}


def turn_at(url: str, assistant: str = "turn", **options: Any) -> RemoteTurn:
    return remote_turn(RemoteGraph(assistant, url=url), **options)


def parent_of(node: Any, saver: Any = None, **options: Any) -> Any:
    """A parent with a shared `messages` key and one node, named `helper`."""
    builder = StateGraph(MessagesState, **options)
    builder.add_node("helper", node)
    builder.add_edge(START, "helper")
    builder.add_edge("helper", END)
    return builder.compile(checkpointer=saver)


def main(url: str, database: str, thread: str, text: str) -> None:
    with SqliteSaver.from_conn_string(database) as saver:
        graph = parent_of(turn_at(url), saver)
        graph.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": thread}})


if __name__ == "__main__":
    main(*sys.argv[1:])
