"""The demo tools: real, small, and useful without any configuration."""

from langchain_core.tools import BaseTool

from turngraph.tools.arithmetic import evaluate
from turngraph.tools.docs_search import search
from turngraph.tools.notes import append_note
from turngraph.tools.policy import tool_policy
from turngraph.tools.timezones import now_in


def calculator(expression: str) -> str:
    """Work out arithmetic: numbers, + - * / // % **, parentheses, sqrt, abs, round, min, max, log, sin, cos, pi, e."""
    return evaluate(expression)


def clock(timezone: str = "UTC") -> str:
    """The date and time now in a time zone, by its IANA name such as Europe/Berlin."""
    return now_in(timezone)


def search_docs(query: str) -> str:
    """Search turngraph's documentation; gives the sections that fit the query best."""
    return search(query)


def save_note(text: str) -> str:
    """Save a note for the user: appends it to their notes file."""
    return append_note(text)


def demo_tools() -> list[BaseTool]:
    """The four demo tools with their policies. All read, except `save_note`, which asks before it writes."""
    return [
        tool_policy(calculator, effect="read", timeout=10),
        tool_policy(clock, effect="read", timeout=10),
        tool_policy(search_docs, effect="read", timeout=10),
        tool_policy(save_note, permission="ask", effect="write", timeout=10),
    ]
