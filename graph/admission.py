"""What is refused before LangGraph's loop starts, with nothing saved: unusable input, settings, limits, answers."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.types import Command, Interrupt, StateSnapshot

from turngraph.graph.routes import MIN_RECURSION_LIMIT
from turngraph.llm.loading import resolve_model
from turngraph.nodes.parts import TurnParts, given_settings
from turngraph.state.channels import coerce_messages
from turngraph.state.errors import InputError, ResumeError
from turngraph.state.settings import TurnSettings
from turngraph.tools.answers import normalise_resume
from turngraph.tools.redact import is_secret


@dataclass(frozen=True)
class Admitted:
    """Input and context as they are handed to LangGraph."""

    input: Any
    context: Any


def is_nested(config: RunnableConfig | None) -> bool:
    """Whether this run is part of another graph's run, which then owns resumes and limits."""
    return "__pregel_read" in configurable_of(config)


def configurable_of(config: RunnableConfig | None) -> dict[str, Any]:
    """The `configurable` that LangGraph will use: the caller's, over that of the node or tool that this call is made
    in, unless the caller names a thread (or checkpoint) of its own."""
    given = (config or {}).get("configurable", {})
    if any(given.get(key) for key in ("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map")):
        return given
    return {**(var_child_runnable_config.get() or {}).get("configurable", {}), **given}


def admit(input: Any, config: RunnableConfig | None, bound: RunnableConfig | None, context: Any) -> Admitted:
    """The input with ids on its messages, and the context as TurnSettings.

    Raises InputError for input without `messages`, unknown settings, a key in the config, or a recursion limit that
    cannot reach the end.
    """
    if is_nested(config):
        return Admitted(_with_ids(input) if isinstance(input, dict) and "messages" in input else input, context)
    if not is_served(config):
        _refuse_secrets(config)
    limit = (config or {}).get("recursion_limit") or (bound or {}).get("recursion_limit")
    if limit is not None and limit < MIN_RECURSION_LIMIT:
        raise InputError(
            f"recursion_limit={limit} is too low for a turn: it needs at least {MIN_RECURSION_LIMIT} steps to reach "
            "its end. Leave it out, and use TurnSettings(max_rounds=...) to bound the work."
        )
    if isinstance(context, dict) and "turn_settings" not in context:
        try:
            context = TurnSettings.model_validate(context)
        except ValueError as error:
            raise InputError(f"These turn settings cannot be used: {error}") from error
    given_settings(context)
    if input is None or isinstance(input, Command):
        return Admitted(input, context)
    if not isinstance(input, dict) or "messages" not in input:
        raise InputError('The input of a turn is {"messages": [...]}, for example {"messages": [("user", "Hello")]}.')
    return Admitted(_with_ids(input), context)


def unloaded_models(parts: TurnParts, admitted: Admitted, config: RunnableConfig | None) -> list[str | None]:
    """The names of the models that a new turn will ask for, None for the environment's; none where it begins later.

    Inside another graph, and on a server, the input is saved by then: there `prepare_turn` raises.
    """
    if is_nested(config) or is_served(config) or not isinstance(admitted.input, dict):
        return []
    settings = given_settings(admitted.context)
    first = (settings.model if settings is not None else None) or parts.model
    wanted = [first, *parts.fallback_models]
    return [model for model in wanted if not isinstance(model, BaseChatModel)]


async def load_models(names: Sequence[str | None]) -> None:
    """Raises ModelLoadError for a model that cannot be loaded. A loaded one is kept, so this costs nothing twice."""
    for name in names:
        await resolve_model(name, None)


def _refuse_secrets(config: RunnableConfig | None) -> None:
    """Raises InputError for a key in the config: LangGraph copies its plain values into every checkpoint.

    On a server the run is stored by then, so there it would come too late.
    """
    given = config or {}
    for part, values in (("configurable", given.get("configurable")), ("metadata", given.get("metadata"))):
        for name, value in (values or {}).items():
            if isinstance(value, str) and not name.startswith("__") and is_secret(name, value):
                raise InputError(
                    f"config[{part!r}][{name!r}] looks like a secret, and LangGraph would store it in clear text with "
                    "every checkpoint. Take secrets from the environment, or from a store by a reference."
                )


