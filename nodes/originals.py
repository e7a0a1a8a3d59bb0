"""`read_tool_result`: the whole text of a result that was cut or folded, a page at a time, from the thread itself."""

from langchain_core.messages import ToolMessage

from turngraph.context.tokens import count_text
from turngraph.nodes.closing import outcome
from turngraph.state.calls import Call, CallOutcome
from turngraph.state.channels import TurnState
from turngraph.tools.results import page_within


def read_original(state: TurnState, call: Call, max_tokens: int) -> CallOutcome:
    """The page, of at most `max_tokens`, that the call asks for; an error in words for an unknown id or bad offset."""
    wanted, offset = call["args"].get("call_id"), call["args"].get("offset", 0)
    texts: dict[str, str] = {
        message.tool_call_id: message.text for message in state["messages"] if isinstance(message, ToolMessage)
    }
    texts |= {original["call_id"]: original["text"] for original in state.get("originals", [])}
    if wanted not in texts:
        return outcome(call, "error", f"There is no tool result with the call id {wanted!r} on this thread.")
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        return outcome(call, "error", "offset must be a whole number of characters, 0 or more.")
    return outcome(call, "ok", page_within(texts[wanted], offset, max_tokens, count_text))
