"""The demo tools: exact results, bounded input, real files, packaged pages."""

import operator
import re
import threading
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngraph.state.events import EventType
from turngraph.state.receipt import TurnReceipt
from turngraph.state.settings import TurnSettings
from turngraph.state.words import Status
from turngraph.tools.arithmetic import MAX_BITS, evaluate
from turngraph.tools.demo import demo_tools
from turngraph.tools.docs_search import Section, rank, search, sections, split_page
from turngraph.tools.notes import FILE, append_note, notes_folder
from turngraph.tools.policy import policy_of
from turngraph.tools.timezones import now_in

TOOLS = {each.name: each for each in demo_tools()}


def test_policies_and_schemas() -> None:
    assert list(TOOLS) == ["calculator", "clock", "search_docs", "save_note"]
    policies = {name: (policy_of(each).permission, policy_of(each).effect) for name, each in TOOLS.items()}
    assert policies.pop("save_note") == ("ask", "write")
    assert set(policies.values()) == {("allow", "read")}
    assert all(each.description for each in TOOLS.values())


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("2+2", "4"),
        ("(3 + 4) * 12", "84"),
        ("2^10", "1024"),
        ("6×7÷2", "21"),
        ("5 − 8", "-3"),
        ("1/3", "0.333333333333"),
        ("0.1 + 0.2", "0.3"),
        ("6/3", "2"),
        ("7 // 2 + 7 % 4", "6"),
        ("-2 ** 2", "-4"),
        ("sqrt(16) + abs(-3)", "7"),
        ("round(2.675, 1)", "2.7"),
        ("max(1, 2, 3) - min(4, 5)", "-1"),
        ("2 * pi", "6.28318530718"),
        ("2 + 2 =", "4"),
        ("what", None),
        ("1/0", None),
        ("", None),
        ("9**9**9", None),
        ("10.0 ** 400", None),
        ("(-8) ** 0.5", None),
        ("sqrt(-1)", None),
        ("sqrt()", None),
        ("round(5, -1000000000)", None),
        ("2 ** -100000", None),
        ("__import__('os').getcwd()", None),
        ("(1).__class__", None),
        ("'a' * 9", None),
        ("True + 1", None),
        ("[1, 2]", None),
        ("(" * 300 + "1" + ")" * 300, None),
        ("1" * 600, None),
        ("+".join("1" * 150), None),
        ("1 if 1 else 2", None),
    ],
)
def test_calculator(expression: str, result: str | None) -> None:
    if result is None:
        with pytest.raises(ValueError):
            evaluate(expression)
    else:
        assert TOOLS["calculator"].invoke({"expression": expression}) == result


@st.composite
def trees(draw: Any, depth: int = 3) -> tuple[str, Fraction]:
    """An expression of whole numbers and its exact value."""
    if depth == 0 or draw(st.booleans()):
        number = draw(st.integers(0, 10_000))
        return str(number), Fraction(number)
    left, a = draw(trees(depth - 1))
    right, b = draw(trees(depth - 1))
    sign, work = draw(st.sampled_from([("+", operator.add), ("-", operator.sub), ("*", operator.mul)]))
    return f"({left} {sign} {right})", work(a, b)


@settings(max_examples=200, deadline=None)
@given(tree=trees())
def test_whole_number_arithmetic_is_exact(tree: tuple[str, Fraction]) -> None:
    expression, value = tree
    assert evaluate(expression) == str(value)


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(st.text(max_size=60), st.text("0123456789+-*/%().e,^ sqrt", max_size=60)))
def test_any_text_gives_a_number_or_a_value_error(text: str) -> None:
    try:
        result = evaluate(text)
    except ValueError:
        return
    assert re.fullmatch(r"-?\d+(\.\d+)?(e[+-]\d+)?", result)
    assert len(result) <= MAX_BITS


def test_clock_tells_the_time_in_zones() -> None:
    moment = datetime(2026, 12, 1, 23, 30, 5, tzinfo=UTC)
    assert now_in("UTC", now=moment) == "2026-12-01 23:30:05 UTC+00:00 (Tuesday, UTC)"
    assert now_in("Asia/Kolkata", now=moment) == "2026-12-02 05:00:05 UTC+05:30 (Wednesday, Asia/Kolkata)"
    assert now_in("", now=moment).endswith("UTC)")
    told = datetime.strptime(TOOLS["clock"].invoke({})[:19], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - told).total_seconds()) < 60


