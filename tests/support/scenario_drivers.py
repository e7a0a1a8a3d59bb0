"""Playing a scenario: in Python, on a real server, alone or in a parent; each way gives the same record of what came."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Generator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from langgraph_sdk import get_client

from tests.support.openai_server import Request, ScriptedServer, Step
from tests.support.scenario_graphs import Stage, alone, inside
from tests.support.scenario_records import Played, Ran, plain
from tests.support.scenarios import Answer, Input, Say, Scenario
from turngraph.graph import asend_input

Way: TypeAlias = Literal["astream", "stream", "invoke"]
MODES = ["custom", "updates", "values", "messages"]
WAIT_SECONDS = 60.0


class Play:
    """The model of one scenario on one stage: its steps in order, every request, and the wait for queued input."""

    def __init__(self, scenario: Scenario) -> None:
        self.left = list(scenario.script)
        self.requests: list[Request] = []
        self.past_end = 0
        self.held = threading.Event()
        self.go = threading.Event()
        self.go.set()

    def step(self, request: Request) -> Step:
        self.requests.append(request)
        self.held.set()
        self.go.wait(WAIT_SECONDS)
        if not self.left:
            self.past_end += 1
            return Step(status=400, body={"error": {"message": "past the end of the script"}})
        return self.left.pop(0)

    def hold(self) -> None:
        """The next request waits until `go`."""
        self.held.clear()
        self.go.clear()


class Theatre:
    """One scripted HTTP server for all stages: a request's path says whose model it is for."""

    def __init__(self) -> None:
        self.server = ScriptedServer(self._answer, strict=True)
        self.plays: dict[tuple[str, str], Play] = {}

    @property
    def root_url(self) -> str:
        return self.server.url.removesuffix("/v1")

    def open(self, stage: Stage, scenario: Scenario) -> Play:
        play = self.plays[stage.name, scenario.name] = Play(scenario)
        return play

    def _answer(self, request: Request) -> Step:
        _, stage, scenario, *_ = request.path.split("/")
        return self.plays[stage, scenario].step(request)


@dataclass(frozen=True)
class Part:
    """One part of a stream: its mode, the namespace of the graph that it came from, its data."""

    mode: str
    namespace: tuple[str, ...]
    data: Any


class Driver(Protocol):
    """One way to run a graph. `stream` gives the parts of one run; `cancel` stops the run that streams."""

    stage: Stage
    nested: bool

    def stream(self, given: Input, settings: dict[str, Any]) -> AsyncIterator[Part]: ...

    async def cancel(self) -> None: ...

    async def state(self) -> tuple[dict[str, Any], list[Any]]:
        """The thread's values and the payloads of its open pauses."""
        ...

    async def queue(self, text: str) -> None: ...


async def play(driver: Driver, scenario: Scenario, theatre: Theatre) -> Played:
    """Plays all inputs of a scenario and records everything."""
    made = theatre.open(driver.stage, scenario)
    ran = [await _one(driver, scenario, each, made) for each in scenario.inputs]
    values, _ = await driver.state()
    if driver.nested:
        receipts = [e["receipt"] for one in ran for e in one.events if e["type"] == "turn_finished"]
    else:
        receipts = values["receipts"]
    return Played(ran, receipts, len(made.left), made.past_end)


async def _one(driver: Driver, scenario: Scenario, given: Input, made: Play) -> Ran:
    """One input: its stream read to the end, or up to where it is to be cancelled."""
    say = given if isinstance(given, Say) else None
    settings = {**scenario.settings, **say.settings} if say else scenario.settings
    sending = asyncio.create_task(_send_queued(driver, say.queued, made)) if say and say.queued else None
    before = len(made.requests)
    texts: dict[str, tuple[str, str]] = {}
    ran, streamed, stopped = Ran(), "", False
    async with contextlib.aclosing(driver.stream(given, settings)) as parts:  # type: ignore[type-var]
        async for part in parts:
            if stopped:
                continue
            _take(ran, texts, part)
            if part.mode == "custom" and part.data["type"] == "content":
                streamed += part.data["text"]
            if say and say.cancel_after and streamed == say.cancel_after:
                stopped = True
                await driver.cancel()
    if sending is not None:
        await sending
    ran.spoken, ran.nodes = (None, None) if stopped else ([*texts.values()], ran.nodes)
    values, ran.pauses = await driver.state()
    ran.tape = None if stopped or ran.pauses else [plain(message) for message in values["messages"]]
    ran.requests = [_asked(request) for request in made.requests[before:]]
    ran.effects = driver.stage.effects(scenario)
    ran.values = {key: values.get(key) for key in ("answer", "structured")}
    return ran


async def _send_queued(driver: Driver, texts: tuple[str, ...], made: Play) -> None:
    """Sends messages to the thread while the model is asked for the first round of the run."""
    made.hold()
    try:
        assert await asyncio.to_thread(made.held.wait, WAIT_SECONDS), "the model was not asked"
        for text in texts:
            await driver.queue(text)
    finally:
        made.go.set()


