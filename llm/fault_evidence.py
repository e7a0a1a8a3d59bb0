"""What an exception of a provider shows: status, codes, class names, words and headers, whatever SDK raised it.

Shapes are read by what they carry, not by import: openai, anthropic, httpx, requests, botocore, google-genai and
google-api-core, ollama, litellm, and plain exceptions whose text quotes a response.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

_MOST_TEXT = 20_000
_MOST_DEPTH = 8

_CODE_KEYS = ("code", "type", "status", "error_type", "errorcode", "reason", "__type")
_WORD_KEYS = ("message", "msg", "error", "detail", "description", "error_description", "title", "reason", "raw")
_INNER_KEYS = ("error", "errors", "detail", "details", "metadata", "raw", "innererror", "inner_error", "body", "cause")
_STATUS_NAMES = ("status_code", "http_status", "status", "code", "statuscode", "httpstatuscode")

_TEXT_STATUS = re.compile(
    r"(?:error code|status code|status|http(?:/\d\.\d)?(?: error)?)\W{1,4}([45]\d\d)\b"
    r"|^\W{0,2}([45]\d\d)\b(?!\W{0,2}(?:tokens|seconds|ms|mb|kb|characters))"
    r"|\b([45]\d\d)\W{1,3}(?:status code|client error|server error|bad request|unauthorized|forbidden|not found|"
    r"payload too large|request entity too large|unprocessable|too many requests|internal server error|bad gateway|"
    r"service unavailable|gateway time)",
    re.IGNORECASE | re.MULTILINE,
)
_QUOTED_CODE = re.compile(r"""['"](?:code|type|status)['"]\s*:\s*['"]([\w.-]{3,60})['"]""")
_QUOTED_PARAM = re.compile(r"""['"]param['"]\s*:\s*['"]([\w.\[\]]{1,60})['"]""")
_NO_BODY = re.compile(
    r"(?:error|http|status)?\W*(?:code)?\W*(?:[45]\d\d)?\W*(?:status code)?\W*(?:\(?no body\)?)?\W*", re.I
)


@dataclass
class Evidence:
    """All that is known of one failure. Codes are in snake case, headers in lower case."""

    status: int | None = None
    codes: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)
    params: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    delays: list[str] = field(default_factory=list)
    """Waiting times that a body names, such as `34s`."""
    empty: bool = False
    """The response had a status and nothing else."""

    @property
    def text(self) -> str:
        return "\n".join(self.words)[:_MOST_TEXT]


def gather(exc: BaseException) -> Evidence:
    """The evidence of an exception and of the ones that it was raised from. Never raises."""
    found = Evidence()
    for each in _chain(exc):
        found.classes |= {
            kind.__name__ for kind in type(each).__mro__ if kind not in (object, BaseException, Exception)
        }
        _read(each, found)
    if found.status is None:
        hit = _TEXT_STATUS.search(found.text)
        number = next((int(each) for each in hit.groups() if each), None) if hit else None
        in_codes = next((int(code) for code in sorted(found.codes) if re.fullmatch(r"[45]\d\d", code)), None)
        found.status = number or in_codes
    found.codes |= {snake(code) for code in _QUOTED_CODE.findall(found.text)}
    found.params += _QUOTED_PARAM.findall(found.text)
    if found.status is not None and _NO_BODY.fullmatch(found.text.strip()):
        found.empty = True
    return found


def snake(code: str) -> str:
    """A code in one spelling: `ThrottlingException`, `throttling-exception` and `THROTTLING_EXCEPTION` are one."""
    cut = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", code.strip())
    return re.sub(r"[\s.:/#-]+", "_", cut).lower().strip("_")


def _chain(exc: BaseException) -> Iterator[BaseException]:
    """The exception, the members of a group, and the causes that were named, each once."""
    waiting, seen = [exc], set[int]()
    while waiting and len(seen) < _MOST_DEPTH:
        each = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, BaseExceptionGroup):
            waiting.extend(each.exceptions)
        if each.__cause__ is not None:
            waiting.append(each.__cause__)


