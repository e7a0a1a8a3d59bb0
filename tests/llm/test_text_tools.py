"""Tool calls as text: found in every dialect, only where they are meant, whatever pieces the text arrives in."""

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from turngraph.llm.text_tools import (
    Piece,
    RawTextCall,
    TextCallParser,
    render_for_text,
    strip_call_markup,
    tools_prompt,
)
from turngraph.llm.think import InlineThinkFilter

NAMES = ("search", "write_file", "now")
CALL = '{"name": "search", "arguments": {"q": "x"}}'


def merged(pieces: list[Piece]) -> list[Piece]:
    out: list[Piece] = []
    for piece in pieces:
        last = out[-1] if out else None
        if piece[0] == "content" and last is not None and last[0] == "content":
            out[-1] = ("content", last[1] + piece[1])
        else:
            out.append(piece)
    return out


def read(chunks: list[str], *, protocol: bool = False, **options: Any) -> list[Piece]:
    parser = TextCallParser(NAMES, protocol=protocol, **options)
    pieces = [piece for chunk in chunks for piece in parser.feed(chunk)] + parser.flush()
    assert all(piece[1] for piece in pieces)
    assert parser.flush() == []
    return merged(pieces)


def calls(text: str, **options: Any) -> list[tuple[str, Any]]:
    return [(piece[1].name, piece[1].arguments) for piece in read([text], **options) if piece[0] == "call"]


def content(pieces: list[Piece]) -> str:
    return "".join(piece[1] for piece in pieces if piece[0] == "content")


def dsml(bars: str, wrapper: str) -> str:
    p = f"{bars}DSML{bars}"
    return (
        f'<{p}{wrapper}>\n<{p}invoke name="search">\n<{p}parameter name="q" string="true">x</{p}parameter>\n'
        f"</{p}invoke>\n</{p}{wrapper}>"
    )


ONE = [("search", {"q": "x"})]

FORMS: list[tuple[str, list[tuple[str, Any]]]] = [
    (f"<tool_call>{CALL}</tool_call>", ONE),
    (f"<tool_call>\n{CALL}\n</tool_call>", ONE),
    (f"<tool_call>{CALL}</tool_call>\n<tool_call>{CALL}</tool_call>", ONE * 2),
    (f"<tool_call>\n{CALL}\n<tool_call>\n{CALL}\n</tool_call>", ONE * 2),
    (f"<tool_call>[{CALL}, {CALL}]</tool_call>", ONE * 2),
    (f"<tool_calls>[{CALL}]</tool_calls>", ONE),
    (f"<tool_call>{CALL}\n{CALL}</tool_call>", ONE * 2),
    (f"<tool_call>```json\n{CALL}\n```</tool_call>", ONE),
    (f"<function_call>{CALL}</function_call>", ONE),
    ('<tool_call>{"name": "search", "parameters": {"q": "x"}}</tool_call>', ONE),
    ('<tool_call>{"arguments": {"q": "x"}, "name": "search"}</tool_call>', ONE),
    ('<tool_call>{"type": "function", "function": {"name": "search", "arguments": {"q": "x"}}}</tool_call>', ONE),
    ('<tool_call>{"name": "search", "q": "x"}</tool_call>', ONE),
    ('<tool_call>{"name": "now"}</tool_call>', [("now", {})]),
    ('<tool_call>{"name": "now", "arguments": null}</tool_call>', [("now", {})]),
    ('<tool_call>{"name": "search", "arguments": "{\\"q\\": \\"x\\"}"}</tool_call>', [("search", '{"q": "x"}')]),
    ('<tool_call>{"name": "search", "arguments": [1]}</tool_call>', [("search", "[1]")]),
    ('<tool_call>{"name": "search", "arguments": {"q": "a\nb"}}</tool_call>', [("search", {"q": "a\nb"})]),
    (
        '<tool_call>{"name": "search", "arguments": {"q": "</tool_call>"}}</tool_call>',
        [("search", {"q": "</tool_call>"})],
    ),
    ('<tool_call>{"name": "search", "arguments": {"q": "```\\n<b>\\""}}</tool_call>', [("search", {"q": '```\n<b>"'})]),
    ("<tool_call>search\n<arg_key>q</arg_key>\n<arg_value>x</arg_value>\n</tool_call>", ONE),
    ("<tool_call>now</tool_call>", [("now", {})]),
    (dsml("｜｜", "tool_calls"), ONE),
    (dsml("｜", "function_calls"), ONE),
    (dsml("|", "function_calls"), ONE),
    ('<function_calls>\n<invoke name="search">\n<parameter name="q">x</parameter>\n</invoke>\n</function_calls>', ONE),
    (
        '<function_calls><invoke name="search"><parameter name="q">x</parameter></invoke>'
        '<invoke name="now"></invoke></function_calls>',
        [*ONE, ("now", {})],
    ),
    ('<invoke name="search"><parameter name="q">x</parameter></invoke>', ONE),
    (
        '<minimax:tool_call>\n<invoke name="search"><parameter name="q">x</parameter></invoke>\n</minimax:tool_call>',
        ONE,
    ),
    ('<function=search>{"q": "x"}</function>', ONE),
    ('<function=search>{"q": "</function>"}</function>', [("search", {"q": "</function>"})]),
    ("<tool_call>\n<function=search>\n<parameter=q>\nx\n</parameter>\n</function>\n</tool_call>", ONE),
    ("<function=search>\n<parameter=q>\nx\n</parameter>\n</function>\n</tool_call>", ONE),
    (f"[TOOL_CALLS][{CALL}]", ONE),
    (f"[TOOL_CALLS] [{CALL}, {CALL}]", ONE * 2),
    ('[TOOL_CALLS]search[ARGS]{"q": "x"}', ONE),
    ('[TOOL_CALLS]search[CALL_ID]abc123[ARGS]{"q": "x"}', ONE),
    ('[TOOL_CALLS]search{"q": "x"}[TOOL_CALLS]now{}', [*ONE, ("now", {})]),
    (f"```json\n{CALL}\n```", ONE),
    (f"\n```\n{CALL}\n```\n", ONE),
    ('```json\n{\n  "name": "search",\n  "parameters": {"q": "x"}\n}\n```', ONE),
    ('```json\n{"name": "write_file", "arguments": {"text": "```"}}\n```', [("write_file", {"text": "```"})]),
]


