"""How much later than with ChatOpenAI alone the first word is shown, measured in one run: at most 1.1 times.

A server in a process of its own writes the time of its first byte into the first word; both clients read it from
there, turn by turn, so that whatever the machine does meanwhile reaches both.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from turngraph.llm.call import ModelRequest, stream_round

LIMIT = 1.1
WORDS = 40


@tool
def search(query: str) -> str:
    """Searches the web."""
    return query


def frame(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': '1', 'model': 'm', 'choices': [choice]})}\n\n".encode()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers every request of a connection with the same stream; its first word is the time of its first byte."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    tail = b"".join(frame({"content": " word"}) for _ in range(WORDS)) + frame({}, "stop") + b"data: [DONE]\n\n"
    try:
        while True:
            asked = await reader.readuntil(b"\r\n\r\n")
            lengths = [line for line in asked.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            await reader.readexactly(int(lengths[0].split(b":")[1]))
            began = str(time.monotonic_ns())
            body = frame({"role": "assistant", "content": ""}) + frame({"content": began}) + tail
            writer.write(head + f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def serve(ready: Connection) -> None:
    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def raw(url: str) -> Callable[[], Awaitable[float]]:
    """Seconds from the first byte to the first word, with ChatOpenAI alone."""
    model = ChatOpenAI(base_url=url, api_key="none", model="m").bind_tools([search])

    async def once() -> float:
        took = 0.0
        async for chunk in model.astream([HumanMessage("hi")]):
            if not took and chunk.text:
                took = (time.monotonic_ns() - int(chunk.text)) / 1e9
        return took

    return once


def ours(url: str) -> Callable[[], Awaitable[float]]:
    """The same for one round of a turn."""
    model = ChatOpenAI(base_url=url, api_key="none", model="m")

    async def once() -> float:
        took = 0.0

        def seen(kind: str, text: str) -> None:
            nonlocal took
            if not took and kind == "content":
                took = (time.monotonic_ns() - int(text)) / 1e9

        await stream_round(model, ModelRequest([HumanMessage("hi")], tools=[search]), seen)
        return took

    return once


async def measure(url: str, rounds: int) -> dict[str, float]:
    """Medians in milliseconds, and their ratio."""
    ways = {"raw": raw(url), "ours": ours(url)}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 10):
        for name in sorted(ways, reverse=bool(number % 2)):
            took = await ways[name]()
            if number >= 10:
                times[name].append(took)
    medians = {name: statistics.median(each) * 1000 for name, each in times.items()}
    return {**medians, "ratio": medians["ours"] / medians["raw"]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    server.start()
    try:
        found = asyncio.run(measure(f"http://127.0.0.1:{here.recv()}/v1", rounds))
    finally:
        server.terminate()
    print(f"first byte to first word: ChatOpenAI {found['raw']:.2f} ms, turngraph {found['ours']:.2f} ms")
    print(f"ratio {found['ratio']:.3f} (at most {LIMIT})")
    return 0 if found["ratio"] <= LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())
