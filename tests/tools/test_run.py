"""One call of one tool: whatever the tool does is that call's outcome, and siblings never notice."""

import asyncio
import contextvars
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
    tool,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.errors import ParentCommand
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from turngraph.tools import running
from turngraph.tools.inject import IDEMPOTENCY_KEY, ToolContext, injections
from turngraph.tools.parallel import Job, run_many
from turngraph.tools.run import Failed, Interrupted, Ok, RawToolResult, idempotency_key, run_tool


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "STOP_SECONDS", 0.2)


def here(**more: Any) -> ToolContext:
    return ToolContext(thread="t", turn_id="u", config={"configurable": {"thread_id": "t"}}, **more)


async def run(
    the_tool: BaseTool, timeout: float | None = 5, context: ToolContext | None = None, **args: Any
) -> RawToolResult:
    call = {"id": "c1", "name": the_tool.name, "args": args}
    return await run_tool(the_tool, call, timeout=timeout, injected=context or here())  # type: ignore[arg-type]


def both(body: Callable[..., Any], **options: Any) -> list[BaseTool]:
    """A body as a sync tool and as an async one."""

    async def later(**args: Any) -> Any:
        await asyncio.sleep(0)
        return body(**args)

    sync = StructuredTool.from_function(func=body, name="it", description="d", **options)
    options = {"args_schema": sync.args_schema, **options}
    return [sync, StructuredTool.from_function(coroutine=later, name="it", description="d", **options)]


# --- values come back as they are