@pytest.mark.parametrize(("text", "expected"), FORMS)
def test_every_form_is_a_call(text: str, expected: list[tuple[str, Any]]) -> None:
    pieces = read([text])
    assert [(piece[1].name, piece[1].arguments) for piece in pieces if piece[0] == "call"] == expected
    assert all(piece[1].complete for piece in pieces if piece[0] == "call")
    assert content(pieces).strip() == ""


@pytest.mark.parametrize(("text", "expected"), [form for form in FORMS if "```" not in form[0]])
def test_text_around_calls_is_shown_and_markup_is_not(text: str, expected: list[tuple[str, Any]]) -> None:
    pieces = read([f"Let me see.\n{text}\nThat is all."])
    assert content(pieces).split() == ["Let", "me", "see.", "That", "is", "all."]
    assert len([piece for piece in pieces if piece[0] == "call"]) == len(expected)
    assert pieces[0] == ("content", "Let me see.\n")


TEXTS = [
    "plain text, a < b, x[0], f(x) <= 3, <b>bold</b>, [TOOLS], [T",
    f"`<tool_call>{CALL}</tool_call>`",
    f"``<tool_call>{CALL}</tool_call>``",
    f"```\n<tool_call>{CALL}</tool_call>\n```",
    f"~~~xml\n<tool_call>{CALL}</tool_call>\n~~~\nafter",
    f"> <tool_call>{CALL}</tool_call>",
    f'The form is "<tool_call>{CALL}</tool_call>".',
    f'He wrote "first <tool_call>{CALL}</tool_call> then wait".',
    f"The form is “<tool_call>{CALL}</tool_call>”.",
    f"Here is one:\n```json\n{CALL}\n```",
    f"```json\n{CALL}\n```\nThat was an example.",
    f"```json\n{CALL}\n```\n```json\n{CALL}\n```",
    f"```python\n{CALL}\n```",
    CALL,
    '```json\n{"name": "Ada", "arguments": {"age": 36}}\n```',
    '```json\n{"name": "search", "results": [1, 2]}\n```',
    '```json\n{"name": "search", "arguments": {}, "more": 1}\n```',
    '```json\n{"name": "search"}\n```',
    '<tool_call>{"name": "delete_all", "arguments": {}}</tool_call>',
    '<function=delete_all>{"a": 1}</function>',
    '<invoke name="delete_all"><parameter name="q">x</parameter></invoke>',
    "<tool_call>delete_all</tool_call>",
    '<tool_call>{"q": "x"}</tool_call>',
    '<tool_call>["search"]</tool_call>',
    "Write <tool_call> before the JSON and </tool_call> after it.",
    "The <function> tag, the <invoke> tag, the <parameter=q> tag, the <function=search> tag.",
    "<tool_call>search for it</tool_call>",
    "<tool_call>\n\nThen go on.",
    "<tool_calls>, <function_calls> and [TOOL_CALLS] are markers.",
]


