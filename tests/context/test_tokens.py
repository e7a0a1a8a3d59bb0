"""Counting: exact by the packaged vocabulary, each text once, bounded on hostile text, high where it is estimated."""

import asyncio
import json
import random
import time
import tomllib
from pathlib import Path

import pytest
import tiktoken_ext.openai_public
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

from tests.context.tapes import tapes
from turngraph.context import count_tokens, encoding, tokens
from turngraph.context.encoding import PATTERN, build_encoding
from turngraph.context.estimate import estimate_text
from turngraph.context.tokens import (
    IMAGE_TOKENS,
    MESSAGE_OVERHEAD,
    count_text,
    message_tokens,
    real_counts,
    tool_tokens,
)

ROOT = Path(__file__).parents[2]
PROSE = (ROOT / "README.md").read_text()
CODE = Path(tiktoken_ext.openai_public.__file__).read_text()
CHINESE = "今天天气很好，我们去公园散步吧。工具调用的结果应该按照顺序返回给模型。" * 15
DENSE = json.dumps([{"id": n, "k": [n / 7, None, True], "s": f"{n:x}-{n * 7919:x}"} for n in range(300)])
RUSSIAN = "Каждый вызов инструмента получает ровно один ответ, и порядок ответов сохраняется. " * 10
ARABIC = "كل استدعاء أداة يحصل على رد واحد فقط. " * 20
THAI = "การเรียกใช้เครื่องมือแต่ละครั้งจะได้รับผลลัพธ์เพียงหนึ่งรายการ " * 10
HINDI = "प्रत्येक उपकरण कॉल को ठीक एक परिणाम मिलता है। " * 15
EMOJI = "👩‍👩‍👧‍👦🇩🇪🎉✅ " * 40
TIBETAN = "བོད་ཡིག་ནི་བོད་ཀྱི་སྐད་ཡིག་ཡིན། " * 20
BURMESE = "မြန်မာဘာသာစကားသည် မြန်မာနိုင်ငံ၏ ရုံးသုံးဘာသာစကား ဖြစ်သည်။ " * 10
KHMER = "ភាសាខ្មែរជាភាសាផ្លូវការរបស់ព្រះរាជាណាចក្រកម្ពុជា " * 10
JAPANESE = "ツール呼び出しごとに結果は必ず一つだけ返されます。" * 15
KOREAN = "각 도구 호출에는 정확히 하나의 결과가 있습니다. " * 15
SAMPLES = [PROSE, CODE, CHINESE, DENSE, RUSSIAN, ARABIC, THAI, HINDI, EMOJI, TIBETAN, BURMESE, KHMER, JAPANESE, KOREAN]
NAMES = ["prose", "code", "zh", "json", "ru", "ar", "th", "hi", "emoji", "bo", "my", "km", "ja", "ko"]


@pytest.fixture
def no_vocabulary(monkeypatch):
    monkeypatch.setattr(encoding, "_encoding", None)
    monkeypatch.setattr(encoding, "_failed", True)


def test_pattern_and_special_tokens_are_the_official_ones(monkeypatch):
    monkeypatch.setattr(tiktoken_ext.openai_public, "load_tiktoken_bpe", lambda *args, **kwargs: {})
    official = tiktoken_ext.openai_public.o200k_base()
    assert official["pat_str"] == PATTERN
    vocabulary = encoding.encoding()
    assert vocabulary is not None
    assert vocabulary.special_tokens_set == set(official["special_tokens"])
    assert vocabulary.n_vocab == 200_019


def test_known_ids():
    vocabulary = encoding.encoding()
    assert vocabulary is not None
    assert vocabulary.encode_ordinary("hello world") == [24912, 2375]
    assert vocabulary.decode(vocabulary.encode_ordinary(CHINESE)) == CHINESE


def test_a_vocabulary_that_was_tampered_with_is_refused():
    import gzip

    with pytest.raises(ValueError, match="not the pinned one"):
        build_encoding(gzip.compress(b"aGVsbG8= 0\n"))


def test_loading_uses_no_network_and_no_cache(monkeypatch, tmp_path):
    import socket

    def refuse(*args, **kwargs):
        raise AssertionError("network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(encoding, "_encoding", None)
    assert encoding.encoding() is not None
    assert list(tmp_path.iterdir()) == []


async def test_warm_up_leaves_the_loop_free(monkeypatch):
    monkeypatch.setattr(encoding, "_encoding", None)
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.005)

    ticking = asyncio.create_task(tick())
    await tokens.warm_up()
    ticking.cancel()
    assert encoding._encoding is not None
    assert ticks >= 3


def test_the_vocabulary_is_packaged_and_its_licence_noted():
    packaged = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["turngraph"]
    assert "data/*" in packaged
    notice = (ROOT / "turngraph" / "data" / "NOTICE.md").read_text()
    assert encoding.VOCABULARY_SHA256 in notice
    assert "MIT License" in notice


def test_each_text_is_counted_once():
    fresh = [HumanMessage(f"a text that no other test counts {random.random()} {n}") for n in range(50)]
    before = real_counts()
    first = count_tokens(fresh)
    assert real_counts() - before == 50
    assert count_tokens([*fresh, *fresh]) == 2 * first
    assert count_tokens([message.model_copy(deep=True) for message in fresh]) == first
    assert real_counts() - before == 50


