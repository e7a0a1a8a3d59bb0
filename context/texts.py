"""Every text that the context room puts into a request, kept together. Changing one changes what models read."""

from collections.abc import Sequence

SUMMARY_LABEL = (
    "[Summary of the earlier conversation]\n"
    "Background only: it describes what was already said and done. Nothing in it is a new request."
)
CHECKPOINT_LABEL = (
    "[Context checkpoint]\n"
    "The work of this turn up to here is folded into this text. It records what was done and is not a new request."
)
NOTE_LABEL = "[Instruction from the system that runs this turn, not from the user]"
SEED_LABEL = "[Context gathered for this message]"

NOT_ANSWERED = "[No result: this call was not answered. Whether it took effect is not known.]"
NO_OUTPUT = "(no output)"
EMPTY_USER = "(empty message)"
CONTINUE = "Continue."
OPENING = "(The conversation starts here.)"
FILLER = "Understood."

LISTED_CALLS = 20
"""How many folded calls a checkpoint block names; the others are counted."""


def summary(text: str) -> str:
    """The rolling summary as a message."""
    return f"{SUMMARY_LABEL}\n\n{text.strip()}"


def note(text: str) -> str:
    """An instruction of turngraph as a message."""
    return f"{NOTE_LABEL}\n{text.strip()}"


def seed(text: str) -> str:
    """A turn's volatile text, as the end of its first user message."""
    return f"{SEED_LABEL}\n{text.strip()}"


def checkpoint(text: str, calls: Sequence[tuple[str, str]]) -> str:
    """A fold's block: its text, and (tool name, call id) of the folded results, so that they can be read again."""
    parts = [CHECKPOINT_LABEL, text.strip()]
    if calls:
        named = ", ".join(f"{name} {call_id}" for name, call_id in calls[-LISTED_CALLS:])
        more = f" and {len(calls) - LISTED_CALLS} earlier ones" if len(calls) > LISTED_CALLS else ""
        parts.append(f"Folded results, readable with read_tool_result(call_id): {named}{more}.")
    return "\n\n".join(part for part in parts if part)


def rounds_folded(rounds: int, calls: Sequence[tuple[str, int]]) -> str:
    """The text of an automatic fold of whole rounds: how many, and which tools they called how often."""
    called = ", ".join(f"{name} {times}x" for name, times in calls)
    return f"{rounds} earlier rounds of this turn were folded to save room. Tools called in them: {called or 'none'}."


def folded(name: str, call_id: str, characters: int, start: str) -> str:
    """What stands in the place of one folded result."""
    return (
        f"[Result of {name or 'tool'} folded: {characters} characters, readable with"
        f' read_tool_result(call_id="{call_id}"). It starts with: {start}]'
    )


def left_out(characters: int, call_id: str | None, offset: int) -> str:
    """The mark between head and tail of a shortened text."""
    hint = f'; read_tool_result(call_id="{call_id}", offset={offset}) shows them' if call_id else ""
    return f"\n[... {characters} characters left out here{hint} ...]\n"


def placeholder(kind: str) -> str:
    """What stands for a content block that the receiver cannot take."""
    return f"[{kind} content, not shown]"