@pytest.mark.parametrize("text", TEXTS)
def test_everything_else_is_text(text: str) -> None:
    assert read([text]) == [("content", text)]
    assert read([text], protocol=True) == [("content", text)]


def test_a_call_beside_one_of_an_unknown_tool_shows_that_calls_are_meant() -> None:
    text = f'<tool_call>[{CALL}, {{"name": "delete_all", "arguments": {{}}}}]</tool_call>'
    assert calls(text) == [*ONE, ("delete_all", {})]


def test_a_broken_call_beside_a_good_one_is_reported() -> None:
    assert calls(f'<tool_call>{CALL}{{"name": }}</tool_call>') == [*ONE, ("", '{"name": }')]
    assert calls(f'<tool_call>[{CALL}, {{"q": 1}}]</tool_call>') == [*ONE, ("", {"q": 1})]


def test_quotes_end_with_their_line_and_code_with_its_fence() -> None:
    assert calls(f'A 5" pipe.\n<tool_call>{CALL}</tool_call>') == ONE
    assert calls(f"A stray ` here.\n<tool_call>{CALL}</tool_call>") == ONE
    assert calls(f"> quoted\n\n<tool_call>{CALL}</tool_call>") == ONE
    assert calls(f"```\ncode\n```\n<tool_call>{CALL}</tool_call>") == ONE
    assert calls(f'I look for "x".<tool_call>{CALL}</tool_call>') == ONE


BROKEN = [
    '<tool_call>{"name": "search", "arguments": {"q": "x"}</tool_call>',
    '<tool_call>{"name": "search", "arguments": {"q": "x"}}}</tool_call>',
    '<tool_call>{"name": "search", "arguments": {"q": "x}</tool_call>',
    '<tool_call>{"name": "search", "arguments": {"q": }}</tool_call>',
    "<tool_call>{'name': 'search', 'arguments': {'q': 'x'}}</tool_call>",
    '<tool_call>{"name": "search", "arguments": {"q": "he said "hi""}}</tool_call>',
]


@pytest.mark.parametrize("text", BROKEN)
def test_broken_json_is_a_call_whose_arguments_do_not_parse(text: str) -> None:
    pieces = read([text + "after"])
    (call,) = [piece[1] for piece in pieces if piece[0] == "call"]
    assert (call.name, call.complete) == ("search", True)
    assert isinstance(call.arguments, str)
    with pytest.raises(json.JSONDecodeError):
        json.loads(call.arguments)
    assert content(pieces) == "after"


def test_broken_json_without_a_known_name_is_text() -> None:
    for text in ('<tool_call>{"q": }</tool_call>', '<tool_call>{"name": "other", }</tool_call>'):
        assert read([text]) == [("content", text)]


def test_calls_after_one_with_open_quotes_are_found() -> None:
    text = f"{BROKEN[2]}\nand <tool_call>{CALL}</tool_call>"
    assert [name for name, _ in calls(text)] == ["search", "search"]
    assert calls(text)[1] == ONE[0]