def _read(exc: BaseException, found: Evidence) -> None:
    response = _got(exc, "response")
    for holder in (exc, response):
        for name in _STATUS_NAMES:
            _take_status(_got(holder, name), found)
        _take_headers(_got(holder, "headers"), found)
    before = len(found.words)
    for name in ("code", "type", "status", "reason"):
        _take_code(_got(exc, name), found)
    if isinstance(param := _got(exc, "param"), str):
        found.params.append(param)
    for name in ("body", "details", "error"):
        _take_body(_got(exc, name), found, 0)
    if isinstance(response, Mapping):  # botocore
        _take_body(response, found, 0)
    elif response is not None and len(found.words) == before:
        sent = _got(response, "text")
        if isinstance(sent, str):
            _take_body(sent, found, 0)
            found.empty = found.empty or (not sent.strip() and _got(exc, "body") in (None, "", b"", {}))
    if len(found.words) == before and not found.empty:
        said = ""
        with suppress(Exception):
            said = str(exc)
        found.words.append(said[:_MOST_TEXT])


def _got(holder: Any, name: str) -> Any:
    """An attribute, or None: properties of foreign exceptions may raise (a response that was never read does)."""
    value = None
    with suppress(Exception):
        value = getattr(holder, name, None)
    return value


def _take_status(value: Any, found: Evidence) -> None:
    if found.status is not None or isinstance(value, bool) or value is None:
        return
    number = None
    with suppress(Exception):
        if isinstance(value, int) or (isinstance(value, str) and value.strip().isdecimal()):
            number = int(value)
    if number is not None and 400 <= number <= 599:
        found.status = number


def _take_headers(headers: Any, found: Evidence) -> None:
    with suppress(Exception):
        for name, value in dict(headers or {}).items():
            found.headers.setdefault(str(name).lower(), str(value))


def _take_code(value: Any, found: Evidence) -> None:
    if callable(value):  # grpc: code() gives an enum
        with suppress(Exception):
            value = getattr(value(), "name", None)
    name = getattr(value, "name", None)
    if isinstance(name, str):
        value = name
    if isinstance(value, str) and 0 < len(value) <= 100:
        found.codes.add(snake(value))


def _take_body(body: Any, found: Evidence, depth: int) -> None:
    """Codes and words of a body. Only fields with the provider's own words are read: some bodies echo the request."""
    if depth > _MOST_DEPTH or body is None:
        return
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    if isinstance(body, str):
        _take_text(body, found, depth)
    elif isinstance(body, list):
        for each in body[:20]:
            _take_body(each, found, depth + 1)
    elif isinstance(body, Mapping):
        _take_fields({str(key).lower(): value for key, value in body.items()}, found, depth)


def _take_text(text: str, found: Evidence, depth: int) -> None:
    stripped = text.strip()
    if stripped[:1] in ("{", "[") and len(stripped) <= 10 * _MOST_TEXT:
        parsed = None
        with suppress(ValueError, RecursionError):
            parsed = json.loads(stripped)
        if isinstance(parsed, dict | list):
            _take_body(parsed, found, depth + 1)
            return
    if stripped:
        found.words.append(stripped[:_MOST_TEXT])


def _take_fields(fields: dict[str, Any], found: Evidence, depth: int) -> None:
    for key in _CODE_KEYS:
        value = fields.get(key)
        _take_status(value if key in ("code", "status") else None, found)
        _take_code(value, found)
        if isinstance(value, int) and not isinstance(value, bool):
            found.codes.add(str(value))
    _take_status(fields.get("httpstatuscode"), found)
    if isinstance(fields.get("param"), str):
        found.params.append(fields["param"])
    if isinstance(fields.get("retrydelay"), str):
        found.delays.append(fields["retrydelay"])
    if "failed_generation" in fields:
        found.codes.add("failed_generation")
    where = fields.get("loc")
    place = ".".join(str(each) for each in where) + ": " if isinstance(where, list | tuple) else ""
    if place:
        found.params.append(place.removesuffix(": "))
    if isinstance(fields.get("httpheaders"), Mapping):
        _take_headers(fields["httpheaders"], found)
    for key in _WORD_KEYS:
        if isinstance(value := fields.get(key), str):
            _take_text(place + value if value.strip() else "", found, depth)
    for key in (*_INNER_KEYS, "responsemetadata"):
        if isinstance(value := fields.get(key), Mapping | list):
            _take_body(value, found, depth + 1)
