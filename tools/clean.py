"""Text that every store and every provider takes: no NUL, no lone surrogates."""

import json
import re
from typing import Any

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def clean(text: str) -> str:
    """The text without NUL, surrogate pairs joined, lone surrogates replaced by U+FFFD. Law: idempotent, UTF-8 safe."""
    if not _UNSTORABLE.search(text):
        return text
    paired = _PAIR.sub(lambda pair: pair.group().encode("utf-16", "surrogatepass").decode("utf-16"), text)
    return _UNSTORABLE.sub(lambda found: "" if found.group() == "\x00" else "\ufffd", paired)


def clean_json(value: Any) -> Any:
    """The same for every text in a plain JSON value, keys included."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [clean_json(item) for item in value]
    if isinstance(value, dict):
        return {clean(str(key)): clean_json(item) for key, item in value.items()}
    return value


def plain_text(value: Any) -> str:
    """A plain value as clean text: a text as it is, None blank, everything else as JSON."""
    if value is None:
        return ""
    return clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