@pytest.mark.parametrize(("text", "expected"), [form for form in FORMS if form[1] == ONE])
def test_a_call_that_was_cut_anywhere_is_never_repaired(text: str, expected: list[tuple[str, Any]]) -> None:
    for at in range(len(text)):
        for piece in read([text[:at]]):
            if piece[0] == "call" and not piece[1].complete:
                call = piece[1]
                assert call.name in ("search", "")
                assert isinstance(call.arguments, str)
                with pytest.raises(json.JSONDecodeError):
                    json.loads(call.arguments)
            elif piece[0] == "call":
                assert (piece[1].name, piece[1].arguments) == expected[0]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('<tool_call>{"name": "search", "arguments": {"q": "x', "search"),
        ('<tool_call>{"name": "sea', ""),
        ('<tool_call>{"na', ""),
        (f'<tool_call>[{CALL}, {{"name": "now"', "search"),
        ('<function=search>{"q": ', "search"),
        ("<function=search><parameter=q>x", "search"),
        ('<invoke name="search"><parameter name="q">x</parameter>', "search"),
        ("<tool_call>search\n<arg_key>q</arg_key>", "search"),
        (f"[TOOL_CALLS][{CALL[:-4]}", "search"),
        (f"```json\n{CALL[:-4]}", "search"),
    ],
)
def test_a_cut_call_is_reported_and_its_markup_is_not_shown(text: str, name: str) -> None:
    (piece,) = read([text])
    assert piece[0] == "call"
    assert (piece[1].name, piece[1].complete, piece[1].raw) == (name, False, text)


def test_where_the_protocol_is_spoken_an_opening_tag_alone_is_a_cut_call() -> None:
    assert read(["<tool_call>"], protocol=True) == [("call", RawTextCall("", "", "<tool_call>", complete=False))]
    assert read(["<tool_call>"]) == [("content", "<tool_call>")]


def test_a_whole_call_whose_closing_tag_is_missing_is_whole() -> None:
    assert read([f"<tool_call>{CALL}"]) == [("call", RawTextCall("search", {"q": "x"}, f"<tool_call>{CALL}"))]
    assert content(read([f"<tool_call>{CALL}\nI wait."])) == "I wait."


def test_values_take_their_type_from_the_markup_then_the_schema() -> None:
    text = (
        '<invoke name="search"><parameter name="a">5</parameter><parameter name="b">[1]</parameter>'
        '<parameter name="c">true</parameter><parameter name="d" string="false">7</parameter>'
        '<parameter name="e" string="true">[2]</parameter></invoke>'
    )
    assert calls(text) == [("search", {"a": "5", "b": [1], "c": "true", "d": 7, "e": "[2]"})]
    schema = {
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "string"},
            "c": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        }
    }
    typed = {"a": 5, "b": "[1]", "c": True, "d": 7, "e": "[2]"}
    assert calls(text, schemas={"search": schema}) == [("search", typed)]


def test_a_value_may_hold_markup_of_its_own() -> None:
    value = '<a></parameter></a>\n</function> "<tool_call>" ```'
    text = f"<tool_call><function=write_file><parameter=text>\n{value}\n</parameter></function></tool_call>"
    assert calls(text) == [("write_file", {"text": value})]


def test_plain_text_is_handed_on_at_once() -> None:
    parser = TextCallParser(NAMES, protocol=True)
    for chunk in ["Hello", " ", "wor", "ld\n", "a < b", "\n- [x] ", '"yes"', " <div>", "\n```\n", "code <tool_call>"]:
        assert parser.feed(chunk) == [("content", chunk)]


def test_other_json_in_a_fence_is_not_held_for_long() -> None:
    parser = TextCallParser(NAMES, protocol=True)
    assert parser.feed('```json\n{"na') == []
    assert parser.feed('mes": [') == [("content", '```json\n{"names": [')]


def test_a_call_is_reported_as_soon_as_it_is_closed() -> None:
    parser = TextCallParser(NAMES, protocol=True)
    assert parser.feed(f"<tool_call>{CALL}</tool_call") == []
    ((kind, _),) = parser.feed(">")
    assert kind == "call"


PARTS = [
    "<tool_call>",
    CALL,
    "</tool_call>",
    "\n",
    "text ",
    "`",
    '"',
    "<function=search>",
    '{"q": "</tool_call>"}',
    "</function>",
]
CORPUS = [
    *(text for text, _ in FORMS),
    *TEXTS,
    *BROKEN,
    *(f"a {text} <b" for text, _ in FORMS),
    *("".join(parts) for parts in product(PARTS[:1] + PARTS[7:8], PARTS, PARTS[1:3] + PARTS[8:], PARTS[::4])),
]


def test_every_split_of_every_text_gives_the_same() -> None:
    assert len(CORPUS) >= 200
    for text in CORPUS:
        whole = read([text])
        assert read(list(text)) == whole
        for at in range(1, len(text)):
            assert read([text[:at], text[at:]]) == whole


