"""The graphs of the scenarios: each with its own tools and model, alone and as a node of a parent, here or served."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from typing_extensions import TypedDict

from tests.support.scenarios import SCENARIOS, Scenario
from turngraph.graph import build_turn_graph
from turngraph.tools import TurnEffects, ask_user, tool_policy
from turngraph.tools.skills import Skill

ROOT_URL, FOLDER = "TURNGRAPH_TEST_STAGE_URL", "TURNGRAPH_TEST_STAGE_FOLDER"
SERVED = ("served", "served_parent")
"""The stages of a server; a graph there is named `STAGE_SCENARIO`."""
RELAY_SECONDS = 30.0


@dataclass(frozen=True)
class Stage:
    """Where a scenario is played: under which path the model answers, and in which folder effects are written down."""

    name: str
    root_url: str
    folder: Path

    def effects_of(self, scenario: Scenario) -> Path:
        return self.folder / f"{self.name}-{scenario.name}.txt"

    def effects(self, scenario: Scenario) -> list[str]:
        path = self.effects_of(scenario)
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


class ParentContext(TypedDict, total=False):
    """The context of a parent: of it only `turn_settings` is the turn's."""

    user: str
    turn_settings: dict[str, Any]


def _reading() -> list[Any]:
    finished: set[tuple[str, str]] = set()

    async def look(place: str, config: RunnableConfig, after: str = "") -> str:
        """Look at a place, once the place `after` was seen."""
        thread = str(config["configurable"]["thread_id"])
        async with asyncio.timeout(RELAY_SECONDS):
            while after and (thread, after) not in finished:
                await asyncio.sleep(0.002)
        finished.add((thread, place))
        return f"seen {place}"

    def report(name: str) -> str:
        """A long report."""
        lines = [f"{name} line {number}: the ship left port at dawn with coal and grain" for number in range(100)]
        return "\n".join(lines)

    return [tool_policy(look, effect="read"), tool_policy(report, effect="read", max_output_tokens=200)]


def _writing(record: Callable[[str], None]) -> list[Any]:
    def write(name: str) -> str | None:
        """Write a page; a page named `broken` cannot be written, and one named `silent` says nothing."""
        record(f"write {name}")
        if name == "broken":
            raise ValueError("the page is torn")
        return None if name == "silent" else f"wrote {name}"

    async def send(to: str, text: str = "") -> str:
        """Send a letter."""
        await asyncio.to_thread(record, f"send {to} {text}".strip())
        return f"sent to {to}"

    def rare(x: int) -> str:
        """A rarely used tool."""
        record(f"rare {x}")
        return f"rare {x}"

    return [
        tool_policy(write, effect="write"),
        tool_policy(send, permission="ask", effect="write"),
        tool_policy(rare, deferred=True),
    ]


@tool(response_format="content_and_artifact")
def settle(summary: str) -> tuple[str, TurnEffects]:
    """Fold what was done so far, and turn to the harbour's rules."""
    effects = TurnEffects(context_checkpoint=summary, activate_skills=("harbour",), load_tools=("rare",))
    return "settled", effects


@tool(response_format="content_and_artifact")
def done(answer: str) -> tuple[str, TurnEffects]:
    """End the turn with this answer."""
    return "ended", TurnEffects(terminate=answer, artifact={"pages": 2})


HARBOUR = Skill("harbour", "Rules of the harbour.", "Ships leave at dawn.", Path("harbour"))


def tools_of(scenario: Scenario, stage: Stage) -> list[Any]:
    """The tools that the scenario names."""

    def record(line: str) -> None:
        with stage.effects_of(scenario).open("a", encoding="utf-8") as effects:
            effects.write(line + "\n")

    every = {
        each.name: each
        for each in [*_reading(), *_writing(record), settle, tool_policy(done, effect="write"), ask_user]
    }
    return [every[name] for name in scenario.tools]


def alone(scenario: Scenario, stage: Stage, **options: Any) -> Any:
    """The turn of a scenario. The base URL of its model is its own, so that nothing learned of it reaches another."""
    model = ChatOpenAI(
        model="scripted",
        base_url=f"{stage.root_url}/{stage.name}/{scenario.name}/v1",
        api_key="test",
        max_retries=0,
    )
    return build_turn_graph(
        model,
        tools_of(scenario, stage),
        skills=[HARBOUR] if "settle" in scenario.tools else [],
        response_format=scenario.response_format,
        **options,
    )


def inside(turn: Any, **options: Any) -> Any:
    """A parent whose one node is the turn."""
    builder = StateGraph(MessagesState, context_schema=ParentContext)
    builder.add_node("agent", turn)
    builder.add_edge(START, "agent")
    builder.add_edge("agent", END)
    return builder.compile(name="parent", **options)


def served_graphs() -> dict[str, str]:
    """The graphs of this module for a server: name to where it is found."""
    return {f"{stage}_{each.name}": f"{__name__}:{stage}_{each.name}" for stage in SERVED for each in SCENARIOS}


if ROOT_URL in os.environ:
    for _name in SERVED:
        _stage = Stage(_name, os.environ[ROOT_URL], Path(os.environ[FOLDER]))
        for _scenario in SCENARIOS:
            _turn = alone(_scenario, _stage)
            globals()[f"{_name}_{_scenario.name}"] = _turn if _name == "served" else inside(_turn)
