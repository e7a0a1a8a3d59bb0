"""How the offline model words its answers. It always says what it is."""

import json
from collections.abc import Sequence
from typing import Any

from turngraph.llm.offline_plan import DOCS_TOOL
from turngraph.llm.offline_reading import Reading, Result

WHO = "I am turngraph's built-in offline model: fixed rules, not an LLM."
HOW_TO_CHANGE = (
    "For a real model, choose `local`, or `openai:NAME` with OPENAI_API_KEY "
    "(or OPENAI_BASE_URL for a compatible server)."
)
_ABILITIES = {
    "calculator": "work out arithmetic",
    "clock": "tell the time in a time zone",
    DOCS_TOOL: "search turngraph's documentation",
    "save_note": "save a note (you are asked first)",
    "ask_user": "ask you a question",
}
_MAX_RESULT = 2_000


def answer(reading: Reading) -> str:
    """The answer from the results, in call order; says so where something failed, was refused, or had to stop."""
    parts = [WHO]
    if reading.finish_reason:
        parts.append(f"I had to stop here: {reading.finish_reason}.")
    if reading.results:
        parts += [_told(each) for each in reading.results]
    else:
        parts.append("There are no tool results to answer from.")
    return "\n\n".join(parts)


def greeting(reading: Reading, offered: Sequence[str]) -> str:
    """The answer to a message that needs no tool, or where none of those that I know is offered."""
    able = [words for name, words in _ABILITIES.items() if name in offered]
    parts = [WHO]
    if able:
        listed = able[0] if len(able) == 1 else ", ".join(able[:-1]) + " and " + able[-1]
        parts.append(f"Hello. I can {listed}.")
    elif reading.question:
        parts.append(
            f"No tool that I know is offered here, so I cannot work on your message: {_quoted(reading.question)}"
        )
    else:
        parts.append("There is no message of yours to work on.")
    return "\n\n".join([*parts, HOW_TO_CHANGE])


def _told(result: Result) -> str:
    text = _clipped(result.text) or "(no output)"
    if result.outcome == "refused":
        return f"{result.name}{_shown(result.args)} was not done. {text}"
    if result.outcome == "failed":
        return f"{result.name}{_shown(result.args)} failed: {text}"
    match result.name:
        case "calculator":
            return f"{result.args.get('expression', '')} = {text}"
        case "clock":
            return f"The time: {text}"
        case "search_docs":
            return f"The documentation says:\n\n{text}"
        case "ask_user":
            return f"You answered: {text}"
        case "save_note":
            return text
        case name:
            return f"{name}{_shown(result.args)} gave: {text}"


def _shown(args: dict[str, Any]) -> str:
    text = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in args.items())
    return f"({_clipped(text, 200)})"


def _quoted(text: str) -> str:
    return f"“{_clipped(' '.join(text.split()), 200)}”"


def _clipped(text: str, limit: int = _MAX_RESULT) -> str:
    return text if len(text) <= limit else f"{text[:limit].rstrip()} …"
