"""Runs one call of a batch and turns what came back into the call's outcome: the rim around `tools.run`."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from langchain_core.callbacks import AsyncCallbackManager
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    message_chunk_to_message,
    message_to_dict,
)
from langchain_core.tools import BaseTool
from langgraph.runtime import get_runtime

from turngraph.context.tokens import count_text
from turngraph.nodes import texts
from turngraph.nodes.closing import outcome
from turngraph.nodes.nesting import enter_tools
from turngraph.nodes.parts import Visit
from turngraph.state.calls import Call, CallOutcome
from turngraph.state.channels import TurnState
from turngraph.tools.clean import clean
from turngraph.tools.effects import split_artifact
from turngraph.tools.policy import ToolPolicy
from turngraph.tools.redact import redact
from turngraph.tools.results import cap, to_text
from turngraph.tools.run import Failed, Interrupted, Ok, RawToolResult, ToolContext, run_tool


@dataclass(frozen=True)
class Asks:
    """The tool called LangGraph's `interrupt()`: the call waits, and will run again from its top."""

    pause: Interrupted


CallResult: TypeAlias = CallOutcome | Asks


def tool_context(visit: Visit, state: TurnState, tools: list[BaseTool]) -> ToolContext:
    """What tools may be handed: state, store, context and writer of the node that runs them."""
    runtime = get_runtime()
    return ToolContext(
        thread=visit.thread,
        turn_id=visit.turn_id,
        config=visit.config,
        state=state,
        context=runtime.context,
        store=runtime.store,
        stream_writer=runtime.stream_writer,
        tools=tools,
        quiet=not AsyncCallbackManager.configure(visit.config.get("callbacks")).handlers,
    )


async def run_call(
    visit: Visit,
    context: ToolContext,
    tool: BaseTool,
    call: Call,
    policy: ToolPolicy,
    resumes: list[Any],
    on_stopped: Callable[[RawToolResult], None],
) -> CallResult:
    """Runs the tool and reads what came back.

    Raises CancelledError only when cancelled from outside; `on_stopped` was told then how the tool ended.
    """
    started = time.monotonic()
    enter_tools(context.context, visit.settings)
    raw = await run_tool(
        tool,
        call,
        timeout=policy.timeout if policy.timeout is not None else visit.settings.tool_timeout,
        injected=context,
        resumes=resumes,
        on_stopped=on_stopped,
    )
    return read_result(visit, call, policy, raw, round(time.monotonic() - started, 4))


def stopped_result(visit: Visit, call: Call, policy: ToolPolicy, raw: RawToolResult, seconds: float) -> CallOutcome:
    """The outcome of a call whose run was cancelled: what it gave in the end, or that it was cancelled."""
    result = read_result(visit, call, policy, raw, round(seconds, 4))
    return result if not isinstance(result, Asks) else outcome(call, "cancelled", texts.CANCELLED)


def read_result(visit: Visit, call: Call, policy: ToolPolicy, raw: RawToolResult, seconds: float) -> CallResult:
    """The outcome of a call from what its tool gave: one text, capped; JSON artifact; effects on the turn."""
    match raw:
        case Interrupted():
            return Asks(raw)
        case Failed(status=status, text=text):
            return _outcome(visit, call, policy, status, clean(redact(text)), seconds)
        case Ok(value=value, artifact=artifact, update=update):
            effects, kept = split_artifact(artifact)
            content = to_text(value, blocks_ok=visit.settings.model_profile.string_tool_content is False)
            result = _outcome(visit, call, policy, "ok", content, seconds)
            if kept is not None:
                result["artifact"] = kept
            if effects is not None:
                result["effects"] = effects.to_json()
            if said := said_besides(update.get("messages", [])):
                result["update"] = {"messages": said}
            return result


def said_besides(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    """What a tool's Command adds to the tape besides its result, as plain JSON: other keys of the state are the turn's.

    Only words are taken: calls that a tool puts into a message were made by no model and passed no gate, marks of
    turngraph are turngraph's to give, and nothing is removed from the tape.
    """
    return [_words(message) for message in messages if message.content and not isinstance(message, RemoveMessage)]


def _words(message: BaseMessage) -> dict[str, Any]:
    given = message_chunk_to_message(message)
    kept: dict[str, Any] = {"content": to_text(given.content, blocks_ok=True), "id": given.id}
    if isinstance(given, AIMessage | HumanMessage | SystemMessage):
        return message_to_dict(type(given)(**kept, name=given.name))
    return message_to_dict(HumanMessage(**kept))


def _outcome(visit: Visit, call: Call, policy: ToolPolicy, status: Any, content: Any, seconds: float) -> CallOutcome:
    """The outcome with its text capped to what one result may take."""
    result: CallOutcome = {
        "call_id": call["id"],
        "name": call["name"],
        "status": status,
        "content": content,
        "seconds": seconds,
    }
    if isinstance(content, str):
        limit = policy.max_output_tokens or visit.settings.max_tool_output_tokens
        capped = cap(content, limit, call["id"], count_text)
        result["content"] = capped.text
        if capped.full is not None:
            result["full"] = capped.full
    return result
