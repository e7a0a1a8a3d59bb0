"""Turns with three effects each in a process that may be killed at any moment, and what must hold afterwards.

`drive` is one process: it goes on with what the last one left, or sends a message. What happened is written to files
as it happens (one `write` each, so that a kill leaves whole lines): `effects` (name and idempotency key), `finished`
(calls whose result was announced), `turns` (turns that were announced), `faults` (requests no provider would take).
"""

import itertools
import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import EmptyInputError

from tests.support.strict import assert_valid_history
from turngraph.graph import build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply
from turngraph.tools import idempotency_key, tool_policy

THREAD: dict[str, Any] = {"configurable": {"thread_id": "crash"}}
SHAPES = ("batch", "rounds", "mixed")


def note(folder: Path, name: str, *words: Any) -> None:
    """Appends one line to a file of the folder, whole or not at all."""
    handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(handle, (json.dumps(words) + "\n").encode())
    os.close(handle)


def noted(folder: Path, name: str) -> list[list[Any]]:
    path = folder / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def tools(folder: Path) -> list[Any]:
    def write(name: str) -> str:
        """Write something."""
        time.sleep(0.004)
        note(folder, "effects", name, idempotency_key())
        time.sleep(0.004)
        return f"wrote {name}"

    async def parallel(name: str) -> str:
        """Do something beside others."""
        note(folder, "effects", name, idempotency_key())
        return f"did {name}"

    def read(name: str) -> str:
        """Read something."""
        return f"read {name}"

    return [tool_policy(write, effect="write"), tool_policy(parallel), tool_policy(read, effect="read")]


def script(folder: Path, seed: int, dies: int = 0) -> ScriptedModel:
    """A model that asks for three effects per turn, in the shape that the question names, and then answers.

    Its call ids count the requests of its process, as some local servers do. `dies`: the request at which it is killed.
    """
    requests = itertools.count(1)
    chance = random.Random(seed)

    def reply(messages: list[BaseMessage]) -> Any:
        if next(requests) == dies:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            assert_valid_history(messages)
        except AssertionError as fault:
            note(folder, "faults", str(fault))
        asked = max(at for at, message in enumerate(messages) if isinstance(message, HumanMessage))
        shape = messages[asked].text.split()[-1]
        done = sum(isinstance(message, ToolMessage) for message in messages[asked:])
        time.sleep(chance.uniform(0, 0.01))
        effects = [("write", {"name": f"{shape}-a"}), ("parallel", {"name": f"{shape}-b"}), ("write", {"name": f"{shape}-c"})]
        if shape == "batch":
            return ScriptedReply("Working.", calls=effects) if done == 0 else "Done."
        if shape == "mixed":
            first = [effects[1], ("read", {"name": "x"}), effects[0]]
            return ScriptedReply("Working.", calls=first) if done == 0 else ScriptedReply("More.", calls=effects[2:]) if done == 3 else "Done."
        return ScriptedReply("Working.", calls=[effects[done]]) if done < 3 else "Done."

    return ScriptedModel(reply)


def drive(where: str, action: str, shape: str, durability: str, seed: int, dies: int = 0) -> None:
    """One process: continues what is there (`continue`) or sends a message, and runs the turn to its end."""
    folder = Path(where)
    with SqliteSaver.from_conn_string(str(folder / "t.sqlite")) as saver:
        graph = build_turn_graph(script(folder, seed, dies), tools(folder), checkpointer=saver)
        note(folder, "starts", action)
        message: Any = {"messages": [HumanMessage(f"do {shape}", id=f"asked {shape}" if dies or action == "again" else None)]}
        try:
            _run(folder, graph, None if action == "continue" else message, durability)
        except EmptyInputError:  # killed before anything at all was saved
            _run(folder, graph, message, durability)
        note(folder, "ends", action)


def _run(folder: Path, graph: Any, input: Any, durability: str) -> None:
    for event in graph.stream(input, THREAD, stream_mode="custom", durability=durability):
        if event["type"] == "turn_started":
            note(folder, "turns", event["turn_id"])
        elif event["type"] == "tool_finished" and event["status"] == "ok":
            note(folder, "finished", event["turn_id"], event["call_id"], event["name"])


def judge(folder: Path, *, checkpoints: bool) -> tuple[Counter[str], list[str]]:
    """The counts of one folder, and every promise that was broken. `checkpoints`: whether their promises hold, too."""
    broken: list[str] = [f"invalid request: {fault}" for (fault,) in noted(folder, "faults")]
    with SqliteSaver.from_conn_string(str(folder / "t.sqlite")) as saver:
        values = build_turn_graph(checkpointer=saver).get_state(THREAD).values
    tape = values["messages"]
    results = {message.tool_call_id: message for message in tape if isinstance(message, ToolMessage)}
    calls = [call["id"] for message in tape if isinstance(message, AIMessage) for call in message.tool_calls]
    if sorted(calls) != sorted(results) or len(calls) != len(set(calls)):
        broken.append(f"calls {calls} have the results {sorted(results)}")
    names = {call["id"]: call["args"]["name"] for m in tape if isinstance(m, AIMessage) for call in m.tool_calls}
    broken += [f"the call of {names[c]} has the result {r.text!r}" for c, r in results.items() if _is_foreign(r, names[c])]
    keys = Counter(key for _, key in noted(folder, "effects"))
    broken += [f"effect {key} happened {times} times" for key, times in keys.items() if times > 1]
    finished = [(call_id, name) for _, call_id, name in noted(folder, "finished") if name != "read"]
    status = {call_id: result.additional_kwargs["turngraph"]["status"] for call_id, result in results.items()}
    receipts = {receipt["turn_id"] for receipt in values["receipts"]}
    if checkpoints:
        broken += [f"the result of {c} ({n}) was lost: {status.get(c)}" for c, n in finished if status.get(c) != "ok"]
        told = [key.rsplit(":", 1)[1] for key in keys]
        broken += [f"{c} had its effect and is {status.get(c)}" for c in told if status.get(c) not in ("ok", "unknown")]
    broken += [f"no receipt of turn {turn}" for (turn,) in noted(folder, "turns") if turn not in receipts]
    counts = Counter(f"result {each}" for each in status.values())
    counts += Counter(f"turn {receipt['status']}" for receipt in values["receipts"])
    counts += Counter({"effects": sum(keys.values()), "doubled": sum(keys.values()) - len(keys)})
    counts += Counter({"results announced": len(finished)})
    return counts, broken


def _is_foreign(result: ToolMessage, name: str) -> bool:
    return result.additional_kwargs["turngraph"]["status"] == "ok" and name not in result.text
