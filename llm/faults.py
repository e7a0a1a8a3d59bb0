"""classify_provider_error: what a failed model call means, from its structure first and its wording second."""

import re
from collections.abc import Mapping
from typing import Any

from turngraph.llm import fault_table as table
from turngraph.llm.fault_evidence import Evidence, gather
from turngraph.llm.fault_overflow import says_overflow
from turngraph.llm.fault_refusal import TOOLS, parameter, refused_in
from turngraph.llm.finish import finish_kind
from turngraph.llm.retry_after import retry_after
from turngraph.llm.usage import UsageMeter
from turngraph.state.errors import ProviderFault
from turngraph.state.words import FaultKind

__all__ = ["classify_provider_error", "silent_overflow"]

_ADDRESS = re.compile(r"\b(?:https?|wss?)://\S+")
_IDENTIFIER = re.compile(r"(['\"`])(?!(?:prompt|input|inputs|messages|context|tokens)\1)[\w./:\[\]@+-]+\1")
_CODE_WORD = re.compile(r"[a-z]+(?:_[a-z]+)+|\b[A-Z]\w+(?:Exception|Error)\b")

_Verdict = tuple[FaultKind, str]


def classify_provider_error(exc: BaseException) -> ProviderFault:
    """The fault behind an exception of a model call. Never raises.

    `kind` as in FaultKind; `retry_after` in seconds, at most 60; `detail` for `parameter_unsupported` is the name of
    what was refused: a request parameter (`tool_choice`, `max_tokens`, …), `images`, or `system_messages`,
    `alternate_roles`, `string_tool_content` as in ModelProfile; `reasoning_content_required` where reasoning has to
    be sent back. For `tools_unsupported` it is `stream` where tools are refused only in streams. Nothing of the
    error's text is in it.
    """
    known = getattr(exc, "fault", None)
    if isinstance(known, ProviderFault):
        return known
    if not isinstance(exc, Exception | BaseExceptionGroup):
        return ProviderFault("other")  # cancelled, interrupted: no failure of a provider
    evidence = gather(exc)
    kind, detail = _verdict(evidence)
    if kind == "other" and isinstance(exc.__context__, Exception) and not exc.__suppress_context__:
        return classify_provider_error(exc.__context__)
    limited = kind == "rate_limit"
    wait = retry_after(evidence.headers, evidence.delays, evidence.text, limited=limited)
    return ProviderFault(kind, wait if kind in ("rate_limit", "transport", "bad_generation", "other") else None, detail)


def silent_overflow(finish_reason: str | None, usage: Mapping[str, Any] | None, window: int) -> bool:
    """True where a response without an error shows that the input did not fit into `window` tokens.

    The finish reason says so; or nothing came out, and the output was cut while the input fills 95 % of the window,
    or the input is larger than the window, whatever the reason.
    """
    kind = finish_kind(finish_reason)
    if kind == "context_window":
        return True
    if not usage or window <= 0:
        return False
    meter = UsageMeter()
    meter.observe(usage)
    used = meter.result(lambda: (0, 0))
    full = 0.95 * window if kind == "length" else window + 1
    return used["output_tokens"] == 0 and used["input_tokens"] >= full


def _verdict(evidence: Evidence) -> _Verdict:
    raw = _ADDRESS.sub(" ", evidence.text).replace("’", "'").replace("‘", "'").lower()
    raw = re.sub(r"[ \t\r]+", " ", raw)
    text = re.sub(r"\s+", " ", _IDENTIFIER.sub(" ", raw))
    for rule in (_by_code, _by_class, _by_wording, _by_status):
        if (found := rule(evidence, text, raw)) is not None:
            return found
    return "other", ""


def _by_code(evidence: Evidence, text: str, raw: str) -> _Verdict | None:
    """What the provider's own code says; also where only the text of an exception quotes it."""
    codes = evidence.codes | _codes_in(raw)
    for kind, names in table.CODES:
        if codes & names:
            return kind, ""
    if codes & table.SIZE_CODES and not table.RATE.search(text):
        return "overflow", ""
    if codes & table.PARAMETER_CODES and not says_overflow(text, raw):
        for path in evidence.params:
            if (name := parameter(path)) is not None:
                return _refusal(refused_in(raw) if name in (TOOLS, "messages") else _said_of(path, name, raw), text)
    return None


def _said_of(path: str, name: str, raw: str) -> str:
    """The structured name, unless the value it had is what was refused: the role of a message, say."""
    return refused_in(raw) or name if path.endswith("role") else name


def _codes_in(raw: str) -> set[str]:
    """Codes that stand as bare words in a text, unless they are the name of a tool or a model there."""
    found = set()
    for match in _CODE_WORD.finditer(raw):
        if not re.search(r"\b(?:tools?|functions?|models?|named?|called)\b\W{0,4}$", raw[: match.start()][-30:]):
            found.add(match.group())
    return found


def _by_class(evidence: Evidence, text: str, raw: str) -> _Verdict | None:  # noqa: ARG001
    """Classes that leave no doubt. A status that means the same comes with them."""
    for kind, names in table.CLASSES:
        if kind in ("transport", "bad_generation"):
            continue
        if evidence.classes & names:
            return kind, ""
    match evidence.status:
        case 401 | 402 | 407:
            return "auth", ""
        case 429:
            return "rate_limit", ""
    return None


def _by_wording(evidence: Evidence, text: str, raw: str) -> _Verdict | None:
    senses: tuple[tuple[FaultKind, re.Pattern[str]], ...] = (
        ("auth", table.BILLING),
        ("rate_limit", table.RATE),
        ("bad_generation", table.BAD_GENERATION),
        ("auth", table.AUTH),
        ("invalid_request", table.POLICY),
        ("invalid_request", table.MISSING_TOOL),
    )
    for kind, sense in senses:
        if sense.search(text):
            return kind, ""
    if says_overflow(text, raw):
        return "overflow", ""
    if (refused := refused_in(raw)) is not None:
        return _refusal(refused, text)
    if evidence.status is None and table.TRANSPORT.search(text):
        return "transport", ""
    return None


def _refusal(refused: str | None, text: str) -> _Verdict | None:
    if refused is None:
        return None
    if refused == TOOLS:
        return "tools_unsupported", "stream" if re.search(r"\bstream(?:ing|ed)?\b", text) else ""
    return "parameter_unsupported", refused


def _by_status(evidence: Evidence, text: str, raw: str) -> _Verdict | None:  # noqa: ARG001
    """What is left: the status alone, then classes and codes that only say that the way was broken."""
    status = evidence.status
    if status in (400, 413) and evidence.empty:
        return "overflow", ""
    if status == 413:
        return ("invalid_request" if re.search(r"\b(?:file|image|audio|video|upload)s?\b", text) else "overflow"), ""
    if status == 403:
        return "auth", ""
    if status in (408, 409, 425) or (status is not None and status >= 500 and status != 501):
        return "transport", ""
    by_name: dict[FaultKind, frozenset[str]] = dict(table.CLASSES)
    if evidence.classes & by_name["transport"] or evidence.codes & table.TRANSPORT_CODES:
        return "transport", ""
    if status is not None:
        return "invalid_request", ""
    if evidence.classes & by_name["bad_generation"]:
        return "bad_generation", ""
    return None
