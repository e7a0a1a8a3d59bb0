"""LoopClients: one OpenAI client per event loop, because a connection pool belongs to the loop that opened it."""

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import openai
from langchain_openai.chat_models.base import BaseChatOpenAI

from turngraph.llm.sse import SseDecoder

_Model = TypeVar("_Model", bound=BaseChatOpenAI)


class LoopClients:
    """Stands in for an `AsyncOpenAI`: every attribute is that of the running loop's own client (outside of loops, of
    the original).

    `original` is never used for a request and never changed. Retries are off: they are counted elsewhere.
    `typed`: frames of streams come as the SDK's objects, which adapters with their own conversion expect.
    With `keep_http` (the user's own HTTP client) all loops share its pool, as its owner wanted it.
    Clients of closed loops are dropped when the next loop comes.
    """

    def __init__(
        self, original: openai.AsyncOpenAI, *, typed: bool = False, keep_http: bool = False, proxy: str | None = None
    ) -> None:
        self.original = original
        self.typed = typed
        self._keep_http = keep_http
        self._proxy = proxy
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, openai.AsyncOpenAI] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.Lock()
        self.completions = _Completions(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.current() if _in_loop() else self.original, name)

    def __deepcopy__(self, _memo: dict[int, Any]) -> "LoopClients":
        return self

    def current(self) -> openai.AsyncOpenAI:
        """The client of the running loop. Raises RuntimeError where none runs."""
        loop = asyncio.get_running_loop()
        with self._lock:
            client = self._clients.get(loop)
            if client is None:
                for other in [each for each in self._clients if each.is_closed()]:
                    del self._clients[other]
                client = self._clients[loop] = self._made()
            return client

    def _made(self) -> openai.AsyncOpenAI:
        if self._keep_http:
            return self.original.copy(max_retries=0)
        options: dict[str, Any] = {"base_url": self.original.base_url, "timeout": self.original.timeout}
        if self._proxy is not None:
            options["proxy"] = self._proxy
        return self.original.copy(http_client=openai.DefaultAsyncHttpxClient(**options), max_retries=0)


_OPTIONS = {"extra_headers": "headers", "extra_query": "params", "extra_body": "extra_json", "timeout": "timeout"}
"""Arguments of the SDK's methods, and what its requests call them."""


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _Completions:
    """`client.chat.completions` of the running loop."""

    def __init__(self, clients: LoopClients) -> None:
        self._clients = clients

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._clients.current().chat.completions, name)

    async def create(self, **payload: Any) -> Any:
        """The response; of a stream, the frames as they came.

        The SDK's own method makes typed objects of each frame, which takes longer than all else that is done with
        it, complains about what other servers send, and would be undone again.
        """
        client = self._clients.current()
        if self._clients.typed or not payload.get("stream"):
            return await client.chat.completions.create(**payload)
        options: Any = {}
        for name, option in _OPTIONS.items():
            if (value := payload.pop(name, None)) is not None:
                options[option] = value
        return _Frames(
            await client.post(
                "/chat/completions",
                cast_to=object,
                body=payload,
                options=options,
                stream=True,
                stream_cls=_Stream,
            )
        )

    def __deepcopy__(self, _memo: dict[int, Any]) -> "_Completions":
        return self


class _Stream(openai.AsyncStream[object]):
    """The SDK's stream with our reader of events."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._decoder = SseDecoder()


class _Frames:
    """The frames of a stream that are JSON objects; closes the stream on the way out."""

    def __init__(self, stream: openai.AsyncStream[object]) -> None:
        self._stream = stream

    async def __aenter__(self) -> "_Frames":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.close()

    async def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        async for frame in self._stream:
            if isinstance(frame, dict):
                yield frame


_BY_MODEL: dict[int, tuple["weakref.ref[Any]", LoopClients]] = {}
_BY_MODEL_LOCK = threading.Lock()


def clients_of(model: Any) -> LoopClients | None:
    """The loop clients that go with a ChatOpenAI, the same ones each time; None where it has no client to copy."""
    original = model.root_async_client
    if isinstance(original, LoopClients):
        return original
    if not isinstance(original, openai.AsyncOpenAI):
        return None
    with _BY_MODEL_LOCK:
        known = _BY_MODEL.get(id(model))
        if known is not None and known[0]() is model and known[1].original is original:
            return known[1]
        made = LoopClients(
            original,
            typed=type(original) is not openai.AsyncOpenAI,
            keep_http=model.http_async_client is not None and not model.openai_proxy,
            proxy=model.openai_proxy,
        )
        _BY_MODEL[id(model)] = (weakref.ref(model, _forget(id(model))), made)
        return made


def loop_clients(model: BaseChatOpenAI) -> dict[str, Any]:
    """The client fields with which an OpenAI adapter works in every event loop and leaves retries to its caller."""
    changes: dict[str, Any] = {}
    if (clients := clients_of(model)) is not None:
        changes |= {"root_async_client": clients, "async_client": clients.completions}
    if isinstance(model.root_client, openai.OpenAI):
        client = model.root_client.copy(max_retries=0)
        changes |= {"root_client": client, "client": client.chat.completions}
    return changes


def with_loop_clients(model: _Model) -> _Model:
    """A copy of any OpenAI adapter with such clients."""
    return model.model_copy(update=loop_clients(model))


def _forget(key: int) -> Any:
    def forget(reference: "weakref.ref[Any]") -> None:
        known = _BY_MODEL.get(key)
        if known is not None and known[0] is reference:
            del _BY_MODEL[key]

    return forget
