"""What a tool is handed besides the model's arguments: state, store, runtime, config, and interrupts of its own."""

import copy
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import FrameType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints
from uuid import NAMESPACE_OID, uuid5

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg
from langchain_core.tools.base import get_all_basemodel_annotations
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.runtime import ExecutionInfo, ServerInfo
from langgraph.store.base import BaseStore
from langgraph.types import interrupt

from turngraph.state.calls import Call

IDEMPOTENCY_KEY = "turngraph_idempotency_key"
"""Where in `config["configurable"]` a tool finds its idempotency key."""

_SCRATCHPAD = "__pregel_scratchpad"
_SEND = "__pregel_send"
_RESUMING = "__pregel_resuming"
_RESUME_MAP = "__pregel_resume_map"
_NESTED = "turngraph_nested_answers"

_key: ContextVar[str | None] = ContextVar("turngraph_idempotency_key", default=None)


def idempotency_key() -> str | None:
    """Inside a tool that a turn runs: the key of this call, the same however often the call is tried. Else None."""
    return _key.get()


@dataclass(frozen=True)
class ToolContext:
    """Where a call runs: its turn, and what the running node can hand to tools."""

    thread: str
    turn_id: str
    config: RunnableConfig
    state: Any = None
    context: Any = None
    store: BaseStore | None = None
    stream_writer: Callable[[Any], None] = lambda _: None
    tools: Sequence[BaseTool] = ()
    execution_info: ExecutionInfo | None = None
    server_info: ServerInfo | None = None
    quiet: bool = False
    """Whether no callback handler (a tracer, a stream of messages or events) watches this run."""

    def key(self, call_id: str) -> str:
        """The idempotency key of a call: thread, turn and call id."""
        return f"{self.thread}:{self.turn_id}:{call_id}"


@dataclass(frozen=True)
class OwnInterrupt:
    """An `interrupt()` inside a tool that has no answer yet."""

    value: Any
    response_schema: dict[str, Any] | None
    count: int
    """How many of the tool's interrupts were answered before this one."""


class ToolPause(BaseException):
    """Stops a tool at its unanswered `interrupt()`. No Exception: a tool's `except Exception` does not eat it."""


@dataclass
class PauseBook:
    """The interrupts of one run of one tool: which answers they get, and the first that has none."""

    resumes: Sequence[Any]
    asked: int = 0
    open: OwnInterrupt | None = None
    _counter: Iterator[int] = field(default_factory=itertools.count)

    def next_index(self) -> int:
        """Called by LangGraph at each `interrupt()`: the index of its answer."""
        index = next(self._counter)
        self.asked = index + 1
        return index

    def no_answer(self, _consume: bool = False) -> None:
        """Called by LangGraph's `interrupt()` when it finds no answer: notes the question and stops the tool there.

        An interrupt of a graph that the tool runs asks here as well; that one is the inner graph's to raise and save.
        """
        frame = sys._getframe(1)
        if frame.f_code is interrupt.__code__:
            self.open = self.open or _own_interrupt(frame, len(self.resumes))
            raise ToolPause


def _own_interrupt(frame: FrameType, count: int) -> OwnInterrupt:
    """The question that a running `interrupt(value, response_schema=...)` was called with."""
    adapter, given = frame.f_locals.get("adapter"), frame.f_locals.get("response_schema")
    schema = adapter.json_schema() if adapter is not None else given
    return OwnInterrupt(frame.f_locals["value"], schema, count)


def nested_answer(answers: Mapping[str, Any]) -> dict[str, Any]:
    """The entry in a call's `resumes` that answers interrupts of a graph that the tool runs, by interrupt id."""
    return {_NESTED: dict(answers)}


def is_nested_answer(entry: Any) -> bool:
    """Whether an entry of `resumes` is one of `nested_answer`."""
    return isinstance(entry, dict) and set(entry) == {_NESTED}


def call_config(context: ToolContext, call: Call, resumes: Sequence[Any]) -> tuple[RunnableConfig, PauseBook]:
    """The config of one call, with interrupts, subgraph namespaces and idempotency key of its own.

    Calls of one batch share the node's task in LangGraph; without this they would share its interrupt counter too,
    and a graph that a tool runs would not find its checkpoint again when the call is run again after a pause.
    """
    book = PauseBook([entry for entry in resumes if not is_nested_answer(entry)])
    configurable = dict(context.config.get("configurable", {}))
    configurable[IDEMPOTENCY_KEY] = context.key(call["id"])
    if (scratchpad := configurable.get(_SCRATCHPAD)) is not None:
        configurable[_SCRATCHPAD] = replace(
            scratchpad,
            interrupt_counter=book.next_index,
            resume=list(book.resumes),
            get_null_resume=book.no_answer,
            subgraph_counter=itertools.count().__next__,
        )
        configurable[_SEND] = lambda _: None
        configurable["checkpoint_ns"] = _namespace(configurable.get("checkpoint_ns", ""), context.key(call["id"]))
        configurable[_RESUMING] = bool(resumes)
        nested = [entry[_NESTED] for entry in resumes if is_nested_answer(entry)]
        configurable[_RESUME_MAP] = {key: value for answers in nested for key, value in answers.items()}
    config: RunnableConfig = {**context.config, "configurable": configurable}
    config.pop("run_id", None)
    return config, book


