"""Scripted models whose every request a strict provider would take, and graphs on them."""

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.strict import assert_valid_history
from turngraph.graph import build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import ask_user, tool_policy

YES: dict[str, Any] = {"type": "approve"}


def calls(*named: tuple[str, dict[str, Any]], text: str = "Working.") -> ScriptedReply:
    return ScriptedReply(text, calls=list(named))


class Script(ScriptedModel):
    """A scripted model that knows what it was sent."""

    def assert_strict(self) -> None:
        """Every request so far was one that a strict provider takes."""
        for request in self.requests:
            assert_valid_history(request.messages)

    @property
    def results(self) -> list[str]:
        """The texts of the tool results of the newest request, in order."""
        return [message.text for message in self.requests[-1].messages if isinstance(message, ToolMessage)]

    @property
    def asked(self) -> list[str]:
        """The texts of the users' messages in the newest request."""
        return [message.text for message in self.requests[-1].messages if isinstance(message, HumanMessage)]


def scripted(script: Sequence[Any] | Callable[..., Any], tools: Sequence[Any] = (), **options: Any) -> tuple[Any, Script]:
    """A graph with a memory of its own, and its model."""
    model = Script(script)
    options.setdefault("checkpointer", InMemorySaver())
    return build_turn_graph(model, tools, **options), model


class Effects(list[str]):
    """Tools whose effects are lines of this list: `send` asks first, `write` is ordered, `note` is not, `fetch` reads."""

    def tools(self, text: str = "nothing") -> list[Any]:
        def send(to: str) -> str:
            """Send a mail."""
            self.append(f"send {to}")
            return f"sent to {to}"

        def write(name: str) -> str:
            """Write something."""
            self.append(f"write {name}")
            return f"wrote {name}"

        def note(text: str) -> str:
            """Take a note."""
            self.append(f"note {text}")
            return "noted"

        def fetch(url: str) -> str:
            """Fetch a page."""
            return text

        return [
            tool_policy(send, permission="ask", effect="write"),
            tool_policy(write, effect="write"),
            tool_policy(note),
            tool_policy(fetch, effect="read"),
            ask_user,
        ]