def read_both(chunks: list[str]) -> tuple[list[Piece], str]:
    """Both filters in a row, as a response goes through them."""
    think, parser = InlineThinkFilter(), TextCallParser(NAMES, protocol=True)
    pieces: list[Piece] = []
    thinking = ""
    for split in [*(think.feed(chunk) for chunk in chunks), think.flush()]:
        for kind, text in split:
            if kind == "content":
                pieces += parser.feed(text)
            else:
                thinking += text
    return merged(pieces + parser.flush()), thinking


def test_both_filters_in_a_row_do_not_depend_on_chunks() -> None:
    texts = sorted(CORPUS, key=len)[:220]
    for number, text in enumerate(texts):
        both = f"<think>maybe {text}</think>\n{text}" if number % 2 else f"{text}<thinking>{text}</thinking> {text}"
        whole = read_both([both])
        assert read_both(list(both)) == whole
        for at in range(1, len(both)):
            assert read_both([both[:at], both[at:]]) == whole


FRAGMENTS = [
    *PARTS,
    *'<>[]{}"\\`\n ',
    "[TOOL_CALLS]",
    "[ARGS]",
    '<invoke name="search">',
    "</invoke>",
    '<parameter name="q">',
    "</parameter>",
    "<function_calls>",
    "<｜DSML｜function_calls>",
    "```json\n",
    "```",
    "search",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "> ",
    "“",
    '{"name": "search"',
]
MARKUP = st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join)


@settings(max_examples=300, deadline=None)
@given(MARKUP, st.lists(st.integers(1, 9), min_size=1, max_size=60))
def test_chunks_change_nothing(text: str, sizes: list[int]) -> None:
    chunks, at = [], 0
    for size in sizes:
        chunks.append(text[at : at + size])
        at += size
    chunks.append(text[at:])
    assert read(chunks) == read([text])


@settings(max_examples=300, deadline=None)
@given(MARKUP)
def test_nothing_is_lost(text: str) -> None:
    """Content and raw markup, in order, are the text, but for closing tags after a call."""
    back = "".join(piece[1] if piece[0] == "content" else piece[1].raw for piece in read([text]))
    assert back.replace("</tool_call>", "") == text.replace("</tool_call>", "")
    assert text == back or "</tool_call>" in text


@settings(max_examples=200, deadline=None)
@given(MARKUP)
def test_incomplete_calls_come_last_and_hold_text(text: str) -> None:
    found = [piece[1] for piece in read([text]) if piece[0] == "call"]
    assert all(isinstance(call.arguments, str) for call in found if not call.complete)
    assert all(call.complete or call.name in (*NAMES, "") for call in found)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet='<>/"\\`\n{}[]ab｜', max_size=12),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=8,
    ).map(lambda value: {"v": value})
)
def test_a_call_as_the_history_shows_it_is_read_back(arguments: dict[str, Any]) -> None:
    message = AIMessage("So.", tool_calls=[{"name": "search", "args": arguments, "id": "1"}])
    (shown,) = render_for_text([message])
    assert calls(str(shown.text)) == [("search", arguments)]


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "search", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "anything", "arguments": {}}</tool_call>\n<tool_call>b</tool_call>',
        '<tool_call>{"name": "search", "argu',
        "<tool_call>",
        "<tool_call>{broken</tool_call>",
        dsml("｜｜", "tool_calls"),
        dsml("｜", "function_calls"),
        '<｜｜DSML｜｜tool_calls><｜｜DSML｜｜invoke name="x">',
        "<function=x>{}</function>",
        '[TOOL_CALLS][{"name": "x", "arguments": {}}]',
    ],
)
def test_markup_alone_counts_as_empty(text: str) -> None:
    assert strip_call_markup(text) == ""
    assert strip_call_markup(f"\nThe answer is 4.\n\n{text}") == "The answer is 4."


@pytest.mark.parametrize(
    "text", ["", "text", " a < b [x] ", f"`<tool_call>{CALL}</tool_call>`", f"```json\n{CALL}\n```"]
)
def test_text_without_markup_is_left_alone(text: str) -> None:
    assert strip_call_markup(text) == text


def schema(name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"q": {"type": "string", "description": "für {x}"}}}
    return {"type": "function", "function": {"name": name, "description": f"About {name}.", "parameters": parameters}}