def _take(ran: Ran, texts: dict[str, tuple[str, str]], part: Part) -> None:
    """One part of the stream into the record. `texts`: kind and text of each message so far, by its id."""
    match part.mode:
        case "custom":
            ran.events.append({**part.data, "namespace": part.namespace})
        case "updates" if ran.nodes is not None:
            ran.nodes += [name for name in part.data if name not in ("agent", "__interrupt__")]
        case "messages":
            message = plain(part.data[0])
            kind = "tool" if message["type"] == "tool" else "ai"
            if message["type"] not in ("human", "system"):
                before = texts.get(message["id"], (kind, ""))[1]
                texts[message["id"]] = (kind, before + _text(message["content"]))


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def _asked(request: Request) -> dict[str, Any]:
    """What of a request decides the answer of a model."""
    return {key: value for key, value in request.body.items() if key not in ("model", "stream", "stream_options")}


class Local:
    """The graph in this process, by `astream`, or by the sync `stream` or `invoke` in a thread."""

    def __init__(self, scenario: Scenario, stage: Stage, *, nested: bool = False, way: Way) -> None:
        self.stage, self.nested, self._way = stage, nested, way
        saver = InMemorySaver()
        self._alone = alone(scenario, stage, checkpointer=saver)
        self._graph = inside(alone(scenario, stage), checkpointer=saver) if nested else self._alone
        self._config: dict[str, Any] = {"configurable": {"thread_id": f"thread-{stage.name}-{scenario.name}"}}
        self._stop = asyncio.Event()

    async def stream(self, given: Input, settings: dict[str, Any]) -> AsyncIterator[Part]:
        input: Any = Command(resume=given.value) if isinstance(given, Answer) else given.message
        options: dict[str, Any] = {"context": {"turn_settings": settings} if self.nested else settings}
        if self._way != "invoke":
            options |= {"stream_mode": MODES, "subgraphs": True}
        match self._way:
            case "astream":
                async for part in self._async_parts(input, options):
                    yield part
            case "stream":
                parts: Generator[Any, None, None] = self._graph.stream(input, self._config, **options)
                while not self._stop.is_set():
                    found: Any = await asyncio.to_thread(lambda: next(parts, None))
                    if found is None:
                        break
                    yield self._part(found)
                await asyncio.to_thread(parts.close)
            case "invoke":
                await asyncio.to_thread(self._graph.invoke, input, self._config, **options)
        self._stop.clear()

    async def _async_parts(self, input: Any, options: dict[str, Any]) -> AsyncIterator[Part]:
        """The parts of an `astream` that is read by a task of its own, which `cancel` cancels."""
        seen: asyncio.Queue[Any] = asyncio.Queue()

        async def read() -> None:
            try:
                async for part in self._graph.astream(input, self._config, **options):
                    seen.put_nowait(self._part(part))
            finally:
                seen.put_nowait(None)

        reading = asyncio.create_task(read())
        while (part := await seen.get()) is not None:
            yield part
            if self._stop.is_set():
                reading.cancel()
        with contextlib.suppress(*[asyncio.CancelledError] * self._stop.is_set()):
            await reading

    @staticmethod
    def _part(part: Any) -> Part:
        namespace, mode, data = part
        return Part(mode, namespace, data)

    async def cancel(self) -> None:
        self._stop.set()

    async def state(self) -> tuple[dict[str, Any], list[Any]]:
        snapshot = await self._graph.aget_state(self._config)
        return snapshot.values, [pause.value for pause in snapshot.interrupts]

    async def queue(self, text: str) -> None:
        await asend_input(self._alone, self._config["configurable"]["thread_id"], text)


class Remote:
    """The graph on a real server, by its SDK."""

    def __init__(self, scenario: Scenario, stage: Stage, url: str) -> None:
        self.stage, self.nested = stage, stage.name.endswith("parent")
        self._assistant = f"{stage.name}_{scenario.name}"
        self._client = get_client(url=url)
        self._thread = self._run = ""
        self._cancelling: asyncio.Task[None] | None = None
        self._queued = 0

    async def stream(self, given: Input, settings: dict[str, Any]) -> AsyncIterator[Part]:
        if not self._thread:
            self._thread = (await self._client.threads.create())["thread_id"]
        what: Any = {"command": {"resume": given.value}} if isinstance(given, Answer) else {"input": given.message}
        context = {"turn_settings": settings} if self.nested else settings
        modes: Any = [*MODES[:3], "messages-tuple"]
        async for part in self._client.runs.stream(
            self._thread, self._assistant, **what, context=context, stream_mode=modes, stream_subgraphs=True
        ):
            if part.event == "metadata":
                self._run = part.data["run_id"]
                continue
            assert part.event != "error", part.data
            mode, *namespace = part.event.split("|")
            yield Part(mode, tuple(namespace), part.data)
        if self._cancelling is not None:
            await self._cancelling
            self._cancelling = None

    async def cancel(self) -> None:
        self._cancelling = asyncio.create_task(self._client.runs.cancel(self._thread, self._run, wait=True))

    async def state(self) -> tuple[dict[str, Any], list[Any]]:
        state = await self._client.threads.get_state(self._thread)
        values: Any = state["values"]
        return values, [pause["value"] for pause in state["interrupts"]]

    async def queue(self, text: str) -> None:
        self._queued += 1
        message = {"role": "user", "content": text}
        await self._client.store.put_item(["turngraph", "input", self._thread], f"queued-{self._queued}", message)
