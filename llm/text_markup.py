"""MarkupBlock: one block of call markup, read piece by piece into drafts of the calls that are written in it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from turngraph.llm.text_tags import (
    CALLS,
    MISTRAL,
    VALUES,
    WRAPPERS,
    Tag,
    is_open_ended,
    tag_at,
    value_end,
)

Progress: TypeAlias = Literal["open", "closed", "rejected"]

_MAX_NAME = 128
_WORD = re.compile(r"[\w.\-]+")
_SPACE = re.compile(r"\s*")
_FENCE = re.compile(r"```(?:json)?(?=[\s<{\[])")
_MISTRAL_MARK = re.compile(r"\[(?:CALL_ID\][\w\-]{0,64}\[)?ARGS\]")
_OUTSIDE = re.compile(r'["{}\[\]<]')
_INSIDE = re.compile(r'["\\]')


class JsonSpan:
    """Follows one JSON object or list to its end; brackets are counted, not matched.

    It stops at each `<` outside strings, which is no JSON; with `plain`, at each `<`.
    """

    def __init__(self, *, plain: bool = False) -> None:
        self.whole = False
        self.in_string = False
        self._plain = plain
        self._depth = 0
        self._escaped = False

    def read(self, text: str, at: int) -> int:
        """Reads on; returns the end of the value (then `whole`), the position of a `<`, or the end of the text."""
        if self._plain:
            found_at = text.find("<", at)
            return found_at if found_at >= 0 else len(text)
        while at < len(text):
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            found = (_INSIDE if self.in_string else _OUTSIDE).search(text, at)
            if found is None:
                return len(text)
            mark, at = found.group(), found.end()
            if mark == "<":
                return at - 1
            if mark == "\\":
                self._escaped = True
            elif mark == '"':
                self.in_string = not self.in_string
            else:
                self._depth += 1 if mark in "{[" else -1
                if self._depth <= 0:
                    self.whole = True
                    return at
        return at


@dataclass
class Draft:
    """One call as it is written. `values` are `(key, text, is_string)`; None where the markup does not tell.

    `payload` is JSON text: the arguments where `name` was set by a tag, else a call or a list of calls.
    `whole`: nothing that began is left open.
    """

    name: str | None = None
    values: list[tuple[str, str, bool | None]] = field(default_factory=list)
    payload: str | None = None
    whole: bool = False


class MarkupBlock:
    """Reads one block from its opening marker on, until it is `closed` or `rejected` as no markup at all.

    Bare names in the markup count where `known` takes them whole and `possible` takes their beginnings. Closing tags
    inside JSON strings and inside values end nothing. With `plain_json` JSON ends at the first closing tag.
    Law: the result depends on the joined text only, and time grows linearly with it.
    """

    def __init__(
        self, *, known: Callable[[str], bool], possible: Callable[[str], bool], plain_json: bool = False
    ) -> None:
        self.progress: Progress = "open"
        self.drafts: list[Draft] = []
        self._known = known
        self._possible = possible
        self._plain = plain_json
        self._started = False
        self._mistral = False
        self._stack: list[str] = []
        self._current: Draft | None = None
        self._json: JsonSpan | None = None
        self._value: Tag | None = None
        self._key = ""
        self._parts: list[str] = []
        self._waits = False

    def read(self, text: str, at: int) -> int:
        """Reads on from `at`; returns the position up to which all is decided.

        That is the end of the block, the place of its rejection, or, while it is `open`, where to read again once
        more text stands behind it (never more than `MAX_TAG` and the space before a tag).
        """
        self._waits = False
        while at < len(text) and self.progress == "open" and not self._waits:
            if self._json is not None:
                at = self._read_json(self._json, text, at)
            elif self._value is not None:
                at = self._read_value(self._value, text, at)
            else:
                at = self._read_between(text, at)
        return at

    def end(self) -> bool:
        """The text is over: what is open becomes a draft that is not whole.

        False where it ends inside a JSON string that holds a closing tag, so that the quotes may be what is wrong.
        """
        if self._json is not None:
            payload = "".join(self._parts)
            if self._json.in_string and any(tag.closes for at in _places(payload) if (tag := tag_at(payload, at))):
                return False
            self._end_json(whole=False)
        if self._value is not None and self._current is not None:
            self._current.values.append((self._key or self._value.key or "", "".join(self._parts), None))
        self._current = None
        return True

    def _wait(self, at: int) -> int:
        self._waits = True
        return at

    def _stop(self, at: int) -> int:
        """Here stands what is no markup: the block ends if its calls are whole, else it was none."""
        self.progress = "closed" if self.drafts and self._current is None else "rejected"
        return at

    def _read_between(self, text: str, at: int) -> int:
        """Between values: tags, the beginning of JSON, a bare name, a fence around JSON."""
        if not self._started and text.startswith(MISTRAL, at):
            self._started = self._mistral = True
            return at + len(MISTRAL)
        found = _SPACE.match(text, at)
        at = found.end() if found else at
        if at == len(text):
            return at
        match text[at]:
            case "<" if not self._mistral:
                return self._read_tag(text, at)
            case "[" if self._mistral and self._current:
                return self._read_mistral_mark(text, at)
            case "{" | "[" if self._takes_json():
                self._json, self._parts = JsonSpan(plain=self._plain), []
                return at
            case "," if self._ended_json():
                return at + 1
            case "}" | "]" if self._ended_json():
                self.drafts[-1].payload = f"{self.drafts[-1].payload}{text[at]}"
                return at + 1
            case "`" if not self._mistral:
                return self._read_fence(text, at)
            case _:
                return self._read_word(text, at)

    def _takes_json(self) -> bool:
        return self._current is None or (self._current.payload is None and not self._current.values)

    def _ended_json(self) -> bool:
        return bool(self.drafts) and self.drafts[-1].payload is not None

    def _read_fence(self, text: str, at: int) -> int:
        if found := _FENCE.match(text, at):
            return found.end()
        return self._wait(at) if "```json".startswith(text[at:]) else self._stop(at)

    def _read_mistral_mark(self, text: str, at: int) -> int:
        if found := _MISTRAL_MARK.match(text, at):
            return found.end()
        begun = text[at:]
        may_be = "[ARGS]".startswith(begun) or "[CALL_ID]".startswith(begun[:9])
        return self._wait(at) if may_be and len(begun) < _MAX_NAME else self._stop(at)

    def _read_word(self, text: str, at: int) -> int:
        """A bare name, before anything else stands in the block."""
        found = _WORD.match(text, at)
        if found is None or self._current is not None or found.end() - at > _MAX_NAME or self.drafts:
            return self._stop(at)
        if found.end() == len(text):
            return self._wait(at) if self._possible(found.group()) else self._stop(at)
        if not self._known(found.group()):
            return self._stop(at)
        self._begin_call(found.group())
        return found.end()

    def _begin_call(self, name: str) -> None:
        self._end_call()
        self._current = Draft(name=name)
        self.drafts.append(self._current)

    def _end_call(self) -> None:
        if self._current is not None:
            self._current.whole = True
        self._current, self._key = None, ""

    def _read_tag(self, text: str, at: int) -> int:
        tag = tag_at(text, at)
        if tag is None:
            return self._wait(at) if is_open_ended(text, at) else self._stop(at)
        self._started = True
        if tag.closes:
            self._close(tag)
        elif tag.name in WRAPPERS:
            self._end_call()
            if tag.name not in self._stack[-1:]:
                self._stack.append(tag.name)
        elif tag.name in CALLS and tag.key:
            self._begin_call(tag.key)
            if self._stack[-1:] != [tag.name]:
                self._stack.append(tag.name)
        elif self._takes_value(tag):
            self._value, self._parts = tag, []
        else:
            return self._stop(at)
        return tag.end

    def _takes_value(self, tag: Tag) -> bool:
        named = tag.key or self._key or tag.name == "arg_key"
        return bool(named) and self._current is not None and self._current.payload is None

    def _close(self, tag: Tag) -> None:
        """A closing tag ends all that was opened since its opening tag, or everything where there is none."""
        if tag.name in VALUES:
            return
        self._end_call()
        while self._stack and self._stack.pop() != tag.name:
            pass
        if not self._stack:
            self.progress = "closed"

    def _read_value(self, tag: Tag, text: str, at: int) -> int:
        found, start, end = value_end(tag.name, text, at)
        self._parts.append(text[at:start])
        if found == "part":
            return self._wait(start)
        if found == "yes" and self._current is not None:
            value = "".join(self._parts)
            if tag.name == "arg_key":
                self._key = value.strip()
            else:
                self._current.values.append((tag.key or self._key, value, tag.is_string))
                self._key = ""
            self._value, self._parts = None, []
        return end

    def _read_json(self, span: JsonSpan, text: str, at: int) -> int:
        end = span.read(text, at)
        self._parts.append(text[at:end])
        if span.whole:
            self._end_json(whole=True)
        elif end < len(text):
            tag = tag_at(text, end)
            if tag is None and is_open_ended(text, end):
                return self._wait(end)
            if tag is not None and tag.closes:
                self._end_json(whole=True)
            else:
                self._parts.append("<")
                end += 1
        return end

    def _end_json(self, *, whole: bool) -> None:
        payload = "".join(self._parts)
        self._json, self._parts = None, []
        if self._current is None:
            self.drafts.append(Draft(payload=payload, whole=whole))
        else:
            self._current.payload = payload
            self._current.whole = whole
        if self._mistral and whole:
            self._end_call()
            self.progress = "closed"


def _places(text: str) -> list[int]:
    return [found.start() for found in re.finditer("</", text)]
