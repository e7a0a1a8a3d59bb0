"""A scripted OpenAI-compatible server on loopback: real HTTP, real SSE, real status codes, every request recorded.

    server = ScriptedServer([call(("add", {"a": 1})), say("Two.", chunks=2)], strict=True)
    with server:
        ChatOpenAI(base_url=server.url, api_key="x", model="m").invoke("hi")
    server.done()

Steps are used in the order in which requests arrive; a script may also be one function from request to step.
A request past the end of the script is answered 500 and recorded as drift. What `Rules` refuse uses up no step.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from tests.support.openai_http import Request, ScriptedHttp
from tests.support.openai_steps import (
    Break,
    Frame,
    Line,
    Script,
    Step,
    Wait,
    broken,
    call,
    error,
    hanging,
    raw,
    say,
    split,
    text_frame,
)
from tests.support.openai_strict import Refusal, Rules, count, refusal

__all__ = [
    "Break", "Frame", "Line", "Request", "Rules", "ScriptedServer", "Step", "Wait",
    "broken", "call", "count", "error", "hanging", "raw", "refusal", "say", "split", "text_frame",
]  # fmt: skip


class ScriptedServer:
    """The server. `url` is its base URL with `/v1`; `requests` holds all that reached it, refused ones included."""

    def __init__(
        self,
        script: Iterable[Script] | Callable[[Request], Step] = (),
        *,
        api_key: str | None = None,
        models: Iterable[str] = ("scripted",),
        **rules: Any,
    ) -> None:
        self._every = script if callable(script) else None
        self._left: list[Script] = [] if callable(script) else list(script)
        self._used = 0
        self._lock = threading.Lock()
        self._api_key = api_key
        self.models = list(models)
        self.rules = Rules(**rules)
        self.requests: list[Request] = []
        self.drift: list[Request] = []
        self.stopped = threading.Event()
        self._http: ScriptedHttp | None = None

    def __enter__(self) -> "ScriptedServer":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> "ScriptedServer":
        self._http = ScriptedHttp(("127.0.0.1", 0), self)
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def stop(self) -> None:
        self.stopped.set()
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()

    @property
    def port(self) -> int:
        assert self._http is not None, "the server was not started"
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def add(self, *steps: Script) -> None:
        """More steps at the end of the script."""
        with self._lock:
            self._left.extend(steps)

    @property
    def left(self) -> int:
        """Steps that were not used yet."""
        return len(self._left)

    @property
    def accepted(self) -> list[Request]:
        """The requests that a step answered."""
        return [each for each in self.requests if each.step is not None]

    def done(self) -> None:
        """Asserts that the script was used up and nothing came past its end."""
        assert not self.drift, (
            f"{len(self.drift)} request(s) past the end of the script; the first: {self.drift[0].body}"
        )
        names = [each.name if isinstance(each, Step) else "function" for each in self._left]
        assert not names, f"{len(names)} step(s) of the script were not used: {names}"

    def take(self, request: Request) -> Step:
        """Records the request and decides its answer."""
        with self._lock:
            self.requests.append(request)
            request.number = len(self.requests)
            request.refused = self._refuse(request)
            if request.refused is not None:
                return error(request.refused.status, request.refused.body())
            entry: Script | None = self._every or (self._left.pop(0) if self._left else None)
            if entry is None:
                self.drift.append(request)
                return error(500, f"request {len(self.requests)} is past the end of the script")
        request.step = entry if isinstance(entry, Step) else entry(request)
        return request.step

    def _refuse(self, request: Request) -> Refusal | None:
        if self._api_key and request.headers.get("authorization") != f"Bearer {self._api_key}":
            return Refusal("Incorrect API key provided.", code="invalid_api_key", status=401)
        if not isinstance(request.body, dict) or not request.body:
            return Refusal("the body is not a JSON object")
        return refusal(request.body, self.rules)