def _with_ids(input: dict[str, Any]) -> dict[str, Any]:
    """The input with every message converted, with a random id where it has none; the caller's own are not touched."""
    items = input["messages"] if isinstance(input["messages"], list) else [input["messages"]]
    messages: list[BaseMessage] = []
    for item in items:
        try:
            message = coerce_messages(item)[0]
        except Exception as error:
            raise InputError(f"This message cannot be read: {error}") from error
        given = item.get("id") if isinstance(item, dict) else getattr(item, "id", None)
        messages.append(message if given else message.model_copy(update={"id": str(uuid4())}))
    return {**input, "messages": messages}


def with_unstarted(admitted: Admitted, saved: CheckpointTuple | None) -> Admitted:
    """The input with the messages before it that a run saved last and never began to work on: its process died then.

    `saved` is the thread's newest checkpoint. LangGraph would drop them for the new input.
    """
    if saved is None or saved.metadata.get("source") != "input":
        return admitted
    left = saved.checkpoint["channel_values"].get("__start__")
    if not isinstance(left, dict) or not left.get("messages"):
        return admitted
    new = admitted.input["messages"]
    given = {message.id for message in new}
    before = [m for m in left["messages"] if isinstance(m, BaseMessage) and m.id not in given]
    return replace(admitted, input={**admitted.input, "messages": [*before, *new]})


def takes_messages(admitted: Admitted, config: RunnableConfig | None) -> bool:
    """Whether the input is new messages for the newest checkpoint of a thread."""
    return isinstance(admitted.input, dict) and not configurable_of(config).get("checkpoint_id")


def refuse_own_loop(checkpointer: Any) -> None:
    """A sync call on the event loop that an async saver works on would wait for itself for ever: refused clearly."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return
    if getattr(checkpointer, "loop", None) is running:
        raise InputError(
            f"invoke and stream cannot be called on the event loop that {type(checkpointer).__name__} works on: "
            "await ainvoke, or iterate astream."
        )


def wants_resume(admitted: Admitted) -> bool:
    """Whether the input answers a pause (an answer of None included)."""
    command = admitted.input
    return isinstance(command, Command) and not command.update and not command.goto


def is_served(config: RunnableConfig | None) -> bool:
    """Whether LangGraph server runs this graph: it hides the text of errors and leaves the thread in status error."""
    return "langgraph_request_id" in (config or {}).get("configurable", {})


def check_resume(
    admitted: Admitted, snapshot: StateSnapshot, tools: Collection[str], *, strict: bool = True
) -> Admitted:
    """The same input with an answer that LangGraph can take; raises ResumeError for one that cannot be applied.

    `tools` are the names that an edited call may have. Not `strict`: the answer is handed on, and the `interrupt` node
    refuses it by pausing again with the reason.
    """
    pending = [interrupt for task in snapshot.tasks for interrupt in task.interrupts]
    if not pending:
        raise ResumeError("Nothing waits for an answer on this thread. Send a message to start a new turn.")
    value = admitted.input.resume
    answers = _by_interrupt(value, pending, strict=strict)
    for interrupt in pending:
        if strict and interrupt.id in answers and is_turn_payload(interrupt.value):
            normalise_resume(answers[interrupt.id], interrupt.value, tools)
    return replace(admitted, input=Command(resume=answers))


def _by_interrupt(value: Any, pending: list[Interrupt], *, strict: bool) -> dict[str, Any]:
    """Answers by interrupt id: LangGraph's own map, or one plain value for the one pause there is.

    Not `strict`: an answer to a pause that is over is handed on as one to unknown calls, which the node refuses.
    """
    ids = {interrupt.id for interrupt in pending}
    if isinstance(value, dict) and value and all(_is_interrupt_id(key) for key in value):
        if unknown := set(value) - ids:
            if not strict and is_turn_payload(pending[0].value):
                return {pending[0].id: {"decisions": {key: value[key] for key in unknown}}}
            raise ResumeError(f"No pause has the id {sorted(unknown)[0]!r}. Pending: {', '.join(sorted(ids))}.")
        return value
    if len(pending) > 1:
        raise ResumeError(
            f"{len(pending)} pauses wait: answer by id, "
            f"Command(resume={{id: answer}}). Pending: {', '.join(sorted(ids))}."
        )
    return {pending[0].id: value}


def _is_interrupt_id(key: Any) -> bool:
    return isinstance(key, str) and len(key) == 32 and all(letter in "0123456789abcdef" for letter in key)


def is_turn_payload(value: Any) -> bool:
    """Whether a pause is turngraph's own, and not a tool's."""
    return isinstance(value, dict) and "turngraph" in value and "action_requests" in value