@pytest.mark.parametrize(
    ("name", "hint"), [("tokyo", "Asia/Tokyo"), ("Europe/Berln", "Europe/Berlin"), ("../etc/passwd", "IANA")]
)
def test_an_unknown_zone_names_close_ones(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        now_in(name)


def test_notes_are_appended_where_the_user_chose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNGRAPH_NOTES", str(tmp_path / "new" / "folder"))
    told = TOOLS["save_note"].invoke({"text": "buy milk"})
    append_note("two\r\nlines \ud800", now=datetime(2026, 1, 2, 3, 4, tzinfo=UTC))
    path = tmp_path / "new" / "folder" / FILE
    assert str(path) in told
    lines = path.read_text("utf-8").splitlines()
    assert re.fullmatch(r"- \d{4}-\d\d-\d\d \d\d:\d\d buy milk", lines[0])
    assert lines[1:] == ["- 2026-01-02 03:04 two", "  lines ?"]
    assert path.stat().st_mode & 0o077 == 0
    for wrong in ("", " \n", "x" * 20_000):
        with pytest.raises(ValueError, match="note"):
            append_note(wrong)


def test_notes_of_many_threads_are_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNGRAPH_NOTES", str(tmp_path))
    threads = [threading.Thread(target=append_note, args=(f"note {n} " + "x" * 500,)) for n in range(40)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    lines = (tmp_path / FILE).read_text("utf-8").splitlines()
    assert sorted(int(line.split()[4]) for line in lines) == list(range(40))


def test_the_default_folder_is_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert notes_folder({"XDG_DATA_HOME": "/data"}) == Path("/data/turngraph")
    assert notes_folder({}) == Path.home() / ".local" / "share" / "turngraph"
    assert notes_folder({"TURNGRAPH_NOTES": "~/n"}) == Path.home() / "n"
    monkeypatch.setattr("sys.platform", "win32")
    assert notes_folder({"LOCALAPPDATA": "/local"}) == Path("/local/turngraph")


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("How do I resume a paused turn?", "pauses"),
        ("which variables does the openai model read", "models"),
        ("How many rounds may a turn take?", "settings"),
        ("What does the receipt hold?", "storage"),
        ("how can I cancel a run", "control"),
        ("scripted model for tests", "testing"),
        ("langgraph dev studio", "server"),
        ("always approve a tool: permission", "permissions"),
        ("search_docs", "tools"),
        ("thinking events", "streaming"),
    ],
)
def test_search_finds_the_page(query: str, page: str) -> None:
    assert any(section.page == page for section in rank(query, sections())[:3])
    assert f"### {page}" in TOOLS["search_docs"].invoke({"query": query})


def test_search_without_a_match_lists_the_pages() -> None:
    told = search("xyzzy")
    assert "xyzzy" in told
    assert "overview" in told


def test_pages_are_cut_at_headings_outside_fences() -> None:
    page = "intro\n# A\ntext\n```\n# no heading\n```\n## B\nmore\n## Empty\n"
    assert [(each.heading, each.text) for each in split_page("p", page)] == [
        ("p", "intro"),
        ("A", "text\n```\n# no heading\n```"),
        ("B", "more"),
    ]


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(st.text("abcdefg ", max_size=30), max_size=8), query=st.text("abcdefg ", max_size=20))
def test_ranking_gives_only_sections_that_share_a_word_in_a_fixed_order(texts: list[str], query: str) -> None:
    corpus = [Section("p", str(n), text) for n, text in enumerate(texts)]
    found = rank(query, corpus)
    assert found == rank(query, corpus)
    assert len(found) == len({each.heading for each in found})
    for each in found:
        assert each.words.keys() & Section("p", "", query).words.keys()


def test_the_pages_name_only_settings_that_exist() -> None:
    """The page on settings lists every field, and nothing in code marks there is an unknown name."""
    page = "\n".join(each.text for each in sections() if each.page == "settings")
    marked = set(re.findall(r"`([a-z_]+)`", page))
    words = {"yield", "steer", "context"}
    assert set(TurnSettings.model_fields) <= marked
    assert marked - set(TurnSettings.model_fields) <= words


def test_the_pages_name_all_events_and_receipt_fields() -> None:
    text = "\n".join(each.text for each in sections())
    for name in (*get_args(EventType), *(TurnReceipt.__annotations__.keys() - {"models", "structured_error"})):
        assert f"`{name}`" in text, name
    for status in get_args(Status):
        assert status in text
