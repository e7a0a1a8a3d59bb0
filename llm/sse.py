"""Server-sent events from bytes, read as the standard has them; the SDK's own reader trips over legal streams."""

import codecs
import io
import json
from collections.abc import AsyncIterator, Iterator

from openai._streaming import ServerSentEvent


class SseDecoder:
    """Reads the events of one stream. https://html.spec.whatwg.org/multipage/server-sent-events.html

    Events without data are none, whatever else they carry: ids, pauses, names and comments keep a stream alive. A
    byte order mark is passed over, and bytes that are no UTF-8 are replaced. Beyond the standard: an event whose
    blank line never came counts where its data is whole JSON.
    Law: how the bytes are cut changes nothing. Time grows linearly with the bytes.
    """

    def iter_bytes(self, iterator: Iterator[bytes]) -> Iterator[ServerSentEvent]:
        """The events of a sync stream."""
        reader = _Reader()
        for chunk in iterator:
            yield from reader.feed(chunk)
        yield from reader.end()

    async def aiter_bytes(self, iterator: AsyncIterator[bytes]) -> AsyncIterator[ServerSentEvent]:
        """The events of an async stream."""
        reader = _Reader()
        async for chunk in iterator:
            for event in reader.feed(chunk):
                yield event
        for event in reader.end():
            yield event


class _Reader:
    """The bytes so far: the line that is not whole yet, and the event that its blank line will end."""

    def __init__(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._text = io.IncrementalNewlineDecoder(decoder, translate=True)
        self._line: list[str] = []
        self._data: list[str] = []
        self._name: str | None = None

    def feed(self, chunk: bytes, *, last: bool = False) -> Iterator[ServerSentEvent]:
        first, *lines = self._text.decode(chunk, final=last).split("\n")
        self._line.append(first)
        for begun in lines:
            if (event := self._take("".join(self._line))) is not None:
                yield event
            self._line = [begun]

    def end(self) -> Iterator[ServerSentEvent]:
        """What the last event has, if it is whole but for the blank line."""
        yield from self.feed(b"", last=True)
        if line := "".join(self._line):
            self._take(line)
        if _is_json("\n".join(self._data)) and (event := self._take("")) is not None:
            yield event

    def _take(self, line: str) -> ServerSentEvent | None:
        """Reads one line; a blank one gives the event that it ends."""
        if line:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            match field:
                case "data":
                    self._data.append(value)
                case "event":
                    self._name = value
            return None
        data, name, self._data, self._name = "\n".join(self._data), self._name, [], None
        return ServerSentEvent(event=name, data=data) if data.strip() else None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