def test_the_prompt_describes_every_tool_and_the_form_of_a_call() -> None:
    elsewhere = [{"type": "web_search"}, {"type": "x_20250101", "name": "x"}]
    prompt = tools_prompt([schema("search"), schema("now"), *elsewhere])
    lines = [line for line in prompt.splitlines() if line.startswith('{"name": ') and "description" in line]
    described = [json.loads(line) for line in lines]
    assert [each["name"] for each in described] == ["search", "now"]
    assert described[0] == schema("search")["function"]
    for word in ("<tool_call>", "</tool_call>", "<tool_result>", '"arguments"', "plain text", "reasoning", "several"):
        assert word in prompt


def test_the_example_in_the_prompt_is_a_call_in_our_own_parser() -> None:
    prompt = tools_prompt([schema("search")])
    block = prompt[prompt.index("<tool_call>") : prompt.index("</tool_call>") + len("</tool_call>")]
    parser = TextCallParser(["tool name"], protocol=True)
    (piece,) = parser.feed(block) + parser.flush()
    assert piece[0] == "call"
    assert (piece[1].name, piece[1].arguments) == ("tool name", {"parameter": "value"})


def test_no_tools_need_no_prompt() -> None:
    assert tools_prompt([]) == ""
    assert tools_prompt([{"type": "web_search"}]) == ""


HISTORY: list[BaseMessage] = [
    SystemMessage("Be brief.", id="s"),
    HumanMessage("What is x?", id="h1"),
    AIMessage(
        "I look.",
        id="a1",
        tool_calls=[{"name": "search", "args": {"q": "é"}, "id": "c1"}, {"name": "now", "args": {}, "id": "c2"}],
        additional_kwargs={"tool_calls": [{"id": "c1"}], "kept": 1},
    ),
    ToolMessage("found <tool_call>{}</tool_call>", tool_call_id="c1", id="t1"),
    ToolMessage("no </tool_result> clock", tool_call_id="c2", id="t2", status="error"),
    HumanMessage("go on", id="h2"),
    AIMessage("x is 4.", id="a2"),
]


def test_history_without_native_calls() -> None:
    before = [message.model_dump() for message in HISTORY]
    shown = render_for_text(HISTORY)
    assert [message.model_dump() for message in HISTORY] == before
    assert [(type(message), message.id) for message in shown] == [
        (SystemMessage, "s"),
        (HumanMessage, "h1"),
        (AIMessage, "a1"),
        (HumanMessage, "t1"),
        (AIMessage, "a2"),
    ]
    said = shown[2]
    assert isinstance(said, AIMessage)
    assert (said.tool_calls, said.additional_kwargs) == ([], {"kept": 1})
    assert str(said.text).startswith("I look.\n<tool_call>")
    assert calls(str(said.text)) == [("search", {"q": "é"}), ("now", {})]
    results = shown[3].content
    assert isinstance(results, str)
    assert results.count("<tool_result ") == results.count("</tool_result>") == 2
    assert '<tool_result name="search" call_id="c1">\nfound <tool_call>{}</tool_call>\n</tool_result>' in results
    assert '<tool_result name="now" call_id="c2" status="error">' in results
    assert results.endswith("\n\ngo on")
    assert render_for_text(shown) == shown


def test_text_that_already_holds_the_calls_stays_as_the_model_wrote_it() -> None:
    raw = f"<think>hm <tool_call>{CALL}</tool_call></think>So:\n<tool_call>{CALL}</tool_call>"
    call = {"name": "search", "args": {"q": "x"}, "id": "c"}
    (shown,) = render_for_text([AIMessage(raw, tool_calls=[call])])
    assert shown.content == raw
    edited = {**call, "args": {"q": "y"}}
    (shown,) = render_for_text([AIMessage(f"So:\n<tool_call>{CALL}</tool_call>", tool_calls=[edited])])
    assert calls(str(shown.text)) == [("search", {"q": "y"})]
    assert str(shown.text).startswith("So:")


def test_blocks_that_are_no_text_go_along_with_the_result() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    call = {"name": "search", "args": {}, "id": "c"}
    result = ToolMessage([{"type": "text", "text": "seen"}, image], tool_call_id="c")
    shown = render_for_text([AIMessage("", tool_calls=[call]), result, HumanMessage("and?")])
    blocks = shown[1].content
    assert len(shown) == 2
    assert isinstance(blocks, list)
    assert blocks[1] == image
    assert "seen" in str(blocks[0])
    assert blocks[2] == {"type": "text", "text": "and?"}
