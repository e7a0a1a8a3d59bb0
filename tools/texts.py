"""What the tools' room says to the model and to the people who decide. One place, named, tested by meaning."""

from collections.abc import Iterable, Sequence
from typing import Any

# --- to the model: the result of a call that did not run

NO_OUTPUT = "(The tool finished and returned no output.)"
DENIED = "Denied: this tool is not permitted here. It was not run. Do not call it again; go on without it."
NO_CHECKPOINTER = (
    "Denied: this call needs a person's decision, and this run has no checkpointer, so it cannot pause to ask. "
    "It was not run; go on without it."
)
UNKNOWN_OUTCOME = (
    "Outcome unknown: the run broke off after this tool was started. It may or may not have had its effect. "
    "It was not started again; check before you repeat it."
)
OVER_BUDGET = "Not run: the budget of tool calls for this turn is spent. Answer from what you have."
ABANDONED = "Not run: the user ended the turn instead of deciding."
NO_PROGRESS_CORRECTION = (
    "You have made the same tool calls with the same results before; repeating them changes nothing. Do something "
    "else: other arguments, another tool, or answer with what you have and say what is missing."
)


def unknown_tool(name: str, valid: Iterable[str]) -> str:
    """A call of a tool that is not offered."""
    return f"Not run: there is no tool named {name!r}. Available tools: {', '.join(valid) or 'none'}."


def not_loaded(name: str) -> str:
    """A call of a deferred tool whose schema the model has not seen."""
    return f'Not run: {name!r} must be loaded first. Call load_tools with names ["{name}"], then call it.'


def rejected(reason: str) -> str:
    """A person refused the call."""
    why = f" Their reason: {reason}" if reason.strip() else " They gave no reason."
    return f"Rejected: the user did not allow this call; it was not run.{why}"


def undecided() -> str:
    """A person was asked for permission and left the answer blank."""
    return "Not run: the user was asked to allow this call and gave no answer."


def responded(message: str) -> str:
    """A person answered in the tool's place."""
    return message if message.strip() else "The user answered in the tool's place, with no answer: the reply was blank."


def declined(reason: str) -> str:
    """A person would not answer the questions of `ask_user`."""
    why = f" They said: {reason}" if reason.strip() else ""
    return f"The user declined to answer.{why}"


def edited(name: str, args: str) -> str:
    """Stands before the result of a call that a person changed."""
    return (
        f"The user changed this call before it ran; your original call was not run. What ran: {name}({args}). Result:"
    )


# --- to the model: questions and answers

NO_ANSWER = "The user gave no answer."


def no_answer_to() -> str:
    """One question of several stayed blank."""
    return "(no answer)"


# --- to the model: results


def left_out(missing: int, total: int, call_id: str, offset: int) -> str:
    """Stands between head and tail of a result that was cut."""
    return (
        f"\n\n[… {missing:,} of {total:,} characters are left out here. "
        f'read_tool_result(call_id="{call_id}", offset={offset}) reads on from here. …]\n\n'
    )


def page_end(start: int, end: int, total: int) -> str:
    """Stands after a page of a result."""
    if end >= total:
        return f"\n\n[characters {start:,}-{end:,} of {total:,}: this is the end]"
    return f"\n\n[characters {start:,}-{end:,} of {total:,}; go on with offset={end}]"


def past_end(offset: int, total: int) -> str:
    """A page was asked for where the result has none."""
    return f"There is nothing at offset {offset:,}: the result has {total:,} characters, the first one at offset 0."


def placeholder(what: str, detail: str = "") -> str:
    """Stands for a part of a result that is not text."""
    return f"[{what}{': ' + detail if detail else ''}, not shown as text]"


# --- to people


def describe_call(name: str, args: str) -> str:
    """What a person is asked to decide."""
    return f"The assistant wants to run {name} with {args}."


def describe_unknown(name: str, args: str) -> str:
    """The same, where the call was started before and nobody knows how it ended."""
    return (
        f"The assistant wants to run {name} with {args}. It was already started once and the run broke off: "
        "it may have had its effect. Approve only if it may run again."
    )


def describe_questions(questions: Sequence[dict[str, Any]]) -> str:
    """The questions of `ask_user` as a person reads them."""
    lines: list[str] = []
    for number, question in enumerate(questions, 1):
        head = f"{number}. {question['question']}" if len(questions) > 1 else str(question["question"])
        lines.append(head + (" (several may be chosen)" if question.get("multiple") else ""))
        for option in question.get("options", []):
            more = f": {option['description']}" if option.get("description") else ""
            lines.append(f"   - {option['label']}{more}")
    return "\n".join(lines)