def _namespace(node: str, key: str) -> str:
    """The checkpoint namespace of graphs that a call runs: beside the node's, the same whenever the call runs again."""
    parent, _, task = node.rpartition("|")
    own = f"{task.partition(':')[0]}:{uuid5(NAMESPACE_OID, key)}"
    return f"{parent}|{own}" if parent else own


def enter_call(key: str) -> None:
    """Makes `key` what `idempotency_key()` returns in the current context."""
    _key.set(key)


@dataclass(frozen=True)
class Injections:
    """Which parameters of a tool are not the model's: their names, and what each one gets."""

    hidden: frozenset[str]
    state: Mapping[str, str | None]
    optional: frozenset[str]
    store: tuple[str, ...]
    runtime: tuple[str, ...]


def injections(tool: BaseTool) -> Injections:
    """What a tool declares by InjectedState, InjectedStore, ToolRuntime and other InjectedToolArg annotations."""
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None) or type(tool)._run
    schema = tool.args_schema if isinstance(tool.args_schema, type) else None
    try:
        return _declared(function, schema)
    except TypeError:  # a callable object that cannot be hashed
        return _declared.__wrapped__(function, schema)


@lru_cache(maxsize=1024)
def _declared(function: Callable[..., Any], schema: type[Any] | None) -> Injections:
    hints = {**_hints(function), **(get_all_basemodel_annotations(schema) if schema is not None else {})}
    state: dict[str, str | None] = {}
    store: list[str] = []
    runtime: list[str] = []
    hidden: set[str] = set()
    for name, annotation in hints.items():
        marks = list(_marks(annotation))
        if name == "runtime" or any(_is_a(mark, ToolRuntime) for mark in marks):
            runtime.append(name)
        for mark in marks:
            if _is_a(mark, InjectedState):
                state[name] = getattr(mark, "field", None) or None
            elif _is_a(mark, InjectedStore):
                store.append(name)
            if _is_a(mark, InjectedToolArg):
                hidden.add(name)
    fields = getattr(schema, "model_fields", {})
    optional = frozenset(name for name in state if name in fields and not fields[name].is_required())
    return Injections(frozenset({*hidden, *state, *store, *runtime}), state, optional, tuple(store), tuple(runtime))


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of the function behind a tool; empty where they cannot be resolved."""
    try:
        return get_type_hints(function, include_extras=True)
    except (TypeError, NameError):
        return {}


def _marks(annotation: Any) -> Iterator[Any]:
    """Everything that an annotation says: its type, and what Annotated, unions and generics hold."""
    yield annotation
    origin = get_origin(annotation)
    if origin in (Annotated, Union, UnionType):
        for part in get_args(annotation):
            yield from _marks(part)
    elif origin is not None:
        yield origin


def _is_a(mark: Any, kind: type) -> bool:
    return isinstance(mark, kind) or (isinstance(mark, type) and issubclass(mark, kind))


class InjectionError(Exception):
    """The turn cannot hand a tool what it declares."""


def call_arguments(tool: BaseTool, call: Call, context: ToolContext, config: RunnableConfig) -> dict[str, Any]:
    """The model's arguments (a copy) and what the tool declares besides; hidden ones that the model named are dropped.

    Raises InjectionError where the tool wants a store or a state field that does not exist.
    """
    wanted = injections(tool)
    given = {name: copy.deepcopy(value) for name, value in call["args"].items() if name not in wanted.hidden}
    for name, key in wanted.state.items():
        if key is None:
            given[name] = context.state
        elif (found := _state_field(context.state, key, _MISSING)) is not _MISSING:
            given[name] = found
        elif name not in wanted.optional:
            raise InjectionError(f"The tool wants the state field {key!r}, which this graph does not have.")
    for name in wanted.store:
        if context.store is None:
            raise InjectionError("The tool wants a store, and this graph was built without one.")
        given[name] = context.store
    for name in wanted.runtime:
        given[name] = ToolRuntime(
            state=context.state,
            context=context.context,
            config=config,
            stream_writer=context.stream_writer,
            tool_call_id=call["id"],
            store=context.store,
            tools=list(context.tools),
            execution_info=context.execution_info,
            server_info=context.server_info,
        )
    return given


_MISSING = object()


def _state_field(state: Any, key: str, default: Any) -> Any:
    return state.get(key, default) if isinstance(state, Mapping) else getattr(state, key, default)