VALUES: list[Any] = [
    "text",
    "",
    None,
    b"\x00\xff",
    0,
    False,
    {"a": [1, {"b": None}]},
    [{"type": "text", "text": "a"}, {"type": "image", "base64": "eA==", "mime_type": "image/png"}],
    [],
    ("a", "b"),
    {1, 2},
    object(),
    "x" * 1_000_000,
    [AIMessage("not for us")],
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
async def test_a_value_comes_back_raw(value: Any) -> None:
    def body() -> Any:
        return value

    for each in both(body):
        result = await run(each)
        assert isinstance(result, Ok)
        assert result.value is value


async def test_a_value_whose_text_form_fails_comes_back_raw() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError("no repr")

    def body() -> Any:
        return [AIMessage("x")]

    assert isinstance(await run(both(body)[0]), Ok)


async def test_content_and_artifact() -> None:
    def body() -> Any:
        return "content", {"rows": [1]}

    for each in both(body, response_format="content_and_artifact"):
        assert await run(each) == Ok("content", {"rows": [1]})

    def wrong() -> Any:
        return "only content"

    for each in both(wrong, response_format="content_and_artifact"):
        result = await run(each)
        assert isinstance(result, Failed)
        assert result.status == "error"
        assert "two-tuple" in result.text


async def test_messages_and_commands_are_taken_apart() -> None:
    mine = ToolMessage("mine", tool_call_id="c1", artifact={"a": 1})
    other = ToolMessage("other", tool_call_id="c2")
    person = HumanMessage("hi", id="h")
    cases: list[tuple[Any, Any]] = [
        (mine, Ok("mine", {"a": 1})),
        ([other, mine], Ok("mine", {"a": 1})),
        (Command(update={"messages": [mine, person], "k": 1}), Ok("mine", {"a": 1}, {"k": 1, "messages": [person]})),
        (Command(update={"messages": mine}), Ok("mine", {"a": 1})),
        (Command(update=[mine, other]), Ok("mine", {"a": 1})),
        (Command(update=[("k", 2), ("messages", [mine])]), Ok("mine", {"a": 1}, {"k": 2})),
        (Command(update={"k": 1}), Ok(None, None, {"k": 1})),
        (Command(goto="elsewhere"), Ok(None)),
        (
            [Command(update={"k": 1}), Command(update={"l": 2, "messages": [mine]})],
            Ok("mine", {"a": 1}, {"k": 1, "l": 2}),
        ),
        (ToolMessage("bad", tool_call_id="c1", status="error"), Failed("error", "bad")),
    ]
    for value, expected in cases:

        def body(value: Any = value) -> Any:
            return value

        for each in both(body, args_schema=NoArguments):
            assert await run(each) == expected, value


class NoArguments(BaseModel):
    """Takes nothing."""


async def test_a_sync_function_that_hands_on_an_async_one() -> None:
    async def later(x: int) -> str:
        await asyncio.sleep(0)
        return f"later {x}"

    sync = StructuredTool.from_function(func=lambda x: later(x), name="it", description="d", args_schema=OneInt)
    assert await run(sync, x=1) == Ok("later 1")


class OneInt(BaseModel):
    """One number."""

    x: int = Field(description="a number")


# --- every kind of tool


class Counter(BaseTool):
    """A tool that keeps state in itself."""

    name: str = "counter"
    description: str = "d"
    count: int = 0

    def _run(self, step: int, config: RunnableConfig, run_manager: Any = None) -> str:
        self.count += step
        return f"{self.count} {config['configurable'][IDEMPOTENCY_KEY]} {run_manager is not None}"


class AsyncCounter(Counter):
    """The same, async."""

    async def _arun(self, step: int, config: RunnableConfig) -> str:
        return "async " + self._run(step, config)


class Overridden(BaseTool):
    """A tool that replaces LangChain's own `invoke`."""

    name: str = "overridden"
    description: str = "d"

    def invoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return ToolMessage("from invoke", tool_call_id=input["id"])

    def _run(self) -> str:
        return "never"


async def test_tools_of_every_kind() -> None:
    counter, later = Counter(), AsyncCounter()
    assert await run(counter, step=2) == Ok("2 t:u:c1 True")
    assert await run(counter, step=2) == Ok("4 t:u:c1 True")
    assert await run(later, step=1) == Ok("async 1 t:u:c1 False")
    assert await run(Overridden()) == Ok("from invoke")
    plain = Tool(name="plain", description="d", func=lambda text: text.upper())
    assert await run(plain, __arg1="x") == Ok("X")

    async def upper(text: str) -> str:
        return text.upper()

    both_forms = StructuredTool.from_function(
        func=lambda text: "sync", coroutine=upper, name="b", description="d", args_schema=OneText
    )
    assert await run(both_forms, text="x") == Ok("X")
    from_schema = StructuredTool(
        name="j", description="d", args_schema={"type": "object", "properties": {"x": {}}}, func=lambda **kw: kw
    )
    assert await run(from_schema, x=1, extra=[2]) == Ok({"x": 1, "extra": [2]})


class OneText(BaseModel):
    """One text."""

    text: str


async def test_a_tool_cannot_change_the_stored_arguments() -> None:
    @tool
    def change(rows: list[Any]) -> str:
        """Changes what it got."""
        rows[0]["a"] = 2
        return "changed"

    args = {"rows": [{"a": 1}]}
    assert await run(change, **args) == Ok("changed")
    assert args == {"rows": [{"a": 1}]}


# --- errors


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text either")


ERRORS: list[tuple[BaseException, str]] = [
    (ValueError("sk-canary is wrong"), "ValueError: sk-canary is wrong"),
    (KeyError("x"), "KeyError: 'x'"),
    (RuntimeError(), "RuntimeError"),
    (Odd(), "Odd"),
    (ToolException("for the model"), "ToolException: for the model"),
    (SystemExit(3), "SystemExit: 3"),
    (KeyboardInterrupt(), "KeyboardInterrupt"),
    (asyncio.CancelledError(), "The tool cancelled itself."),
    (ExceptionGroup("both", [ValueError("a"), TypeError("b")]), "ExceptionGroup: both: ValueError: a; TypeError: b"),
    (
        BaseExceptionGroup("all", [SystemExit(1), ExceptionGroup("in", [OSError("c")])]),
        "BaseExceptionGroup: all: SystemExit: 1; ExceptionGroup: in: OSError: c",
    ),
    (GeneratorExit(), "GeneratorExit"),
    (TimeoutError("its own"), "TimeoutError: its own"),
]


@pytest.mark.parametrize(("error", "text"), ERRORS, ids=lambda value: type(value).__name__)
async def test_whatever_a_tool_raises_is_its_own_outcome(error: BaseException, text: str) -> None:
    def body() -> Any:
        raise error

    def fine() -> str:
        return "fine"

    for bad, good in zip(both(body), both(fine), strict=True):
        results = await asyncio.gather(run(bad), run(good))
        assert results == [Failed("error", text), Ok("fine")]


async def test_stop_iteration_of_a_tool_is_an_error() -> None:
    def body() -> Any:
        raise StopIteration("over")

    for each in both(body):
        result = await run(each)
        assert isinstance(result, Failed)
        assert result.status == "error"


async def test_a_tool_that_cancels_its_own_task_fails_alone() -> None:
    @tool
    async def suicide() -> str:
        """Cancels the task that it runs in."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(1)
        return "never"

    assert await run(suicide) == Failed("error", "The tool cancelled itself.")
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_wrong_arguments_name_the_fields() -> None:
    @tool
    def book(city: str, nights: int, note: str = "") -> str:
        """Books."""
        return "booked"

    result = await run(book, nights="three", secret="x" * 500)
    assert isinstance(result, Failed)
    assert result.status == "error"
    for part in ("city", "required", "nights", "'three'", "note", "book"):
        assert part in result.text
    assert len(result.text) < 400


async def test_a_validation_error_inside_the_tool_is_the_tools_error() -> None:
    @tool
    def inner() -> str:
        """Validates something else."""
        OneInt.model_validate({"x": "no"})
        return "never"

    result = await run(inner)
    assert isinstance(result, Failed)
    assert result.text.startswith("ValidationError:")
    assert "Fields:" not in result.text


async def test_langchain_error_handlers_are_honoured() -> None:
    def raising() -> Any:
        raise ToolException("raw")

    for handler, text in [(True, "raw"), ("fixed text", "fixed text"), (lambda error: f"got {error}", "got raw")]:
        for each in both(raising, handle_tool_error=handler):
            assert await run(each) == Failed("error", text)

    def blocks(_: ToolException) -> Any:
        return [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    assert await run(both(raising, handle_tool_error=blocks)[0]) == Failed("error", "ab")

    def body(x: int) -> Any:
        return x

    for each in both(body, handle_validation_error="give a number"):
        assert await run(each, x="no") == Failed("error", "give a number")


# --- injection


class State(TypedDict, total=False):
    messages: list[Any]
    foo: str
    jobs: Any
    out: Any


async def test_everything_that_langchain_tools_may_declare_is_injected() -> None:
    store = InMemoryStore()
    written: list[Any] = []

    @tool
    def greedy(
        x: int,
        whole: Annotated[dict[str, Any], InjectedState],
        foo: Annotated[str, InjectedState("foo")],
        call_id: Annotated[str, InjectedToolCallId],
        kept: Annotated[Any, InjectedStore()],
        runtime: ToolRuntime[Any, Any],
        config: RunnableConfig,
        missing: Annotated[str | None, InjectedState("missing")] = None,
        hidden: Annotated[str, InjectedToolArg] = "safe",
    ) -> Any:
        """Wants everything."""
        runtime.stream_writer({"type": "mine"})
        return {
            "x": x,
            "foo": foo,
            "whole": sorted(whole),
            "call_id": call_id,
            "same_store": kept is store is runtime.store,
            "runtime": (runtime.tool_call_id, runtime.state["foo"], runtime.context),
            "config": config["configurable"]["thread_id"],
            "missing": missing,
            "hidden": hidden,
        }

    context = here(
        state={"messages": [], "foo": "bar"},
        store=store,
        context={"user": 1},
        stream_writer=written.append,
        tools=[greedy],
    )
    result = await run(greedy, context=context, x=1, hidden="forged", call_id="forged", foo="forged", runtime="forged")
    assert isinstance(result, Ok), result
    assert result.value == {
        "x": 1,
        "foo": "bar",
        "whole": ["foo", "messages"],
        "call_id": "c1",
        "same_store": True,
        "runtime": ("c1", "bar", {"user": 1}),
        "config": "t",
        "missing": None,
        "hidden": "safe",
    }
    assert written == [{"type": "mine"}]
    assert injections(greedy).hidden == {"whole", "foo", "call_id", "kept", "runtime", "missing", "hidden"}


async def test_what_cannot_be_injected_is_an_error_of_that_call() -> None:
    @tool
    def stored(kept: Annotated[Any, InjectedStore()]) -> str:
        """Wants a store."""
        return "never"

    @tool
    def stately(foo: Annotated[str, InjectedState("foo")]) -> str:
        """Wants a field."""
        return "never"

    for each, word in ((stored, "store"), (stately, "'foo'")):
        result = await run(each, context=here(state={}))
        assert isinstance(result, Failed)
        assert word in result.text


async def test_the_idempotency_key_reaches_the_tool_every_way() -> None:
    @tool
    def sync_key(config: RunnableConfig) -> Any:
        """Key."""
        return idempotency_key(), config["configurable"][IDEMPOTENCY_KEY], get_config()["configurable"][IDEMPOTENCY_KEY]

    @tool
    async def async_key(config: RunnableConfig) -> Any:
        """Key."""
        await asyncio.sleep(0.01)
        return idempotency_key(), config["configurable"][IDEMPOTENCY_KEY], get_config()["configurable"][IDEMPOTENCY_KEY]

    for each in (sync_key, async_key):
        calls = [{"id": f"c{n}", "name": each.name, "args": {}} for n in range(5)]
        results = await asyncio.gather(*(run_tool(each, call, timeout=5, injected=here()) for call in calls))  # type: ignore[arg-type]
        assert results == [Ok((f"t:u:c{n}",) * 3) for n in range(5)]
    assert idempotency_key() is None


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


async def test_context_variables_are_copied_and_do_not_leak_back() -> None:
    def body() -> str:
        before = variable.get()
        variable.set("changed by a tool")
        return before

    variable.set("outer")
    for each in both(body):
        assert await run(each) == Ok("outer")
        assert variable.get() == "outer"


# --- time


async def test_a_sync_tool_past_its_time_is_abandoned_and_its_late_result_dropped() -> None:
    late = threading.Event()

    @tool
    def slow() -> str:
        """Sleeps."""
        time.sleep(0.4)
        late.set()
        return "late"

    before = time.monotonic()
    result = await run(slow, timeout=0.05)
    assert time.monotonic() - before < 0.3
    assert isinstance(result, Failed)
    assert result.status == "unknown"
    assert "imed out" in result.text
    assert "unknown" in result.text
    await asyncio.to_thread(late.wait, 2)
    await asyncio.sleep(0.05)


async def test_an_async_tool_past_its_time_is_stopped() -> None:
    stopped = asyncio.Event()

    @tool
    async def slow() -> str:
        """Sleeps."""
        try:
            await asyncio.sleep(5)
        finally:
            stopped.set()
        return "late"

    result = await run(slow, timeout=0.05)
    assert stopped.is_set()
    assert isinstance(result, Failed)
    assert (result.status, "0.05 s" in result.text) == ("unknown", True)


async def test_a_tool_that_swallows_its_cancellation_is_abandoned() -> None:
    released = asyncio.Event()

    @tool
    async def stubborn() -> str:
        """Will not stop."""
        while not released.is_set():
            try:
                await asyncio.wait_for(released.wait(), 5)
            except asyncio.CancelledError:
                continue
        return "late"

    before = time.monotonic()
    result = await run(stubborn, timeout=0.05)
    assert time.monotonic() - before < 1
    assert isinstance(result, Failed)
    assert result.status == "unknown"
    released.set()
    await asyncio.sleep(0.05)
    assert not running._abandoned


async def test_a_result_that_a_tool_gives_when_told_to_stop_counts() -> None:
    @tool
    async def tidy() -> str:
        """Gives what it has."""
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return "partial"
        return "never"

    assert await run(tidy, timeout=0.05) == Ok("partial")


async def test_no_timeout_means_no_limit() -> None:
    def body() -> str:
        time.sleep(0.1)
        return "done"

    assert await run(both(body)[0], timeout=None) == Ok("done")


def test_a_hanging_sync_tool_does_not_keep_the_process() -> None:
    code = textwrap.dedent(
        """
        import asyncio, time
        from langchain_core.tools import tool
        from turngraph.tools.run import ToolContext, run_tool

        @tool
        def hang() -> str:
            "Hangs."
            time.sleep(60)
            return "never"

        context = ToolContext("t", "u", {"configurable": {}})
        call = {"id": "c", "name": "hang", "args": {}}
        print(asyncio.run(run_tool(hang, call, timeout=0.1, injected=context)).status)
        """
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.stdout.strip(), done.returncode) == ("unknown", 0), done.stderr


# --- cancelled from outside


async def cancelled(each: BaseTool, after: float = 0.05) -> list[RawToolResult]:
    told: list[RawToolResult] = []
    call = {"id": "c1", "name": each.name, "args": {}}
    task = asyncio.create_task(
        run_tool(each, call, timeout=5, injected=here(), on_stopped=told.append)  # type: ignore[arg-type]
    )
    await asyncio.sleep(after)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return told


async def test_a_cancel_from_outside_stops_the_tool_and_propagates() -> None:
    stopped = asyncio.Event()

    @tool
    async def waits() -> str:
        """Waits."""
        try:
            await asyncio.sleep(5)
        finally:
            stopped.set()
        return "never"

    @tool
    async def tidy() -> str:
        """Gives what it has."""
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            return "partial"
        return "never"

    @tool
    def short() -> str:
        """Ends within the grace."""
        time.sleep(0.15)
        return "done"

    @tool
    def long() -> str:
        """Does not."""
        time.sleep(0.6)
        return "late"

    assert [each.status for each in await cancelled(waits)] == ["cancelled"]  # type: ignore[union-attr]
    assert stopped.is_set()
    assert await cancelled(tidy) == [Ok("partial")]
    assert await cancelled(short) == [Ok("done")]
    assert [each.status for each in await cancelled(long)] == ["unknown"]  # type: ignore[union-attr]


async def test_an_outer_timeout_stays_a_timeout() -> None:
    @tool
    async def waits() -> str:
        """Waits."""
        await asyncio.sleep(5)
        return "never"

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await run(waits)


# --- interrupts: a graph of one node that runs calls, as dispatch_tools does


def node_graph(tools: list[BaseTool], *, sync: bool) -> Any:
    async def work(state: State) -> State:
        context = ToolContext(thread="t", turn_id="u", config=get_config(), state=state)
        by_name = {each.name: each for each in tools}

        async def one(call: Any, resumes: list[Any]) -> RawToolResult:
            return await run_tool(by_name[call["name"]], call, timeout=10, injected=context, resumes=resumes)

        return {"out": list(await asyncio.gather(*(one(call, resumes) for call, resumes in state["jobs"])))}

    def sync_work(state: State) -> State:
        return asyncio.run(work(state))

    builder = StateGraph(State)
    builder.add_node("dispatch", sync_work if sync else work)
    builder.add_edge(START, "dispatch")
    builder.add_edge("dispatch", END)
    return builder.compile(checkpointer=InMemorySaver())


class Pausing:
    """Runs calls through the graph until none waits, answering as a person would."""

    def __init__(self, tools: list[BaseTool], *, sync: bool) -> None:
        self.graph, self.sync = node_graph(tools, sync=sync), sync
        self.resumes: dict[str, list[Any]] = {}

    async def round(self, calls: list[Any]) -> dict[str, RawToolResult]:
        config = {"configurable": {"thread_id": "t"}, "recursion_limit": 50}
        given = {"jobs": [(call, self.resumes.get(call["id"], [])) for call in calls]}
        if self.sync:
            state = await asyncio.to_thread(self.graph.invoke, given, config)
        else:
            state = await self.graph.ainvoke(given, config)
        assert "__interrupt__" not in state
        return {call["id"]: result for call, result in zip(calls, state["out"], strict=True)}

    def answer(self, call_id: str, result: RawToolResult, value: Any) -> None:
        assert isinstance(result, Interrupted)
        self.resumes[call_id] = [*self.resumes.get(call_id, [])[: result.count], result.answer(value)]


def asks(call_id: str, tool_name: str, **args: Any) -> Any:
    return {"id": call_id, "name": tool_name, "args": args}


@tool
def sync_asker(x: int) -> str:
    """Asks twice."""
    first = interrupt({"q": x})
    second = interrupt({"r": x})
    return f"{x}: {first}, {second}"


@tool
async def async_asker(x: int) -> str:
    """Asks twice."""
    first = interrupt({"q": x})
    await asyncio.sleep(0)
    second = interrupt({"r": x})
    return f"{x}: {first}, {second}"


@pytest.mark.parametrize("sync", [False, True], ids=["ainvoke", "invoke"])
async def test_parallel_tools_pause_and_resume_each_on_its_own(sync: bool) -> None:
    person = Pausing([sync_asker, async_asker], sync=sync)
    calls = [asks("a", "sync_asker", x=1), asks("b", "async_asker", x=2), asks("c", "sync_asker", x=3)]
    first = await person.round(calls)
    assert [first[each].value for each in "abc"] == [{"q": 1}, {"q": 2}, {"q": 3}]  # type: ignore[union-attr]
    person.answer("b", first["b"], "B1")
    second = await person.round(calls)
    assert [second[each].value for each in "abc"] == [{"q": 1}, {"r": 2}, {"q": 3}]  # type: ignore[union-attr]
    for each, value in (("a", "A1"), ("b", "B2"), ("c", None)):
        person.answer(each, second[each], value)
    third = await person.round(calls)
    assert third["b"] == Ok("2: B1, B2")
    person.answer("a", third["a"], False)
    person.answer("c", third["c"], {"k": [1]})
    last = await person.round(calls)
    assert last == {"a": Ok("1: A1, False"), "b": Ok("2: B1, B2"), "c": Ok("3: None, {'k': [1]}")}


async def test_pauses_work_where_langgraphs_interrupt_is_another_function(monkeypatch: pytest.MonkeyPatch) -> None:
    def another() -> None:
        """Stands for an `interrupt` that a later LangGraph wraps."""

    monkeypatch.setattr("turngraph.tools.inject.interrupt", another)
    person = Pausing([sync_asker, async_asker], sync=False)
    calls = [asks("a", "sync_asker", x=1), asks("b", "async_asker", x=2)]
    for number in range(2):
        for call_id, result in (await person.round(calls)).items():
            person.answer(call_id, result, f"{call_id}{number}")
    assert await person.round(calls) == {"a": Ok("1: a0, a1"), "b": Ok("2: b0, b1")}


class Choice(BaseModel):
    """A person's choice."""

    n: int


@pytest.mark.parametrize("sync", [False, True], ids=["ainvoke", "invoke"])
async def test_an_answer_that_does_not_fit_the_schema_is_asked_again(sync: bool) -> None:
    @tool
    def choose() -> str:
        """Asks with a schema."""
        name = interrupt("name?")
        chosen = interrupt("which?", response_schema=Choice)
        return f"{name} {chosen.n}"

    person = Pausing([choose], sync=sync)
    calls = [asks("a", "choose")]
    person.answer("a", (await person.round(calls))["a"], "Ada")
    second = (await person.round(calls))["a"]
    assert isinstance(second, Interrupted)
    assert second.response_schema is not None
    assert second.response_schema["properties"]["n"]["type"] == "integer"
    person.answer("a", second, {"n": "many"})
    refused = (await person.round(calls))["a"]
    assert isinstance(refused, Interrupted)
    assert (refused.value, refused.count) == ("which?", 1)
    assert refused.error is not None
    assert "integer" in refused.error
    person.answer("a", refused, {"n": 3})
    assert await person.round(calls) == {"a": Ok("Ada 3")}


def inner_graph() -> Any:
    def ask(state: State) -> State:
        return {"out": [interrupt("inner 1"), interrupt("inner 2")]}

    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder.compile()


@pytest.mark.parametrize("sync", [False, True], ids=["ainvoke", "invoke"])
async def test_a_graph_that_a_tool_runs_pauses_through_it_and_continues_inside(sync: bool) -> None:
    graph = inner_graph()
    starts: list[str] = []

    @tool
    def outer(name: str) -> str:
        """Runs a graph that asks."""
        starts.append(name)
        before = interrupt("before")
        inner = graph.invoke({"jobs": name})
        after = interrupt("after")
        return f"{name}: {before} {inner['jobs']} {inner['out']} {after}"

    @tool
    async def aouter(name: str) -> str:
        """Runs a graph that asks."""
        starts.append(name)
        before = interrupt("before")
        inner = await graph.ainvoke({"jobs": name})
        after = interrupt("after")
        return f"{name}: {before} {inner['jobs']} {inner['out']} {after}"

    person = Pausing([outer, aouter], sync=sync)
    calls = [asks("a", "outer", name="x"), asks("b", "aouter", name="y"), asks("c", "outer", name="z")]
    for number, question in enumerate(["before", "inner 1", "inner 2", "after"]):
        found = await person.round(calls)
        for call_id, result in found.items():
            assert isinstance(result, Interrupted)
            assert result.value == question
            person.answer(call_id, result, f"{call_id}{number}")
    last = await person.round(calls)
    assert last == {
        "a": Ok("x: a0 x ['a1', 'a2'] a3"),
        "b": Ok("y: b0 y ['b1', 'b2'] b3"),
        "c": Ok("z: c0 z ['c1', 'c2'] c3"),
    }
    assert len(starts) == 15


async def test_other_control_flow_is_raised_and_not_eaten() -> None:
    @tool
    def hands_over() -> str:
        """Raises what a graph raises to its parent."""
        raise ParentCommand(Command(graph="parent", goto="x"))

    with pytest.raises(ParentCommand):
        await run(hands_over)


# --- many at once


async def test_at_most_so_many_run_at_once_and_all_have_results() -> None:
    now, most = 0, 0

    async def work() -> str:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        return "done"

    results = await run_many([Job(f"c{n}", work) for n in range(20)], 3)
    assert results == {f"c{n}": "done" for n in range(20)}
    assert most == 3
    assert await run_many([], 3) == {}


@given(st.lists(st.booleans(), max_size=12), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_writes_run_one_at_a_time_in_call_order(writes: list[bool], limit: int) -> None:
    log: list[tuple[str, int]] = []

    def job(number: int, write: bool) -> Job[int]:
        async def work() -> int:
            log.append(("start", number))
            for _ in range(number % 3):
                await asyncio.sleep(0)
            log.append(("end", number))
            return number

        return Job(str(number), work, write)

    results = asyncio.run(run_many([job(n, write) for n, write in enumerate(writes)], limit))
    assert results == {str(n): n for n in range(len(writes))}
    ordered = [event for event in log if writes[event[1]]]
    assert ordered == [(what, n) for n, write in enumerate(writes) if write for what in ("start", "end")]
    started = [n for what, n in log if what == "start"]
    if limit <= 1 and not any(writes):
        assert started == sorted(started)


async def test_a_job_that_raises_does_not_stop_the_others() -> None:
    into: dict[str, str] = {}

    async def bad() -> str:
        raise ParentCommand(Command(goto="x"))

    async def good() -> str:
        await asyncio.sleep(0.02)
        return "done"

    with pytest.raises(ParentCommand):
        await run_many([Job("a", bad, True), Job("b", good, True), Job("c", good)], 8, into)
    assert into == {"b": "done", "c": "done"}


async def test_a_cancel_keeps_what_finished_and_starts_nothing_more() -> None:
    into: dict[str, str] = {}
    started: list[str] = []

    def job(name: str, seconds: float, write: bool = False) -> Job[str]:
        async def work() -> str:
            started.append(name)
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                return "stopped"
            return "done"

        return Job(name, work, write)

    jobs = [job("fast", 0.0), job("slow", 5), job("w1", 5, True), job("w2", 0, True), job("late", 0)]
    task = asyncio.create_task(run_many(jobs, 3, into))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert into == {"fast": "done", "slow": "stopped", "w1": "stopped", "late": "done"}
    assert "w2" not in started


async def test_one_hanging_tool_harms_no_sibling() -> None:
    @tool
    async def hang() -> str:
        """Hangs."""
        await asyncio.sleep(60)
        return "never"

    def quick() -> str:
        return "quick"

    def job(number: int, each: BaseTool) -> Job[RawToolResult]:
        call: Any = {"id": f"c{number}", "name": each.name, "args": {}}
        return Job(call["id"], lambda: run_tool(each, call, timeout=0.1, injected=here()))

    results = await run_many([job(n, each) for n, each in enumerate([hang, *both(quick), hang])], 8)
    assert [type(result).__name__ for result in results.values()].count("Ok") == 2
    assert {each.status for each in results.values() if isinstance(each, Failed)} == {"unknown"}


async def test_running_tools_never_blocks_the_event_loop() -> None:
    blockbuster = pytest.importorskip("blockbuster")

    def blocking() -> str:
        time.sleep(0.01)
        return "slept"

    async def later() -> str:
        await asyncio.sleep(0)
        return "waited"

    freed = threading.Event()

    def stuck() -> str:
        freed.wait(30)
        return "late"

    later_tool = StructuredTool.from_function(coroutine=later, name="later", description="d")
    with blockbuster.blockbuster_ctx():
        results = await asyncio.gather(run(both(blocking)[0]), run(later_tool), run(both(stuck)[0], timeout=0.001))
    freed.set()
    assert results[:2] == [Ok("slept"), Ok("waited")]
    assert isinstance(results[2], Failed)
