"""Loads the packaged o200k_base vocabulary, once, without network, environment or writes."""

import asyncio
import gzip
import hashlib
import logging
from base64 import b64decode
from importlib import resources
from threading import Lock

import tiktoken

VOCABULARY = "o200k_base.tiktoken.gz"
VOCABULARY_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""Of the unpacked file, as tiktoken pins it."""

_LETTERS_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LETTERS_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERN = "|".join(
    [
        rf"[^\r\n\p{{L}}\p{{N}}]?{_LETTERS_UPPER}*{_LETTERS_LOWER}+{_CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_LETTERS_UPPER}+{_LETTERS_LOWER}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
"""How o200k_base splits text before merging."""

_log = logging.getLogger(__name__)
_lock = Lock()
_encoding: tiktoken.Encoding | None = None
_failed = False


def build_encoding(packed: bytes) -> tiktoken.Encoding:
    """The encoding of a packed vocabulary. Raises ValueError when it is not the pinned one."""
    raw = gzip.decompress(packed)
    found = hashlib.sha256(raw).hexdigest()
    if found != VOCABULARY_SHA256:
        raise ValueError(f"the packaged vocabulary is not the pinned one: sha256 {found}")
    ranks = {b64decode(token): int(rank) for token, rank in (line.split() for line in raw.splitlines() if line)}
    return tiktoken.Encoding(
        "o200k_base",
        pat_str=PATTERN,
        mergeable_ranks=ranks,
        special_tokens={"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018},
    )


def encoding() -> tiktoken.Encoding | None:
    """The o200k_base encoding, loaded at the first call (about half a second); None where it cannot be loaded."""
    global _encoding, _failed
    if _encoding is None and not _failed:
        with _lock:
            if _encoding is None and not _failed:
                try:
                    packed = resources.files("turngraph").joinpath("data", VOCABULARY).read_bytes()
                    _encoding = build_encoding(packed)
                except Exception as error:  # noqa: BLE001 - counting goes on with the estimate
                    _failed = True
                    _log.warning("token counts are estimated: the vocabulary could not be loaded (%s)", error)
    return _encoding


async def warm_up() -> None:
    """Loads the vocabulary in a thread, so that no later count blocks the event loop. Never raises."""
    if _encoding is None and not _failed:
        await asyncio.to_thread(encoding)
