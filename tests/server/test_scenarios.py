"""Twelve scenarios, each played in Python, on a real server, and as a node of a parent: everything that comes agrees."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.support.dev_server import DevServer
from tests.support.scenario_drivers import Driver, Local, Remote, Theatre, Way, play
from tests.support.scenario_graphs import FOLDER, ROOT_URL, SERVED, Stage, served_graphs
from tests.support.scenario_records import Played, joined, normalised
from tests.support.scenarios import SCENARIOS, Scenario
from turngraph.state.events import EventType
from turngraph.state.words import Status

pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]

EACH = pytest.mark.parametrize("scenario", SCENARIOS, ids=[each.name for each in SCENARIOS])
UNCANCELLED = [each for each in SCENARIOS if not each.cancels]
PARENTS = [
    # A sync parent gives its nodes no sign when its stream is closed.
    pytest.param(stage, each, id=f"{stage}-{each.name}")
    for stage in ("parent", "sync_parent", "served_parent")
    for each in (UNCANCELLED if stage == "sync_parent" else SCENARIOS)
]
IN_PARENTS = pytest.mark.parametrize(("stage", "scenario"), PARENTS)
SERVED_SECONDS = 90.0
TOKENS_OF_MADE_IDS = 40
"""An id is 24 hexadecimal digits, more or less of which make a token, in a call and in its result."""


@dataclass
class House:
    """The scripted models, what was played on the server (all scenarios at once), and what was played here so far."""

    theatre: Theatre
    folder: Path
    server: DevServer
    done: dict[tuple[str, str], Played | BaseException] = field(default_factory=dict)

    def stage(self, name: str) -> Stage:
        return Stage(name, self.theatre.root_url, self.folder)

    def played(self, name: str, scenario: Scenario) -> Played:
        """The record of a scenario on a stage; played now, if it was not yet."""
        key = (name, scenario.name)
        if key not in self.done:
            try:
                self.done[key] = asyncio.run(play(self._local(name, scenario), scenario, self.theatre))
            except Exception as error:
                self.done[key] = error
        found = self.done[key]
        if isinstance(found, BaseException):
            raise found
        return found

    def _local(self, name: str, scenario: Scenario) -> Driver:
        match name:
            case "parent" | "sync_parent":
                way: Way = "astream" if name == "parent" else "stream"
                return Local(scenario, self.stage(name), nested=True, way=way)
            case "astream" | "stream" | "invoke":
                return Local(scenario, self.stage(name), way=name)
            case _:
                raise AssertionError(f"{name} is played with the server's start")

    async def play_served(self) -> None:
        """Every scenario on the server, alone and in a parent, all at once."""

        async def one(name: str, scenario: Scenario) -> Played:
            driver = Remote(scenario, self.stage(name), self.server.url)
            return await asyncio.wait_for(play(driver, scenario, self.theatre), SERVED_SECONDS)

        keys = [(name, scenario) for name in SERVED for scenario in SCENARIOS]
        found = await asyncio.gather(*(one(*key) for key in keys), return_exceptions=True)
        self.done |= {(name, scenario.name): each for (name, scenario), each in zip(keys, found, strict=True)}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("scenarios")
    theatre = Theatre()
    with theatre.server:
        env = {ROOT_URL: theatre.root_url, FOLDER: str(folder)}
        with DevServer(folder, served_graphs(), env) as server:
            made = House(theatre, folder, server)
            asyncio.run(made.play_served())
            yield made
        assert "Blocking" not in server.log, "a blocking call on the server's event loop"


def lines(played: Played) -> list[str]:
    """The tape as scenarios write it, with NEW for ids that the turn made."""
    out: list[str] = []
    for message in played.ran[-1].tape or []:
        marks = message["additional_kwargs"].get("turngraph", {})
        match message["type"]:
            case "human":
                head = "user"
            case "tool":
                head = f"result {message['tool_call_id']} {marks['status']}"
            case _ if message["tool_calls"]:
                head = f"calls {' '.join(call['id'] for call in message['tool_calls'])}"
            case _:
                head = "answer" if marks["role"] == "finish" else marks["role"]
        out.append(f"{re.sub(r'call_[0-9a-f]{20,}', 'NEW', head)}: {message['content']}")
    return out


def check_expected(scenario: Scenario, played: Played, *, nested: bool) -> None:
    """What came is what the scenario says, and each answer is what was streamed as the answer."""
    assert (played.script_left, played.past_end) == (0, 0), "the model was asked less or more than the script says"
    found = lines(played)
    tape = (scenario.tape_in_parent if nested else None) or scenario.tape
    assert len(found) == len(tape), found
    for line, expected in zip(found, tape, strict=True):
        assert line.startswith(expected)
    assert played.ran[-1].effects == list(scenario.effects)
    turns = [turn for turn in scenario.turns if turn.told or not nested]
    for receipt, turn in zip(played.receipts, turns, strict=True):
        expected_facts = {each: getattr(turn, each) for each in RECEIPT_FACTS}
        assert {each: receipt[each] for each in RECEIPT_FACTS} == expected_facts
    assert answers(played) == [turn.answer for turn in scenario.turns if turn.told]
    pauses = [pause for one in played.ran for pause in one.pauses]
    assert tuple(tuple(r["name"] for r in pause["action_requests"]) for pause in pauses) == scenario.pauses
    by_turn = {receipt["turn_id"]: receipt for receipt in played.receipts}
    for event in [event for one in played.ran for event in one.events]:
        assert len(event["namespace"]) == nested
        assert event["type"] != "turn_finished" or event["receipt"] == by_turn[event["turn_id"]]
    if not nested:
        assert played.ran[-1].values == {"answer": scenario.turns[-1].answer, "structured": scenario.structured}


RECEIPT_FACTS = ("status", "stop_reason", "rounds", "tool_calls", "interactions")


def answers(played: Played) -> list[str]:
    """The streamed answer of each turn whose end was streamed."""
    out = []
    for one in played.ran:
        last = {e["round"] for e in one.events if e["type"] == "round_finished" and e["call_role"] == "finish"}
        text = "".join(e["text"] for e in one.events if e["type"] == "content" and e["round"] in last)
        out += [text] if one.events and one.events[-1]["type"] == "turn_finished" else []
    return out


def whole(played: Played, *, without: tuple[str, ...] = (), inputs: int | None = None) -> Any:
    """Everything that came, or that came of the first `inputs`, but for times, namespaces and the names of ids."""
    ran = [{**vars(one), "events": joined(one.events)} for one in played.ran[:inputs]]
    kept = [{key: value for key, value in one.items() if key not in without} for one in ran]
    return normalised([kept, [] if "receipts" in without else played.receipts])


def same(scenario: Scenario, left: Any, right: Any, where: str = "") -> None:
    """Asserts equality, and names the first place that differs. Tokens of made ids are not the same twice."""
    if isinstance(left, dict) and isinstance(right, dict):
        assert not left.keys() ^ right.keys(), f"{where}: {left} {right}"
        for key in left:
            same(scenario, left[key], right[key], f"{where}.{key}")
    elif isinstance(left, list) and isinstance(right, list):
        for at, (one, other) in enumerate(zip(left, right, strict=False)):
            same(scenario, one, other, f"{where}[{at}]")
        assert len(left) == len(right), f"{where}: {left[len(right) :]} {right[len(left) :]}"
    elif scenario.made_ids and ".context." in where and isinstance(left, int):
        assert abs(left - right) <= TOKENS_OF_MADE_IDS, where
    else:
        assert left == right, where


@EACH
def test_in_python_it_is_as_the_scenario_says(house: House, scenario: Scenario) -> None:
    check_expected(scenario, house.played("astream", scenario), nested=False)


def test_between_them_the_scenarios_reach_every_kind_of_event_and_end(house: House) -> None:
    played = [house.played("astream", scenario) for scenario in SCENARIOS]
    events = {event["type"] for each in played for one in each.ran for event in one.events}
    assert set(get_args(EventType)) - events == {"notice", "history_trimmed"}
    receipts = [receipt for each in played for receipt in each.receipts]
    assert {receipt["status"] for receipt in receipts} == set(get_args(Status)) - {"error"}
    assert len({receipt["stop_reason"] for receipt in receipts}) >= 8
    assert all(any(receipt[each] for receipt in receipts) for each in ("tool_errors", "folds", "compactions"))


@EACH
def test_the_sync_stream_gives_the_same(house: House, scenario: Scenario) -> None:
    same(scenario, whole(house.played("astream", scenario)), whole(house.played("stream", scenario)))


@pytest.mark.parametrize("scenario", UNCANCELLED, ids=[each.name for each in UNCANCELLED])
def test_invoke_gives_the_same_but_for_the_stream(house: House, scenario: Scenario) -> None:
    streams = ("events", "spoken", "nodes")
    one, other = (whole(house.played(way, scenario), without=streams) for way in ("astream", "invoke"))
    same(scenario, one, other)


@EACH
def test_on_the_server_it_is_the_same(house: House, scenario: Scenario) -> None:
    same(scenario, whole(house.played("astream", scenario)), whole(house.played("served", scenario)))


@IN_PARENTS
def test_in_a_parent_it_is_the_same(house: House, scenario: Scenario, stage: str) -> None:
    played = house.played(stage, scenario)
    check_expected(scenario, played, nested=True)
    own = ("values", "receipts", *(["tape", "spoken"] if scenario.tape_in_parent else []))
    one, other = (
        whole(each, without=own, inputs=scenario.alike) for each in (house.played("astream", scenario), played)
    )
    same(scenario, one, other)


@IN_PARENTS
def test_every_parent_gives_the_same(house: House, scenario: Scenario, stage: str) -> None:
    same(scenario, whole(house.played("parent", scenario)), whole(house.played(stage, scenario)))
