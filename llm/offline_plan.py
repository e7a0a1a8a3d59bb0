"""What the offline model reads in a user's message: pure rules from text and offered tools to calls."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PlannedCall:
    """One call that the message asks for, and the words that made it."""

    name: str
    args: dict[str, Any]
    why: str


MAX_CALLS = 8
_MAX_QUERY = 200
_MAX_READ = 4_000
"""Characters of a message that are looked at; a longer one is a document, not a request."""
_EXPRESSION = re.compile(r"(?<![\w.])[-+(√]*\d[\d\s.,()+\-*/^%×÷−]*[\d)](?![\w])")
_OPERATOR = re.compile(r"[\d)]\s*(?:\*\*|//|[-+*/^%×÷−])\s*[-+(]*\s*\d")
_NOT_ARITHMETIC = re.compile(
    r"https?://\S+|\b\d{4}-\d{1,2}(?:-\d{1,2})?\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b|\b\d+(?:\.\d+){2,}\b|\b\d+(?:-\d+){2,}\b"
)
_WORDS = (
    (re.compile(r"(?<=\d)\s+(?:plus)\s+(?=[\d(])", re.I), " + "),
    (re.compile(r"(?<=\d)\s+(?:minus)\s+(?=[\d(])", re.I), " - "),
    (re.compile(r"(?<=\d)\s+(?:times|multiplied by|x)\s+(?=[\d(])", re.I), " * "),
    (re.compile(r"(?<=\d)\s+(?:divided by|over)\s+(?=[\d(])", re.I), " / "),
    (re.compile(r"(?<=\d)\s+(?:to the power of|raised to)\s+(?=[\d(])", re.I), " ** "),
    (re.compile(r"(?<=\d)\s+modulo\s+(?=[\d(])", re.I), " % "),
    (re.compile(r"(\d+(?:\.\d+)?)\s*(?:%|percent)\s+of\s+(\d+(?:\.\d+)?)", re.I), r"\1 / 100 * \2"),
    (re.compile(r"(\d+(?:\.\d+)?)\s+squared\b", re.I), r"\1 ** 2"),
    (re.compile(r"(\d+(?:\.\d+)?)\s+cubed\b", re.I), r"\1 ** 3"),
    (re.compile(r"square root of\s+(\d+(?:\.\d+)?)", re.I), r"\1 ** 0.5"),
)
_TIME = re.compile(
    r"\bwhat(?:'s| is)? (?:the )?(?:current )?(?:time|date|day)\b|\b(?:current|local) (?:time|date)\b|\btime is it\b"
    r"|\btime in [A-Z]|\btoday(?:'s)?\b|\bright now\b|\bclock\b|\bwhich day\b|几点|现在时间|今天",
    re.I,
)
_ZONE = re.compile(r"\b(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific)/[A-Za-z_/]+")
_CITIES = {
    "amsterdam": "Europe/Amsterdam", "auckland": "Pacific/Auckland", "beijing": "Asia/Shanghai",
    "berlin": "Europe/Berlin", "cairo": "Africa/Cairo", "chicago": "America/Chicago", "delhi": "Asia/Kolkata",
    "dubai": "Asia/Dubai", "hong kong": "Asia/Hong_Kong", "istanbul": "Europe/Istanbul", "lagos": "Africa/Lagos",
    "london": "Europe/London", "los angeles": "America/Los_Angeles", "madrid": "Europe/Madrid",
    "mumbai": "Asia/Kolkata", "nairobi": "Africa/Nairobi", "new york": "America/New_York", "paris": "Europe/Paris",
    "rome": "Europe/Rome", "san francisco": "America/Los_Angeles", "sao paulo": "America/Sao_Paulo",
    "seoul": "Asia/Seoul", "shanghai": "Asia/Shanghai", "singapore": "Asia/Singapore", "sydney": "Australia/Sydney",
    "tokyo": "Asia/Tokyo", "toronto": "America/Toronto", "vienna": "Europe/Vienna", "zurich": "Europe/Zurich",
}  # fmt: skip
_NOTE = re.compile(
    r"\b(?:remember(?: that| to)?|(?:save|make|take|write)(?: down)?(?: a| the| this)? note(?: that| to)?(?: saying)?|"
    r"(?:please )?note(?: down)? that|note:|write down(?: that)?|jot down|save(?: this| that)?:?)"
    r"\s*:?\s+(?P<text>\S[^\n]*)",
    re.I,
)
_NEXT = re.compile(
    r"\s*(?:[.;!,]|\band\b)\s+(?:and |also |then )*(?:what|how|which|when|who|tell|calculate|compute|ask|search)\b",
    re.I,
)
"""Where a new request begins in the same line."""
_QUESTION_BEFORE = re.compile(r"\b(?:do|did|can|could|does|will|would) (?:you|it|turngraph|the \w+) $", re.I)
_ASK = re.compile(r"\bask (?:me|the user)\b(?: a question)?(?: about)?\s*[:,]?\s*(?P<text>[^\n]*)", re.I)
_GREETING = re.compile(
    r"^\W*(?:hi|hello|hey|hallo|good (?:morning|evening|afternoon)|thanks?(?: you)?|thank you|ok(?:ay)?"
    r"|bye|goodbye|你好|谢谢)"
    r"(?:\W+(?:there|all|turngraph|again|so much|a lot))?\W*$",
    re.I,
)
_DOCS = re.compile(
    r"\bturngraph\b|\bdoc(?:s|umentation)\b|\blanggraph\b|\bcheckpoint|\binterrupt|\bresume|\bsettings?\b|\breceipts?\b"
    r"|\bpermission|\bstream(?:ing|s|ed)?\b|\btools?\b|\bhow (?:do|does|can|to|is|are)\b|\bexplain\b",
    re.I,
)
DOCS_TOOL = "search_docs"


def plan(text: str, offered: Iterable[str]) -> list[PlannedCall]:
    """The calls that the message asks for, at most MAX_CALLS, only of offered tools, in a fixed order.

    A message that nothing else fits is looked up in the documentation; a bare greeting needs no call.
    """
    names = set(offered)
    text = text.strip()[:_MAX_READ]
    if not text or _GREETING.match(text):
        return []
    calls, rest = _written_out(text, names)
    note, rest = _note(rest) if "save_note" in names else (None, rest)
    question, rest = _question(rest) if "ask_user" in names else (None, rest)
    if "calculator" in names:
        calls += [PlannedCall("calculator", {"expression": each}, each) for each in expressions(rest)]
    if "clock" in names:
        calls += [PlannedCall("clock", {"timezone": zone}, zone) for zone in zones(rest)]
    calls += [each for each in (note, question) if each is not None]
    about_docs = bool(_DOCS.search(rest)) or not (calls or expressions(rest) or zones(rest))
    if DOCS_TOOL in names and rest.strip() and about_docs:
        calls.append(PlannedCall(DOCS_TOOL, {"query": _looked_up(rest)[:_MAX_QUERY]}, "the documentation"))
    return calls[:MAX_CALLS]


def _looked_up(text: str) -> str:
    """The sentences that are about the documentation; the whole text where they cannot be told from the others."""
    sentences = re.split(r"(?<=[.?!])\s+", " ".join(text.split()))
    about = [each for each in sentences if not expressions(each) and not (zones(each) and not _DOCS.search(each))]
    return " ".join(about or sentences)


def expressions(text: str) -> list[str]:
    """The arithmetic in a text, in order, without repeats; dates, versions and addresses are none."""
    text = _NOT_ARITHMETIC.sub(" ; ", text)
    for pattern, symbol in _WORDS:
        text = pattern.sub(symbol, text)
    found = []
    for match in _EXPRESSION.finditer(text):
        each = _balanced(re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", match[0]).strip(" ,"))
        if each and "," not in each and _OPERATOR.search(each):
            found.append(" ".join(each.split()))
    return list(dict.fromkeys(found))


def _balanced(text: str) -> str:
    """The text without parentheses of the prose around it; empty where they cannot be matched."""
    while text.count(")") > text.count("(") and text.endswith(")"):
        text = text[:-1].rstrip()
    while text.count("(") > text.count(")") and text.startswith("("):
        text = text[1:].lstrip()
    return text if text.count("(") == text.count(")") else ""


def zones(text: str) -> list[str]:
    """The time zones that a text asks the time of; UTC where it names none, nothing where it does not ask."""
    if not _TIME.search(text):
        return []
    lowered = text.lower().replace("são", "sao")
    at = {match.start(): match[0] for match in _ZONE.finditer(text)}
    spared = _ZONE.sub(lambda match: " " * len(match[0]), lowered if len(lowered) == len(text) else text)
    for city, zone in _CITIES.items():
        match = re.search(rf"\b{city}\b", spared, re.I)
        if match:
            at.setdefault(match.start(), zone)
    return list(dict.fromkeys(at[key] for key in sorted(at))) or ["UTC"]


def _written_out(text: str, names: set[str]) -> tuple[list[PlannedCall], str]:
    """Calls that the user wrote as `name {"arg": value}`: any offered tool can be tried without a model that way."""
    calls: list[PlannedCall] = []
    decoder = json.JSONDecoder()
    for name in sorted(names):
        for match in list(re.finditer(rf"(?<![\w.]){re.escape(name)}\s*(?=\{{)", text)):
            try:
                args, end = decoder.raw_decode(text, match.end())
            except ValueError:
                continue
            calls.append(PlannedCall(name, args, f"{name} written out"))
            text = text[: match.start()] + " " * (end - match.start()) + text[end:]
    return calls, text


def _note(text: str) -> tuple[PlannedCall | None, str]:
    match = _NOTE.search(text)
    if match is None or _QUESTION_BEFORE.search(text[: match.start()]):
        return None, text
    content, left = _cut_out(text, match)
    content = content.strip("\"'“”").rstrip()
    return PlannedCall("save_note", {"text": content}, "a note to keep"), left


def _question(text: str) -> tuple[PlannedCall | None, str]:
    match = _ASK.search(text)
    if match is None:
        return None, text
    words, left = _cut_out(text, match)
    words = words.strip(" .!?") or "what I should do next"
    question, options = _options(words)
    asked: dict[str, Any] = {"question": question[:1].upper() + question[1:] + "?", "free_text": True}
    if options:
        asked["options"] = [{"label": each} for each in options]
    return PlannedCall("ask_user", {"questions": [asked]}, "a question to you"), left


def _cut_out(text: str, match: re.Match[str]) -> tuple[str, str]:
    """The words that a lead-in is about, and the text without both."""
    following = _NEXT.search(match["text"])
    end = match.start("text") + (following.start() if following else len(match["text"]))
    return text[match.start("text") : end].strip(), f"{text[: match.start()]} {text[end:]}"


def _options(words: str) -> tuple[str, list[str]]:
    """`which colour: red, green or blue` is a question with three options."""
    question, _, listed = words.partition(":")
    options = [each.strip(" .?!") for each in re.split(r",\s*(?:or\s+)?|\s+or\s+", listed) if each.strip(" .?!")]
    return (question.strip(), options) if 2 <= len(options) <= 8 else (words, [])
