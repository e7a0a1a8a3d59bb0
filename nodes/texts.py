"""What turngraph says to the model and, where no model can speak, to the user. One place, named, tested by meaning."""

from collections.abc import Sequence

from turngraph.nodes.over_window import OverWindow
from turngraph.state.words import StopReason

NUDGE = (
    "Your last message had no visible text and no tool call. "
    "Call a tool to carry out your plan, or write the answer now."
)
CONTINUE = "Your last message was cut off by the output limit. Continue exactly where it stopped; repeat nothing."

_WHY: dict[StopReason, str] = {
    "max_rounds": "the budget of rounds for this turn is spent",
    "max_tool_calls": "the budget of tool calls for this turn is spent",
    "max_tokens": "the token budget of this turn is spent",
    "max_seconds": "the time budget of this turn is spent",
    "no_progress": "the same tool calls gave the same results several times without progress",
    "provider_error": "the last model call failed",
    "truncated": "your tool calls were cut off by the output limit several times",
    "empty_response": "your last messages had no visible text",
    "context_window": "the conversation does not fit the context window",
}

ANSWERED_UNSEEN = (
    "The answer came before this question was shown, or the calls were changed since. Please look, and answer again."
)


def why(reason: StopReason) -> str:
    """The reason to stop, in words."""
    return _WHY.get(reason, reason.replace("_", " "))


def settle(rounds_left: int) -> str:
    """Told once, when the round budget is spent and settlement rounds remain."""
    rounds = "1 more round" if rounds_left == 1 else f"{rounds_left} more rounds"
    return (
        f"The budget of rounds for this turn is spent. You have {rounds} with tools to settle what is open: "
        "finish started work, then write the answer."
    )


def finish_now(reason: StopReason) -> str:
    """Told before the one call of a forced finish."""
    return (
        f"Finish now: {why(reason)}. Tools cannot be used any more. Write the answer to the user from what you have; "
        "say what is missing or was not done."
    )


def not_run(reason: StopReason) -> str:
    """The tool message of a call that a stop overtook."""
    return f"Not run: {why(reason)}."


NOT_ANSWERED = "Not answered: the user sent a new message instead of answering. The tool was not run."
ABANDONED = "The user abandoned this question. The tool was not run."
CANCELLED = "Cancelled: the run was stopped before this tool ran."
READ_MAY_NOT_ASK = "Not finished: a tool that is declared to only read may not pause to ask a person."
BROKE_OFF = "Not run: the run broke off before this tool was started."


def fallback(reason: StopReason, results: Sequence[tuple[str, str]]) -> str:
    """The answer where no model could write one: says so, and lists the tool results that were gathered."""
    head = f"No answer could be written: {_why_user(reason)}."
    if not results:
        return head
    lines = [f"- {name}: {_clip(text)}" for name, text in results[-20:]]
    return head + " These tool results were gathered:\n" + "\n".join(lines)


def does_not_fit(over: OverWindow) -> str:
    """Told to the user with a request that is sent although it is larger than the window."""
    what = {
        "instructions": "The instructions and the tools alone do not fit the model's context window",
        "question": "The message does not fit the model's context window",
        "conversation": "The conversation does not fit the model's context window, though all was cut that may be",
    }
    return f"{what[over.part]}: about {over.needed:,} tokens, with room for {over.room:,}. It is sent all the same."


def after_overflow(over: OverWindow | None) -> str:
    """Told to the user where the provider would not take the request: what can be done."""
    if over is None:
        return "Start a new conversation, or use a model with a larger context window."
    sizes = f"the request takes about {over.needed:,} tokens, and there is room for about {over.room:,}"
    match over.part:
        case "instructions":
            return f"Use a shorter system prompt or fewer tools, or a model with a larger context window: {sizes}."
        case "question":
            return (
                "The message is too long by itself. Shorten it, send it in parts, or use a model with a larger "
                f"context window: {sizes}."
            )
        case "conversation":
            return f"Start a new conversation, or use a model with a larger context window: {sizes}."


def _why_user(reason: StopReason) -> str:
    user_words: dict[StopReason, str] = {
        "empty_response": "the model returned no visible text",
        "no_progress": "the model repeated the same tool calls without progress",
        "truncated": "the model's output was cut off",
    }
    return user_words.get(reason, why(reason))


def _clip(text: str, limit: int = 1_000) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else f"{flat[:limit]} … ({len(flat) - limit} more characters)"


PENDING_INPUT = "Stopped here because a new message came in; it is answered next."
CANCELLED_ANSWER = "The run was cancelled before an answer was written."
