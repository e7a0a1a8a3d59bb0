"""HTTP for scripted servers: one thread per connection, real SSE, and every way in which a connection can end."""

import json
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from tests.support.openai_steps import DEFAULT_USAGE, Break, Frame, Item, Line, Step, Wait, message_of
from tests.support.openai_strict import Refusal, count


@dataclass
class Request:
    """One recorded request; `number` counts from 1. `client_left`: the client closed before the answer was whole."""

    path: str
    headers: dict[str, str]
    raw: bytes
    body: dict[str, Any]
    at: float
    number: int = 0
    refused: Refusal | None = None
    step: Step | None = None
    client_left: bool = False
    sent: list[str] = field(default_factory=list)

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body.get("messages", [])
        return messages

    @property
    def roles(self) -> list[str]:
        return [each.get("role", "") for each in self.messages]

    @property
    def tool_names(self) -> list[str]:
        return [each["function"]["name"] for each in self.body.get("tools") or []]

    def said(self, role: str) -> str:
        """All text of that role's messages, joined by newlines."""
        texts = []
        for each in self.messages:
            if each.get("role") == role:
                content = each.get("content")
                parts = content if isinstance(content, list) else [{"text": content or ""}]
                texts.append("".join(part.get("text", "") for part in parts))
        return "\n".join(texts)


class Owner(Protocol):
    """Who decides what each request gets."""

    models: list[str]
    stopped: threading.Event

    def take(self, request: Request) -> Step: ...


class ScriptedHttp(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], owner: Owner) -> None:
        self.owner = owner
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave are part of the tests, not worth a traceback."""


class _ClientLeftError(Exception):
    pass


class _BrokenError(Exception):
    pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ScriptedHttp

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""

    def do_GET(self) -> None:
        if self.path.rstrip("/").endswith("/models"):
            models = [{"id": name, "object": "model", "owned_by": "tests"} for name in self.server.owner.models]
            self._whole(200, {"object": "list", "data": models}, {})
        else:
            self._whole(404, {"error": {"message": f"no such path: {self.path}"}}, {})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            body = json.loads(data)
        except ValueError:
            body = {}
        headers = {key.lower(): value for key, value in self.headers.items()}
        request = Request(self.path, headers, data, body, time.monotonic())
        if not self.path.split("?")[0].endswith("/chat/completions"):
            self._whole(404, {"error": {"message": f"no such path: {self.path}"}}, {})
            return
        owner = self.server.owner
        step = owner.take(request)
        try:
            self._wait(step.delay or 0.0)
            if step.body is not None:
                self._whole(step.status, step.body, step.headers)
            elif body.get("stream"):
                self._stream(step, request)
            else:
                self._message(step, request)
        except (_ClientLeftError, ConnectionError, TimeoutError):
            request.client_left = True
            self.close_connection = True
        except _BrokenError:
            self.close_connection = True

    def _whole(self, status: int, body: Any, headers: Any) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **headers, "Content-Length": str(len(data))}
        self.send_response(status)
        for key, value in sent.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def _message(self, step: Step, request: Request) -> None:
        """The answer to a request without `stream`; a stream step that waits or breaks does so before it."""
        for item in step.items:
            if isinstance(item, Wait):
                self._wait(item.seconds)
            elif isinstance(item, Break):
                self._break(item)
        body = {
            "id": f"chatcmpl-{request.number}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": request.body.get("model"),
            "choices": [{"index": 0, "message": message_of(step), "finish_reason": step.finish}],
        }
        usage = self._usage(step, request)
        if usage:
            body["usage"] = usage[-1]
        self._whole(step.status, body, step.headers)

    def _stream(self, step: Step, request: Request) -> None:
        if step.opening or not _waits_for_ever(step.items):
            self._open(step)
        if step.opening:
            self._frame(request, self._chunk(request, {"role": "assistant", "content": ""}))
        for item in step.items:
            self._item(item, request)
            if step.chunk_delay:
                self._wait(step.chunk_delay)
        usage = self._usage(step, request)
        if step.end_frame and step.finish is not None:
            last = self._chunk(request, {}, step.finish)
            if step.usage_in_finish and usage:
                last["usage"] = usage.pop(0)
            self._frame(request, last)
        for each in usage:
            self._frame(request, {**self._chunk(request, {}), "choices": [], "usage": each})
        if step.done_marker:
            self._send(request, "data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _open(self, step: Step) -> None:
        self.send_response(step.status)
        headers = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", **step.headers}
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _item(self, item: Item, request: Request) -> None:
        match item:
            case dict():
                self._frame(request, self._chunk(request, item))
            case Frame(data):
                self._frame(request, data)
            case Line(text):
                self._send(request, text)
            case Wait(seconds):
                self._wait(seconds)
            case Break():
                self._break(item)

    def _chunk(self, request: Request, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{request.number}",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": request.body.get("model"),
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }

    def _usage(self, step: Step, request: Request) -> list[dict[str, Any]]:
        if step.usage is None:
            return []
        if step.usage is DEFAULT_USAGE:
            streamed = request.body.get("stream")
            if streamed and not (request.body.get("stream_options") or {}).get("include_usage"):
                return []
            made, given = len(json.dumps(message_of(step))) // 4, count(request.body)
            return [{"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}]
        return [step.usage] if isinstance(step.usage, dict) else list(step.usage)

    def _frame(self, request: Request, data: Any) -> None:
        self._send(request, f"data: {json.dumps(data)}\n\n")

    def _send(self, request: Request, text: str | bytes) -> None:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        request.sent.append(data.decode("utf-8", "replace"))
        if data:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _wait(self, seconds: float | None) -> None:
        """Waits, and notices a client that leaves meanwhile and a server that stops."""
        end = None if seconds is None else time.monotonic() + seconds
        while end is None or time.monotonic() < end:
            if self.server.owner.stopped.is_set():
                raise _BrokenError
            slice_ = 0.02 if end is None else max(0.0, min(0.02, end - time.monotonic()))
            ready, _, _ = select.select([self.connection], [], [], slice_)
            if ready and not self.connection.recv(1, socket.MSG_PEEK):
                raise _ClientLeftError

    def _break(self, item: Break) -> None:
        self.wfile.flush()
        if item.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()
        raise _BrokenError


def _waits_for_ever(items: tuple[Item, ...]) -> bool:
    return bool(items) and isinstance(items[0], Wait) and items[0].seconds is None
