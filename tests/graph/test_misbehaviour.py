"""A server that misbehaves in every way that is known: each ends as documented, and the thread goes on.

Every row of TABLE is one kind. For each: the turn ends with the row's status and stop reason (or raises ProviderError,
which the receipt then calls error/provider_error), every request carries a history that the strict validator takes,
every call is answered once, half a call never runs, and the next turn on the same thread is answered.
"""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.support.openai_server import (
    Break,
    Frame,
    Line,
    Request,
    Step,
    broken,
    call,
    error,
    hanging,
    raw,
    say,
    text_frame,
)
from tests.support.strict import assert_valid_history
from tests.support.turns import check_turn, run, thread
from tests.support.wire import client
from turngraph.graph import ProviderError, TurnSettings, build_turn_graph
from turngraph.llm.call import ModelRequest


@dataclass(frozen=True)
class Row:
    """What the server does, request by request, and how the turn ends. `ran`: the calls that the tool saw."""

    steps: list[Step | Callable[[Request], Step]]
    ends: str = "completed/finish"
    answer: str = "Fine."
    ran: list[str] = field(default_factory=list)
    rules: dict[str, Any] = field(default_factory=dict)
    settings: TurnSettings | None = None
    exact: bool = True
    system: bool = True


FINE = say("Fine.", chunks=2)
LOOK = call(("look", {"place": "yard"}), ids=["c-yard"], text="Looking.")
SOON = {"Retry-After": "0"}
MARKUP = '<tool_call>{"name": "look", "arguments": {"place": "yard"}}</tool_call>'
DSML = '<｜DSML｜function_calls><｜DSML｜invoke name="look"><｜DSML｜parameter name="place">yard</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>'
WHOLE = {
    "id": "x",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Fine."}, "finish_reason": "stop"}],
}
RAISED = "error/provider_error"
OVERFLOW = error(
    400,
    {
        "error": {
            "message": "the request exceeds the available context size, try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 9000,
            "n_ctx": 4096,
        }
    },
)


