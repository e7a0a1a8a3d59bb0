"""`build_turn_graph`: the drawing of a turn, and what it is built from."""

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.stream import CustomTransformer

from turngraph.graph.node import NodeFunction, TurnNode
from turngraph.graph.routes import (
    route_after_call_llm,
    route_after_dispatch_tools,
    route_after_fold_checkpoint,
    route_after_interrupt,
)
from turngraph.graph.shell import TurnGraph
from turngraph.llm.structured import normalise_format
from turngraph.nodes.call_llm import call_llm
from turngraph.nodes.dispatch_tools import dispatch_tools
from turngraph.nodes.finalize import finalize
from turngraph.nodes.fold_checkpoint import fold_checkpoint
from turngraph.nodes.forced_finish import forced_finish
from turngraph.nodes.interrupt import interrupt_node
from turngraph.nodes.parts import RESERVED_NAMES, Capability, TurnParts
from turngraph.nodes.prepare_turn import prepare_turn
from turngraph.state.channels import TurnInput, TurnOutput, TurnState
from turngraph.state.errors import InputError
from turngraph.state.settings import MAX_ROUNDS_CEILING, TurnSettings
from turngraph.tools.journal_sql import journal_for
from turngraph.tools.policy import as_tool_object
from turngraph.tools.skills import Skill

RECURSION_LIMIT = 8 * MAX_ROUNDS_CEILING + 50
"""Bound at build: high enough that LangGraph's own limit never fires before a budget of the turn."""


def build_turn_graph(
    model: BaseChatModel | str | None = None,
    tools: Sequence[Any] = (),
    capabilities: Sequence[Capability] = (),
    *,
    response_format: Any = None,
    fallback_models: Sequence[BaseChatModel | str] = (),
    checkpointer: Any = None,
    store: BaseStore | None = None,
    name: str = "turn",
    skills: Sequence[Skill] = (),
) -> TurnGraph:
    """A compiled graph of one agent turn.

    model: a chat model, a name such as "openai:gpt-5-mini", or None (then `TurnSettings.model`, then
        TURNGRAPH_MODEL, then the offline model). Nothing is read from environment or network before the first run.
    tools: LangChain tools, plain callables (sync or async), or provider-side tool dicts.
    capabilities: bundles of prompt, tools, minimum of rounds and seed.
    response_format: a pydantic model, TypedDict or JSON schema that the answer must fill; the value is in `structured`.
    fallback_models: tried in order when the retries of a call are spent and nothing of it was visible.
    checkpointer, store: LangGraph's. Without a checkpointer nothing can pause: a tool that asks is denied.
    skills: folders read by `load_skills`.

    Returns a graph that runs sync and async: input `{"messages": [...]}`, output `messages`, `answer`, `receipt` (and
    `structured`); settings as `context=TurnSettings(...)`. Raises InputError for tools that cannot be used.
    """
    parts = _parts(model, tools, capabilities, response_format, fallback_models, skills)
    # The one place that adds it: a second one, on the server's module for example, fails every v3 run.
    compiled = _drawing(parts).compile(
        checkpointer=checkpointer, store=store, name=name, transformers=[CustomTransformer]
    )
    graph = TurnGraph(parts=parts, **compiled.__dict__)
    return graph.with_config(recursion_limit=RECURSION_LIMIT)


def _drawing(parts: TurnParts) -> StateGraph[TurnState, TurnSettings, TurnInput, TurnOutput]:
    """The seven nodes and their edges."""
    builder: StateGraph[TurnState, TurnSettings, TurnInput, TurnOutput] = StateGraph(
        TurnState, context_schema=TurnSettings, input_schema=TurnInput, output_schema=TurnOutput
    )
    nodes: dict[str, tuple[NodeFunction, bool]] = {
        "prepare_turn": (prepare_turn, False),
        "call_llm": (call_llm, True),
        "dispatch_tools": (dispatch_tools, True),
        "interrupt": (interrupt_node, False),
        "fold_checkpoint": (fold_checkpoint, False),
        "forced_finish": (forced_finish, True),
        "finalize": (finalize, False),
    }
    for node, (function, cuttable) in nodes.items():
        builder.add_node(node, TurnNode(parts, function, cuttable=cuttable), input_schema=TurnState)
    builder.add_edge(START, "prepare_turn")
    builder.add_edge("prepare_turn", "call_llm")
    builder.add_conditional_edges("call_llm", route_after_call_llm)
    builder.add_conditional_edges("dispatch_tools", route_after_dispatch_tools)
    builder.add_conditional_edges("interrupt", route_after_interrupt)
    builder.add_conditional_edges("fold_checkpoint", route_after_fold_checkpoint)
    builder.add_edge("forced_finish", "finalize")
    builder.add_edge("finalize", END)
    return builder


def _parts(
    model: BaseChatModel | str | None,
    tools: Sequence[Any],
    capabilities: Sequence[Capability],
    response_format: Any,
    fallback_models: Sequence[BaseChatModel | str],
    skills: Sequence[Skill],
) -> TurnParts:
    """Everything given, normalised; raises InputError for a tool name that is used twice or reserved."""
    named: dict[str, BaseTool] = {}
    provider: list[dict[str, Any]] = []
    for given in [*tools, *(tool for capability in capabilities for tool in capability.tools)]:
        tool = as_tool_object(given)
        if isinstance(tool, dict):
            provider.append(tool)
        elif tool.name in RESERVED_NAMES:
            raise InputError(f"The tool name {tool.name!r} is turngraph's own; give your tool another name.")
        elif tool.name in named and named[tool.name] is not tool:
            raise InputError(f"Two tools are named {tool.name!r}; names must be unique in a turn.")
        else:
            named[tool.name] = tool
    return TurnParts(
        model=model,
        tools=named,
        provider_tools=tuple(provider),
        capabilities=tuple(capabilities),
        skills=tuple(skills),
        fallback_models=tuple(fallback_models),
        response_format=None if response_format is None else normalise_format(response_format),
        journal_of=journal_for,
    )
