"""Secrets out of texts: what the environment holds, and what has the shape of a key."""

import contextlib
import os
import re
from collections.abc import Iterator

from langgraph.errors import GraphBubbleUp

REDACTED = "[redacted]"
_MAX_ERROR = 4_000
"""Characters of an error's text that are kept."""

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:KEY|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|DSN|AUTH)(?:_|\d|$)|PASSWORD|SECRET|APIKEY",
    re.IGNORECASE,
)
_KEY_NAME = re.compile(r"api_?key|access_?key|secret|passw|(?:^|_)token$", re.IGNORECASE)
"""Names that are given to secrets and to nothing else; `cache_key` is none."""
_ADDRESS_NAME = re.compile(r"(?:^|_)(?:URL|URI)$", re.IGNORECASE)

_NOT_INSIDE_A_WORD = r"(?<![A-Za-z0-9])"
_KEY_SHAPES = re.compile(
    _NOT_INSIDE_A_WORD
    + r"(?:"
    + r"(?:sk|rk|pk)[-_](?=[A-Za-z0-9_-]{0,200}[A-Z0-9])[A-Za-z0-9_-]{8,}"
    + r"|(?:AKIA|ASIA)[A-Z0-9]{12,}"
    + r"|gh[opsur]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    + r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|AIza[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{20,}"
    + r"|gsk_[A-Za-z0-9]{16,}|xai-[A-Za-z0-9]{16,}|lsv2_[A-Za-z0-9_]{16,}|tvly-[A-Za-z0-9-]{16,}"
    + r"|eyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]*"
    + r")"
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?(?:-----END \1PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_AUTHORIZATION = re.compile(
    r"\b(Bearer|Basic|(?<=Authorization: )Token)(\s+)(?=\S{0,200}(?:[0-9=+]|(?-i:[a-z][A-Z])))[A-Za-z0-9._~+/=-]{8,}",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"\b([a-z][a-z0-9+.-]{0,20}://[^\s:@/]{0,200}):[^\s@/]{1,500}@", re.IGNORECASE)
_NAMED = re.compile(
    r"(?P<name>(?:api[_-]?key|access[_-]?key|secret(?:[_-]?key)?|password|passwd|token|signature|client_secret)"
    r"[\"']?\s*[=:]\s*[\"']?)(?=[^\s\"'&,;]{0,200}\d)(?=[^\s\"'&,;]{0,200}[A-Za-z])[^\s\"'&,;\[\]()]{8,}",
    re.IGNORECASE,
)


# every repetition is bounded where a text of megabytes could make the search start again at each character


def redact(text: str) -> str:
    """The text with every secret that can be told replaced by `[redacted]`.

    Secrets are: values of environment variables whose names say so, private keys, keys of known shapes, authorization
    headers, passwords in addresses, and values named as a key, token or password.
    Law: idempotent; a text without any of these comes back as it is.
    """
    for value in _from_environment():
        text = text.replace(value, REDACTED)
    text = _PRIVATE_KEY.sub(REDACTED, text)
    text = _ADDRESS.sub(rf"\1:{REDACTED}@", text)
    text = _AUTHORIZATION.sub(rf"\1\2{REDACTED}", text)
    text = _KEY_SHAPES.sub(REDACTED, text)
    return _NAMED.sub(rf"\g<name>{REDACTED}", text)


def _from_environment() -> list[str]:
    """The secrets in the environment, longest first, so that one that holds another goes as a whole."""
    found: set[str] = set()
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and _is_no_word(value):
            found.add(value)
        elif _ADDRESS_NAME.search(name) and (match := re.search(r"://[^\s:@/]*:([^\s@/]+)@", value)):
            found |= {match.group(1)} if _is_no_word(match.group(1)) else set()
    return sorted(found, key=lambda value: (-len(value), value))


def _is_no_word(value: str) -> bool:
    """Whether a value is long and mixed enough to be a secret, and not a word that any text may hold, or a path."""
    if len(value) < 8 or value in REDACTED or value.startswith(("/", "~")):
        return False
    mixed = any(letter.isdigit() for letter in value) or (value.lower() != value and value.upper() != value)
    return mixed or len(value) >= 20


def describe_error(error: BaseException) -> str:
    """Type and text of an error, redacted and bounded; never a traceback. Never raises."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an exception may be broken itself
        text = ""
    if isinstance(error, BaseExceptionGroup):
        text = f"{error.message}: {'; '.join(describe_error(member) for member in error.exceptions)}"
    kind = type(error).__name__
    described = redact(f"{kind}: {text}" if text.strip() else kind)
    more = len(described) - _MAX_ERROR
    return described if more <= 0 else f"{described[:_MAX_ERROR]} … ({more:,} more characters)"


def is_secret(name: str, value: str) -> bool:
    """Whether a named value is a secret: by what its name says, or by what it looks like."""
    return bool(_KEY_NAME.search(name)) or redact(value) != value


def telling(error: BaseException) -> BaseException | None:
    """The error, as the cause of one that is raised; None where its text, or that of what caused it, holds a secret,
    which every traceback and trace would show."""
    return None if any(_tells(each) for each in _chain(error)) else error


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """What is raised in here goes on with the secrets of its text, and of what caused it, redacted.

    For code that is not ours: LangChain gives its errors to every tracer before anybody can look at them. An error
    whose text cannot be changed is replaced by a RuntimeError that names it.
    """
    try:
        yield
    except GraphBubbleUp:
        raise
    except Exception as error:
        for each in _chain(error):
            if _tells(each):
                each.args = tuple(redact(part) if isinstance(part, str) else part for part in each.args)
        if telling(error) is None:
            raise RuntimeError(redact(f"{type(error).__name__}: {error}")) from None
        raise


def _tells(error: BaseException) -> bool:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an error without a text tells nothing
        return False
    return redact(text) != text


def _chain(error: BaseException) -> list[BaseException]:
    """The error, what it was raised from or during, and the members of groups."""
    found: dict[int, BaseException] = {}
    left: list[BaseException | None] = [error]
    while left:
        each = left.pop()
        if each is not None and id(each) not in found:
            found[id(each)] = each
            members = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
            left += [each.__cause__, None if each.__suppress_context__ else each.__context__, *members]
    return list(found.values())