def frames(*items: Any, finish: str | None = "stop") -> Step:
    """Items, then an ordinary end."""
    return Step(tuple(items), finish=finish, usage={"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35})


def raw_call(**delta: Any) -> Step:
    return call({"index": 0, "id": "c1", **delta})


def refuse(words: str, when: Callable[[Request], bool], then: Step) -> Callable[[Request], Step]:
    return lambda request: error(400, words) if when(request) else then


def choice(index: int, *, finish: str | None = None, **delta: Any) -> Frame:
    """A frame with a delta of that choice."""
    return Frame({"choices": [{"index": index, "delta": delta, "finish_reason": finish}]})


def say_line(text: str) -> str:
    return f"data: {json.dumps(text_frame(text), ensure_ascii=False)}\n\n"


FINE_LINE = say_line("Fine.")
TINY = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"place": "yard"}'}}


def gzipped(part: float) -> Step:
    """A stream that is compressed as a whole, and so much of it, in two pieces."""
    lines = [say_line("Fi"), say_line("ne."), f"data: {json.dumps(choice(0, finish='stop').data)}\n\n"]
    data = gzip.compress("".join(lines).encode())
    data = data[: int(len(data) * part)]
    return raw([data[:20], data[20:]], headers={"Content-Encoding": "gzip"})


def cut(n: int) -> Step:
    return call({"index": 0, "id": f"cut{n}", "name": "look", "arguments": '{"place": "ya'}, finish="length")


TABLE: dict[str, Row] = {
    # --- HTTP and the connection
    "busy once": Row([error(503, "busy", headers=SOON), FINE]),
    "busy for ever": Row([error(503, headers=SOON)] * 3, RAISED),
    "rate limit once": Row([error(429, "Rate limit reached", headers=SOON), FINE]),
    "rate limit for ever": Row([error(429, "Rate limit reached", headers=SOON)] * 3, RAISED),
    "bad key": Row([error(401, "Incorrect API key provided")], RAISED),
    "no credit": Row([error(402, "Insufficient Balance")], RAISED),
    "no such model": Row([error(404, "The model does not exist")], RAISED),
    "bad request after work": Row([LOOK, error(400, "odd"), FINE], "incomplete/provider_error", ran=["yard"]),
    "bad requests for ever after work": Row(
        [LOOK, error(400, "odd"), error(400, "odd"), error(400, "odd"), error(400, "odd")],
        "incomplete/provider_error",
        "yard is empty",
        ["yard"],
        exact=False,
    ),
    "a page of HTML for an error": Row(
        [Step(status=502, body=b"<html>Bad Gateway</html>", headers={"Content-Type": "text/html"}), FINE]
    ),
    "a page of HTML for an answer": Row(
        [Step(body=b"<html>hello</html>", headers={"Content-Type": "text/html"}), FINE]
    ),
    "an empty body": Row([Step(body=b""), FINE]),
    "JSON to a request for a stream": Row([Step(body=WHOLE), Step(body=WHOLE)]),
    "an error as a body of 200": Row([Step(body={"error": {"message": "upstream overloaded", "code": 503}}), FINE]),
    "the connection is reset before a word": Row([frames(Break(reset=True)), FINE]),
    "the connection closes before a word": Row([frames(Break()), FINE]),
    "silence before a word": Row([hanging(say("")), FINE]),
    "no answer at all": Row([hanging(), FINE]),
    # --- streams that stop in the middle
    "broken after text": Row([broken(say("The first ha", chunks=4)), FINE], "incomplete/provider_error"),
    "reset after text": Row([broken(say("The first ha", chunks=4), reset=True), FINE], "incomplete/provider_error"),
    "silence after text": Row([hanging(say("The first ha", chunks=4)), FINE], "incomplete/provider_error"),
    "broken twice": Row(
        [broken(say("The first ha", chunks=4)), broken(say("Again ha", chunks=4))],
        "incomplete/provider_error",
        "Again ha",
    ),
    "broken in the reasoning": Row([broken(say("", reasoning="hm hm", chunks=2)), FINE]),
    "broken in a think block": Row([broken(say("<think>hm hm", chunks=2)), FINE]),
    "broken in a call": Row([broken(call(("look", {"place": "yard"}), argument_chunk=3), after=3), FINE]),
    "broken in a call after text": Row(
        [broken(call(("look", {"place": "yard"}), text="I look.", argument_chunk=3), after=3), FINE],
        "incomplete/provider_error",
    ),
    "an error frame before a word": Row([raw([{"error": {"message": "overloaded", "code": 503}}]), FINE]),
    "an error frame after text": Row(
        [raw([text_frame("The first ha"), {"error": {"message": "overloaded", "code": 503}}]), FINE],
        "incomplete/provider_error",
    ),
    "no finish reason after half a text": Row(
        [say("Fi", finish=None, end_frame=False, usage=None), say("ne.")], "completed/finish"
    ),
    "never a finish reason": Row(
        [say("Fi", finish=None, end_frame=False), say("ne.", finish=None, end_frame=False)], "incomplete/truncated"
    ),
    "no finish reason in half a call": Row([call(("look", '{"place": "ya'), finish=None, end_frame=False), FINE]),
    "nothing but the end marker": Row([raw(["data: [DONE]\n\n"]), FINE]),
    # --- frames
    "comments and keep-alives": Row(
        [frames(Line(": ping\n\n"), {"content": "Fi"}, Line(": ping\n\n"), {"content": "ne."})]
    ),
    "a frame that is no JSON before a word": Row([frames(Line("data: {not json\n\n")), FINE]),
    "a frame that is no JSON after text": Row(
        [frames({"content": "The first"}, Line("data: {not json\n\n")), FINE], "incomplete/provider_error"
    ),
    "bytes that are no UTF-8": Row([frames(Line(b"data: \xff\xfe\n\n")), FINE]),
    "CRLF between lines": Row([frames(Line("data: " + json.dumps(text_frame("Fine.")) + "\r\n\r\n"))]),
    "null and missing parts": Row(
        [
            frames(
                Frame({"choices": []}),
                Frame({"choices": None}),
                Frame({"choices": [{"index": 0, "delta": None}]}),
                Frame({"choices": [{"index": 0}]}),
                {"content": None},
                {"content": "Fine."},
                {"tool_calls": None},
                {"tool_calls": []},
                {"role": None},
                {},
                finish="stop",
            )
        ]
    ),
    "content as blocks": Row(
        [frames({"content": [{"type": "text", "text": "Fi"}]}, {"content": [{"type": "text", "text": "ne."}]})]
    ),
    "content of a wrong type": Row(
        [frames({"content": 7}, {"content": {"a": 1}}, {"content": "Fine."}, {"content": [3]})]
    ),
    "text after the finish frame": Row(
        [
            frames(
                {"content": "Fi"},
                Frame({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
                {"content": "ne."},
            )
        ]
    ),
    "the finish frame twice": Row(
        [frames({"content": "Fine."}, Frame({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))]
    ),
    "one frame of a megabyte": Row([say("x" * 1_000_000)], answer="x" * 1_000_000),
    "NUL and lone surrogates": Row(
        [frames({"content": "Fi\x00"}, {"content": "n\ud800e."})], answer="ne.", exact=False
    ),
    "a wrong role": Row([frames({"role": "user", "content": "Fi"}, {"role": "tool", "content": "ne."})]),
    "a refusal in its own field": Row([frames({"refusal": "I will "}, {"refusal": "not."})], answer="I will not."),
    "a character split over two frames": Row(
        [frames({"content": "Fi\ud83d"}, {"content": "\ude00ne."})], answer="Fi😀ne."
    ),
    "half a character, then the end": Row([frames({"content": "Fine."}, {"content": "\ud83d"})]),
    "a character split in the reasoning": Row(
        [frames({"reasoning_content": "h\ud83d"}, {"reasoning_content": "\ude00m"}, {"content": "Fine."})]
    ),
    "a delta that is text": Row([frames(Frame({"choices": [{"index": 0, "delta": "Fi"}]}), {"content": "Fine."})]),
    "a choice that is null": Row([frames(Frame({"choices": [None]}), {"content": "Fine."})]),
    "choices as an object": Row([frames(Frame({"choices": {"0": {"delta": {}}}}), {"content": "Fine."})]),
    "two answers at once": Row(
        [
            frames(
                *(choice(n, role="assistant") for n in (0, 1)),
                choice(0, content="Fi"),
                choice(1, content="No"),
                Frame(
                    {"choices": [*(choice(n, content=text).data["choices"][0] for n, text in ((1, "t."), (0, "ne.")))]}
                ),
                choice(1, finish="length"),
            )
        ]
    ),
    "a second answer after the end of the first": Row(
        [frames({"content": "Fine."}, choice(0, finish="stop"), choice(1, content="No."), choice(1, finish="length"))]
    ),
    "chunks numbered as choices": Row(
        [raw([*(choice(n, content=text) for n, text in enumerate(("F", "i", "n", "e."), 1)), choice(5, finish="stop")])]
    ),
    "the whole message once more at the end": Row(
        [
            frames(
                {"content": "Fi"},
                {"content": "ne."},
                Frame(
                    {
                        "choices": [
                            {
                                "index": 0,
                                "delta": {},
                                "message": {"role": "assistant", "content": "Fine."},
                                "finish_reason": "stop",
                            }
                        ]
                    }
                ),
            )
        ]
    ),
    "usage alone, first, without choices, in each frame": Row(
        [
            frames(
                Frame({"choices": [], "usage": TINY}),
                Frame({"usage": TINY}),
                Frame({"choices": [{"index": 0, "delta": {"content": "Fi"}}], "usage": TINY}),
                Frame({"choices": [{"index": 0, "delta": {"content": "ne."}}], "usage": None}),
            )
        ]
    ),
    "ten thousand deltas": Row([say("ab" * 10_000, chunks=2)], answer="ab" * 10_000),
    "one frame of five megabytes": Row([say("x" * 5_000_000)], answer="x" * 5_000_000),
    # --- server-sent events
    "events without data": Row(
        [
            frames(
                Line("retry: 100\nid: 7\n\n"),
                Line("event: ping\n\n"),
                Line("data:\n\n"),
                Line("data: \n\n"),
                {"content": "Fi"},
                Line("id: 8\n\n"),
                Line(": ping\n\n"),
                {"content": "ne."},
            )
        ]
    ),
    "events with names and data": Row(
        [frames(Line("event: ping\ndata: {}\n\n"), Line(f"event: message\n{FINE_LINE}"))]
    ),
    "a frame over two data lines": Row(
        [frames(Line('data: {"choices": [{"index": 0,\ndata: "delta": {"content": "Fine."}}]}\n\n'))]
    ),
    "no space after data": Row([frames(Line(FINE_LINE.replace("data: ", "data:")))]),
    "CR alone between lines": Row([frames(Line(FINE_LINE.replace("\n", "\r")))]),
    "a byte order mark": Row([raw([b"\xef\xbb\xbf", FINE_LINE, choice(0, finish="stop")])]),
    "frames cut at every byte": Row(
        [raw([*(bytes([byte]) for byte in say_line("Fi漢😀ne.").encode()), choice(0, finish="stop")])],
        answer="Fi漢😀ne.",
    ),
    "no blank line after the last frame": Row(
        [
            raw(
                [
                    text_frame("Fi"),
                    'data: {"choices": [{"index": 0, "delta": {"content": "ne."}, "finish_reason": "stop"}]}',
                ]
            )
        ]
    ),
    "the end in the middle of a frame": Row([raw([text_frame("Fi"), 'data: {"choices": [{"ind']), say("ne.")]),
    "the end in the middle of a character": Row(
        [raw([text_frame("Fi"), b'data: {"choices": [{"index": 0, "delta": {"content": "n\xc3']), say("ne.")]
    ),
    "frames that are no objects": Row(
        [
            frames(
                *(Line(f"data: {each}\n\n") for each in ("null", "[]", "[1]", "7", '"hi"', "true")),
                {"content": "Fine."},
            )
        ]
    ),
    "frames after the end marker": Row(
        [
            raw(
                [
                    text_frame("Fine."),
                    choice(0, finish="stop"),
                    "data: [DONE]\n\n",
                    text_frame("No."),
                    "data: [DONE]\n\n",
                ]
            )
        ]
    ),
    "the end marker before the end": Row([raw([text_frame("Fi"), "data: [DONE]\n\n"]), say("ne.")]),
    "a stream in gzip": Row([gzipped(1.0)]),
    "a stream in gzip that is cut": Row([gzipped(0.7), FINE], exact=False),
    "a stream that says it is in gzip": Row(
        [raw([FINE_LINE], headers={"Content-Encoding": "gzip"}), FINE],
    ),
    "a stream under another type": Row(
        [raw([FINE_LINE, choice(0, finish="stop")], headers={"Content-Type": "text/plain"})]
    ),
    # --- errors inside a stream of status 200
    "an error beside an empty choice, after text": Row(
        [
            raw(
                [
                    text_frame("The first ha"),
                    {
                        "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
                        "error": {"code": 502, "message": "Provider disconnected"},
                    },
                ]
            ),
            FINE,
        ],
        "incomplete/provider_error",
    ),
    "an error inside the choice, after text": Row(
        [
            raw(
                [
                    text_frame("Fi"),
                    {"choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": {"code": 502}}]},
                ]
            ),
            say("ne."),
        ]
    ),
    "a rate limit inside the stream": Row(
        [raw([{"error": {"code": 429, "message": "Rate limited", "metadata": {"raw": "slow down"}}}]), FINE]
    ),
    "an error that is text, before a word": Row([raw([{"error": "overloaded"}]), FINE]),
    "an error that is text, after text": Row(
        [raw([text_frame("The first ha"), {"error": "overloaded"}]), FINE], "incomplete/provider_error"
    ),
    # --- no answer behind a good status
    "no content": Row([Step(status=204, body=b""), FINE]),
    "accepted and nothing more": Row([Step(status=202, body=b""), FINE]),
    "a redirect without a place": Row([Step(status=302, body=b""), FINE]),
    "a redirect to itself": Row([Step(status=307, body=b"", headers={"Location": "/v1/chat/completions"}), FINE]),
    "a redirect that forgets the question": Row(
        [Step(status=302, body=b"", headers={"Location": "/v1/chat/completions"})], RAISED
    ),
    "a whole answer without choices": Row([Step(body={"choices": []}), FINE]),
    "a page of HTML in a stream": Row([raw(["<html><body>gateway</body></html>\n"]), FINE]),
    # --- the end of the output
    "a word for the end that nobody knows": Row([say("Fine.", finish="banana")]),
    "filtered after text": Row([say("Fine.", finish="content_filter")], "incomplete/truncated"),
    "filtered before a word": Row([say("", finish="content_filter"), FINE]),
    "cut and continued": Row([say("Fi", finish="length"), say("n", finish="max_tokens"), say("e.")]),
    "cut for ever": Row(
        [say("a", finish="length"), say("b", finish="length"), say("c", finish="length")], "incomplete/truncated", "abc"
    ),
    # --- nothing to read
    "empty once": Row([say(""), FINE]),
    "empty for ever": Row([say("")] * 3, "incomplete/empty_response", "no visible text", exact=False),
    "white space for ever": Row([say(" \n\t ")] * 3, "incomplete/empty_response", "no visible text", exact=False),
    "reasoning for ever": Row(
        [say("", reasoning="hm")] * 3, "incomplete/empty_response", "no visible text", exact=False
    ),
    "an open think block for ever": Row(
        [say("<think>hm", finish="length")] * 3, "incomplete/empty_response", "no visible text", exact=False
    ),
    "empty after text and work": Row([LOOK, say(""), say("")], "incomplete/empty_response", "Looking.", ["yard"]),
    # --- calls
    "a tool that does not exist": Row([call(("fetch", {"url": "x"})), FINE]),
    "names that are none": Row([call(("invalid tool", {}), ("", {}), ("look", {"place": "yard"})), FINE], ran=["yard"]),
    "one id for two calls": Row(
        [call(("look", {"place": "a"}), ("look", {"place": "b"}), ids=["same", "same"]), FINE], ran=["a", "b"]
    ),
    "the id of an earlier round": Row([LOOK, LOOK, FINE], ran=["yard", "yard"]),
    "no ids": Row([call(("look", {"place": "a"}), ("look", {"place": "b"}), ids=[None, None]), FINE], ran=["a", "b"]),
    "an id of the wrong type": Row(
        [call({"index": 0, "id": 7, "name": "look", "arguments": '{"place": "a"}'}), FINE], ran=["a"]
    ),
    "one index for two calls": Row(
        [
            call(
                {"index": 0, "name": "look", "arguments": '{"place": "a"}'},
                {"index": 0, "name": "look", "arguments": '{"place": "b"}'},
            ),
            FINE,
        ],
        ran=["a", "b"],
    ),
    "indexes as text, with gaps": Row(
        [
            call(
                {"index": "3", "id": "x", "name": "look", "arguments": '{"place": '},
                {"index": "3", "arguments": '"a"}'},
            ),
            FINE,
        ],
        ran=["a"],
    ),
    "a name in every fragment": Row(
        [
            call(
                {"index": 0, "id": "x", "name": "look", "arguments": '{"place": '},
                {"index": 0, "name": "look", "arguments": '"a"}'},
            ),
            FINE,
        ],
        ran=["a"],
    ),
    "arguments as text in text": Row([raw_call(name="look", arguments=json.dumps('{"place": "a"}')), FINE], ran=["a"]),
    "arguments as an object": Row([raw_call(name="look", arguments={"place": "a"}), FINE], ran=["a"]),
    "arguments that are no object": Row([raw_call(name="look", arguments="[1, 2]"), FINE]),
    "arguments that are no JSON": Row([raw_call(name="look", arguments='{"place": tru'), FINE]),
    "blank arguments": Row([raw_call(name="look", arguments=""), FINE]),
    "arguments of a wrong shape": Row([raw_call(name="look", arguments='{"spot": "a"}'), FINE]),
    "arguments nested a thousand deep": Row(
        [raw_call(name="look", arguments='{"place": ' + "[" * 1_000 + "]" * 1_000 + "}"), FINE]
    ),
    "a number that no store takes": Row([raw_call(name="look", arguments='{"place": ' + "9" * 400 + "}"), FINE]),
    "NaN in the arguments": Row([raw_call(name="look", arguments='{"place": NaN}'), FINE]),
    "NUL and surrogates in the arguments": Row(
        [raw_call(name="look", arguments='{"place": "a\\u0000\\ud800b"}'), FINE], ran=["ab"]
    ),
    "the old function_call": Row(
        [
            frames(
                {"function_call": {"name": "look", "arguments": '{"place": '}},
                {"function_call": {"arguments": '"a"}'}},
                finish="function_call",
            ),
            FINE,
        ],
        ran=["a"],
    ),
    "calls and the reason stop": Row([call(("look", {"place": "a"}), finish="stop"), FINE], ran=["a"]),
    "calls that are cut for ever": Row([cut(1), cut(2), cut(3), FINE], "incomplete/truncated"),
    "more calls than allowed": Row(
        [call(*(("look", {"place": str(n)}) for n in range(6))), FINE],
        "incomplete/max_tool_calls",
        ran=["0", "1", "2", "3"],
        settings=TurnSettings(max_tool_calls=4),
    ),
    "the same call for ever": Row(
        [*(call(("look", {"place": "yard"}), ids=[f"same{n}"]) for n in range(4)), FINE],
        "incomplete/no_progress",
        ran=["yard"] * 4,
    ),
    "a call when told to finish": Row(
        [LOOK, call(("look", {"place": "yard"}))],
        "incomplete/max_rounds",
        "yard is empty",
        ["yard"],
        settings=TurnSettings(max_rounds=1),
        exact=False,
    ),
    "calls after the finish frame": Row(
        [frames({"content": "I look."}, choice(0, finish="stop"), choice(0, tool_calls=[CALL])), FINE], ran=["yard"]
    ),
    "fragments of calls that are nothing": Row(
        [frames({"tool_calls": [None, {}, {"index": 0}, {"function": None}, {"index": 0, "id": 3}, CALL]}), FINE],
        ran=["yard"],
    ),
    "a character split in the arguments": Row(
        [
            call(
                {"index": 0, "id": "c", "name": "look", "arguments": '{"place": "\ud83d'},
                {"index": 0, "arguments": '\ude00"}'},
            ),
            FINE,
        ],
        ran=["😀"],
    ),
    # --- calls as text
    "a call written as text": Row([say(f"I look. {MARKUP}", chunks=1), FINE], ran=["yard"]),
    "a call in DSML": Row([say(DSML, chunks=2), FINE], ran=["yard"]),
    "a call as one fenced block": Row(
        [say('```json\n{"name": "look", "arguments": {"place": "yard"}}\n```', chunks=3), FINE], ran=["yard"]
    ),
    "a call drafted in the reasoning": Row([say(f"<think>{MARKUP}</think>Fine.")]),
    "a call quoted in code": Row([say(f"```\n{MARKUP}\n```")], answer=f"```\n{MARKUP}\n```"),
    "a call cut in its markup": Row([say('<tool_call>{"name": "look", "argum', finish="length"), FINE]),
    "markup when told to finish": Row(
        [LOOK, say(MARKUP)],
        "incomplete/max_rounds",
        "yard is empty",
        ["yard"],
        settings=TurnSettings(max_rounds=1),
        exact=False,
    ),
    # --- what it refuses
    "no tools": Row([say(MARKUP), FINE], ran=["yard"], rules={"no_tools": True}),
    "no tool_choice": Row(
        [LOOK, FINE],
        "incomplete/max_rounds",
        ran=["yard"],
        rules={"no_tool_choice": True},
        settings=TurnSettings(max_rounds=1),
    ),
    "no stream_options": Row([FINE], rules={"no_stream_options": True}),
    "no temperature": Row([FINE], rules={"no_temperature": True}, settings=TurnSettings(temperature=0.5)),
    "no max_completion_tokens": Row(
        [
            refuse(
                "Unsupported parameter: 'max_completion_tokens'. Use 'max_tokens' instead.",
                lambda r: "max_completion_tokens" in r.body,
                FINE,
            )
        ]
        * 2,
        settings=TurnSettings(max_output_tokens=100),
    ),
    "no streaming": Row(
        [refuse("Streaming is not supported for this model.", lambda r: bool(r.body.get("stream")), FINE)] * 2
    ),
    "roles must alternate": Row([LOOK, FINE], ran=["yard"], rules={"alternate_roles": True}),
    "no system message": Row(
        [refuse("System role not supported", lambda r: "system" in r.roles, FINE)] * 2, system=False
    ),
    "a generation that failed": Row(
        [
            error(
                400,
                {
                    "error": {
                        "message": "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.",
                        "type": "invalid_request_error",
                        "code": "tool_use_failed",
                    }
                },
            ),
            FINE,
        ]
    ),
    # --- the context
    "overflow once": Row([OVERFLOW, FINE]),
    "overflow for ever": Row([OVERFLOW] * 2, "incomplete/context_window", "does not fit", exact=False),
    "overflow after work": Row([LOOK, OVERFLOW, OVERFLOW], "incomplete/context_window", "Looking.", ["yard"]),
    "silent overflow once": Row([say("", finish="model_context_window_exceeded"), FINE]),
    "silent overflow for ever": Row(
        [say("", finish="model_context_window_exceeded")] * 2, "incomplete/context_window", "does not fit", exact=False
    ),
    "input cut silently": Row(
        [
            say("", finish="length", usage={"prompt_tokens": 32_700, "completion_tokens": 0, "total_tokens": 32_700}),
            FINE,
        ]
    ),
    # --- usage
    "usage that is NaN": Row(
        [
            frames(
                {"content": "Fine."},
                Line('data: {"choices": [], "usage": {"prompt_tokens": NaN, "completion_tokens": Infinity}}\n\n'),
            )
        ]
    ),
    "usage of odd types": Row(
        [say("Fine.", usage={"prompt_tokens": "7", "completion_tokens": -2, "total_tokens": [1]})]
    ),
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence and waiting for a second attempt take a moment only."""
    monkeypatch.setattr("turngraph.llm.call.FIRST_DELAY", 0.01)
    monkeypatch.setattr("turngraph.nodes.model_call.ModelRequest", partial(ModelRequest, idle_timeout=1.2))


def test_the_table_is_long_enough() -> None:
    assert len(TABLE) >= 40


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_every_kind_of_misbehaviour_ends_as_documented(openai_server: Any, row: Row) -> None:
    ran: list[str] = []

    def look(place: str) -> str:
        """Look at a place."""
        ran.append(place)
        return f"{place} is empty"

    server = openai_server(row.steps, strict=True, **row.rules)
    graph = build_turn_graph(client(server), [look], checkpointer=InMemorySaver())
    if row.ends == RAISED:
        with pytest.raises(ProviderError):
            run(graph, "go", thread(), context=row.settings)
    else:
        output, events = run(graph, "go", thread(), context=row.settings)
        receipt = output["receipt"]
        assert f"{receipt['status']}/{receipt['stop_reason']}" == row.ends, receipt
        assert output["answer"] == row.answer if row.exact else row.answer in output["answer"]
        assert (receipt["error"] is not None) == (receipt["stop_reason"] in ("provider_error", "context_window"))
        check_turn(output, events)
    assert sorted(ran) == sorted(row.ran)
    server.done()
    server.add(say("Next turn."))
    output, events = run(graph, "and now?", thread())
    assert (output["answer"], output["receipt"]["status"]) == ("Next turn.", "completed")
    check_turn(output, events)
    server.done()
    state = graph.get_state(thread())
    assert state.next == ()
    first, second = state.values["receipts"]
    assert f"{first['status']}/{first['stop_reason']}" == row.ends
    assert second == output["receipt"]
    for request in server.requests:
        assert_valid_history(request.messages, system=row.system or "system" in request.roles)
