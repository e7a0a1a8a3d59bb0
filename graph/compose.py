"""A turn as a tool of another agent."""

from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool, StructuredTool

from turngraph.graph.shell import TurnGraph


def as_tool(graph: TurnGraph, *, name: str | None = None, description: str) -> BaseTool:
    """A tool that runs one whole turn on a question and returns its answer.

    The turn runs inside the calling graph: its pauses surface on the outer run and resume through it, its events
    carry the namespace of the tool, and of its state only the answer reaches the caller.
    """

    async def ask(question: str) -> str:
        result: dict[str, Any] = await graph.ainvoke({"messages": [HumanMessage(question)]})
        return str(result.get("answer", ""))

    return StructuredTool.from_function(coroutine=ask, name=name or graph.get_name(), description=description)