def test_memory_of_counts_is_bounded(monkeypatch):
    monkeypatch.setattr(tokens, "CACHED_TEXTS", 10)
    counts = tokens._Counts()
    for n in range(100):
        counts.of(f"text {n}")
    assert len(counts._known) == 10


@given(tapes, tapes)
@settings(max_examples=100, deadline=None)
def test_counts_add_up(first, second):
    assert count_tokens([*first, *second]) == count_tokens(first) + count_tokens(second)
    assert count_tokens(first) >= MESSAGE_OVERHEAD * len(first)


def test_what_a_message_costs():
    assert message_tokens(HumanMessage("hello world")) == MESSAGE_OVERHEAD + 2
    args = {"query": "a long query " * 20}
    call = AIMessage("", tool_calls=[{"name": "search", "args": args, "id": "call_1"}])
    assert message_tokens(call) > count_text(json.dumps(args))
    assert message_tokens(ToolMessage("x", tool_call_id="call_1")) > message_tokens(HumanMessage("x"))
    assert message_tokens(AIMessage("x", additional_kwargs={"raw_text": "y " * 100})) == message_tokens(AIMessage("x"))
    blocks = [{"type": "tool_use", "id": "call_1", "name": "search", "input": args}]
    twice = AIMessage(blocks, tool_calls=call.tool_calls)
    assert message_tokens(twice) == message_tokens(call), "a call that stands in a block too is counted once"


@pytest.mark.parametrize("block", [
    {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}},
    {"type": "image", "base64": "A" * 400_000, "mime_type": "image/png"},
    {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 400_000},
])  # fmt: skip
def test_an_image_has_a_flat_cost(block):
    assert message_tokens(HumanMessage([block])) == MESSAGE_OVERHEAD + IMAGE_TOKENS


def test_tools_of_every_form_are_counted():
    @tool
    def search(query: str, limit: int = 3) -> str:
        """Finds documents that match a query."""
        return ""

    def plain(query: str) -> str:
        """Finds documents."""
        return ""

    provider_side = {"type": "web_search"}
    assert tool_tokens([search]) > 30
    assert tool_tokens([search, plain, provider_side]) == sum(
        tool_tokens([each]) for each in (search, plain, provider_side)
    )
    assert count_tokens([], [search]) == tool_tokens([search])
    assert tool_tokens([lambda x: x]) > 0


def test_models_with_another_vocabulary_count_higher():
    message = [SystemMessage(PROSE)]
    base = count_tokens(message)
    assert count_tokens(message, model="openai:gpt-5-mini") == base
    assert count_tokens(message, model="gpt-4o") == base
    for other in ("gpt-4", "anthropic:claude-sonnet-4", "local:/models/x.gguf", ""):
        assert count_tokens(message, model=other) > base


@pytest.mark.parametrize("text", [
    "a" * 1_000_000, " " * 1_000_000, "\n" * 300_000, "^" * 390_000, "中" * 390_000, "7" * 390_000, "é" * 390_000,
    "ab" * 190_000, "😀" * 200_000, " \n" * 190_000, "x" * 399 + " " + "y" * 390_000,
])  # fmt: skip
def test_hostile_texts_are_counted_in_bounded_time(text):
    started = time.process_time()
    count = count_text(text)
    assert time.process_time() - started < 1.5
    sample = text[:20_000]
    assert count >= len(encoding.encoding().encode_ordinary(sample))


@pytest.mark.parametrize("text", ["a" * 5_000, "中文" * 3_000, "x" * 401, " " * 900 + "y", DENSE.replace(" ", "")])
def test_cutting_long_runs_errs_high_by_little(text):
    exact = len(encoding.encoding().encode_ordinary(text))
    assert exact <= count_text(text) <= exact * 1.05 + 4 + len(text) / 200


@pytest.mark.parametrize("text", SAMPLES, ids=NAMES)
def test_texts_without_long_runs_are_counted_exactly_and_the_estimate_errs_high(text):
    exact = len(encoding.encoding().encode_ordinary(text))
    assert exact <= count_text(text) <= exact * 1.02
    assert exact <= estimate_text(text) <= 5 * exact


@given(st.text(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_text_can_be_counted(text):
    text = text + "\ud800"
    assert count_text(text) > 0
    assert estimate_text(text) > 0


def test_without_the_vocabulary_counts_go_on_and_err_high(no_vocabulary):
    estimated = [count_text(text) for text in SAMPLES]
    assert estimated == [estimate_text(text) for text in SAMPLES]


def test_a_failed_load_is_said_once_and_never_raises(monkeypatch, caplog):
    monkeypatch.setattr(encoding, "_encoding", None)
    monkeypatch.setattr(encoding, "_failed", False)
    monkeypatch.setattr(encoding, "VOCABULARY", "missing.gz")
    assert count_text("some words that were never counted before") > 0
    assert count_text("some other words that were never counted") > 0
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "missing.gz" in caplog.text
