"""B12: whatever a tool wraps round its question, the person is asked, and the answer reaches the tool."""

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.types import interrupt

from tests.tools.test_run import Pausing, asks, inner_graph
from turngraph.tools.run import Interrupted, Ok


def ask() -> str:
    return f"answer {interrupt('may I?')}"


async def aask() -> str:
    await asyncio.sleep(0)
    return ask()


# --- sync wrappers


def in_except() -> str:
    try:
        return ask()
    except Exception as error:
        return f"caught {type(error).__name__}"


def in_bare_except() -> str:
    try:
        return ask()
    except:  # noqa: E722 - exactly what is to be shown harmless
        return "caught"


def in_suppress() -> str:
    with contextlib.suppress(Exception):
        return ask()
    return "suppressed"


def in_retries() -> str:
    for _ in range(3):
        try:
            return ask()
        except Exception:
            continue
    return "gave up"


def in_stubborn_retries() -> str:
    for _ in range(3):
        with contextlib.suppress(BaseException):
            return ask()
    return "gave up"


def in_another_error() -> str:
    try:
        return ask()
    except Exception as error:
        raise ToolException("the tool failed") from error


def in_a_thread_with_a_timeout() -> str:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, ask).result(timeout=5)


def in_a_finally_that_returns() -> str:
    answer = "nothing"
    try:
        answer = ask()
    finally:
        return answer  # noqa: B012 - exactly what is to be shown harmless


def errors_become_text(function: Callable[[], str]) -> Callable[[], str]:
    @functools.wraps(function)
    def safe() -> str:
        try:
            return function()
        except Exception as error:
            return f"Error: {error}"

    return safe


# --- async wrappers


async def in_async_except() -> str:
    try:
        return await aask()
    except Exception as error:
        return f"caught {type(error).__name__}"


async def in_async_retries() -> str:
    for _ in range(3):
        try:
            return await aask()
        except Exception:
            await asyncio.sleep(0)
    return "gave up"


async def in_wait_for() -> str:
    try:
        return await asyncio.wait_for(aask(), 5)
    except Exception:
        return "timed out"


async def in_timeout() -> str:
    try:
        async with asyncio.timeout(5):
            return await aask()
    except Exception:
        return "timed out"


async def in_a_task_group() -> str:
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(aask())
        return task.result()
    except Exception:
        return "caught"


async def in_gather_with_exceptions() -> str:
    [found] = await asyncio.gather(aask(), return_exceptions=True)
    return found if isinstance(found, str) else "collected"


async def in_a_worker_thread() -> str:
    try:
        return await asyncio.to_thread(ask)
    except Exception:
        return "caught"


SYNC: list[Callable[[], str]] = [
    ask,
    in_except,
    in_bare_except,
    in_suppress,
    in_retries,
    in_stubborn_retries,
    in_another_error,
    in_a_thread_with_a_timeout,
    in_a_finally_that_returns,
    errors_become_text(ask),
]
ASYNC: list[Callable[[], Awaitable[str]]] = [
    aask,
    in_async_except,
    in_async_retries,
    in_wait_for,
    in_timeout,
    in_a_task_group,
    in_gather_with_exceptions,
    in_a_worker_thread,
]


def as_tools(**options: Any) -> list[BaseTool]:
    named: dict[str, Any] = {"description": "Asks.", **options}
    sync = [StructuredTool.from_function(func=body, name=f"s{number}", **named) for number, body in enumerate(SYNC)]
    later = [
        StructuredTool.from_function(coroutine=body, name=f"a{number}", **named) for number, body in enumerate(ASYNC)
    ]
    return [*sync, *later]


@pytest.mark.parametrize("sync", [False, True], ids=["ainvoke", "invoke"])
@pytest.mark.parametrize("handled", [False, True], ids=["", "handle_tool_error"])
async def test_b12_a_question_in_any_wrapper_pauses_and_its_answer_arrives(sync: bool, handled: bool) -> None:
    tools = as_tools(handle_tool_error=handled)
    person = Pausing(tools, sync=sync)
    calls = [asks(each.name, each.name) for each in tools]
    asked = await person.round(calls)
    for name, result in asked.items():
        assert isinstance(result, Interrupted), (name, result)
        assert (result.value, result.interrupts) == ("may I?", ())
        person.answer(name, result, "yes")
    answered = await person.round(calls)
    assert answered == {each.name: Ok("answer yes") for each in tools}


@pytest.mark.parametrize("sync", [False, True], ids=["ainvoke", "invoke"])
async def test_b12_the_pause_of_an_inner_graph_survives_groups_and_other_errors(sync: bool) -> None:
    graph = inner_graph()

    async def in_group() -> str:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(graph.ainvoke({"jobs": 1}))
        return str(task.result()["out"])

    def wrapped() -> str:
        try:
            return str(graph.invoke({"jobs": 1})["out"])
        except Exception as error:
            raise RuntimeError("the inner graph failed") from error

    def half_wrapped() -> str:
        try:
            return str(graph.invoke({"jobs": 1})["out"])
        except Exception:
            raise ToolException("the inner graph failed")  # noqa: B904 - without "from", as it is often written

    tools: list[BaseTool] = [
        StructuredTool.from_function(coroutine=in_group, name="in_group", description="d"),
        StructuredTool.from_function(func=wrapped, name="wrapped", description="d"),
        StructuredTool.from_function(func=half_wrapped, name="half_wrapped", description="d"),
    ]
    person = Pausing(tools, sync=sync)
    calls = [asks(each.name, each.name) for each in tools]
    for question in ("inner 1", "inner 2"):
        for name, result in (await person.round(calls)).items():
            assert isinstance(result, Interrupted), (name, result)
            assert result.value == question
            person.answer(name, result, question.upper())
    assert await person.round(calls) == {each.name: Ok("['INNER 1', 'INNER 2']") for each in tools}
