"""Graphs for a real server in a test: the model is a scripted HTTP server, effects are lines in a file.

The user's message says what the model does: `say TEXT`, `hang TEXT` (streams it, then nothing), `call NAME JSON`,
several calls on lines of their own. After tool results the model says "Done: " and what they were.
"""

import asyncio
import json
import os
from typing import Any

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.stream import CustomTransformer

from tests.support.openai_server import Request, Step, call, hanging, say
from turngraph.graph import build_turn_graph
from turngraph.tools import ask_user, tool_policy

MODEL_URL, EFFECTS = "TURNGRAPH_TEST_MODEL_URL", "TURNGRAPH_TEST_EFFECTS"
PIECE = 5
"""Characters of one streamed piece."""


def answer(request: Request) -> Step:
    """What the scripted server answers to a request of these graphs."""
    messages = request.messages
    if messages[-1]["role"] == "tool":
        results = [m["content"] for m in messages[_last_user(messages) :] if m["role"] == "tool"]
        return say("Done: " + " | ".join(results), chunks=PIECE, chunk_delay=0.002)
    lines = _text(messages[_last_user(messages)]["content"]).strip().splitlines()
    verb, _, rest = lines[0].partition(" ")
    match verb:
        case "say":
            return say(rest, chunks=PIECE, reasoning="Let me think.")
        case "hang":
            return hanging(say(rest, chunks=PIECE))
        case "call":
            calls = [line.partition(" ")[2].split(" ", 1) for line in lines]
            named = [(name, json.loads(args)) for name, args in calls]
            return call(*named, text="Let me see.", chunks=PIECE, ids=[None] * len(named))
        case _:
            return say(f"You said: {lines[0]}", chunks=PIECE)


def _text(content: Any) -> str:
    """The text of a message, of a string or of blocks: chat clients send blocks."""
    return content if isinstance(content, str) else "\n".join(block.get("text", "") for block in content)


def _last_user(messages: list[dict[str, Any]]) -> int:
    return max(at for at, message in enumerate(messages) if message["role"] == "user")


def _append(line: str) -> None:
    with open(os.environ[EFFECTS], "a", encoding="utf-8") as effects:
        effects.write(line + "\n")


async def look(place: str) -> str:
    """Look at a place."""
    return f"seen {place}"


async def work(name: str, seconds: float) -> str:
    """Work for some seconds."""
    await asyncio.to_thread(_append, f"begin {name}")
    await asyncio.sleep(seconds)
    await asyncio.to_thread(_append, f"end {name}")
    return f"worked {name}"


def send(to: str) -> str:
    """Send a letter."""
    _append(f"sent {to}")
    return f"sent to {to}"


def _model() -> ChatOpenAI:
    return ChatOpenAI(model="scripted", base_url=os.environ.get(MODEL_URL), api_key="test", max_retries=0)  # type: ignore[arg-type]


TOOLS = [
    tool_policy(look, effect="read"),
    tool_policy(work, effect="write"),
    tool_policy(send, permission="ask", effect="write"),
    ask_user,
]


def _parent(turn: Any) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("agent", turn)
    builder.add_edge(START, "agent")
    builder.add_edge("agent", END)
    # A turn brings its custom events into the v3 protocol itself; a graph around it has to ask for those of its inside.
    return builder.compile(name="parent", transformers=[CustomTransformer])


if MODEL_URL in os.environ:
    turn = build_turn_graph(_model(), TOOLS, name="turn")
    parent = _parent(build_turn_graph(_model(), TOOLS, name="agent"))
