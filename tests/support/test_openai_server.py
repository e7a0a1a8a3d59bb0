"""The scripted server against the real client, and its refusals one by one."""

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

import openai
import pytest

from tests.support.openai_server import (
    Line,
    Rules,
    ScriptedServer,
    Wait,
    broken,
    call,
    error,
    hanging,
    raw,
    refusal,
    say,
    text_frame,
)

Server = Callable[..., ScriptedServer]
USER = {"role": "user", "content": "hi"}


def client(server: ScriptedServer, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url, api_key="test-key", max_retries=0, **options)


def ask(server: ScriptedServer, messages: list[Any] | None = None, **fields: Any) -> Any:
    return client(server, timeout=5).chat.completions.create(model="m", messages=messages or [USER], **fields)


def text_of(stream: Any) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def test_text_streams_in_the_given_pieces(openai_server: Server) -> None:
    server = openai_server([say("Hello", chunks=["He", "llo"])])
    chunks = list(ask(server, stream=True, stream_options={"include_usage": True}))
    assert [each.choices[0].delta.content for each in chunks[1:3]] == ["He", "llo"]
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.total_tokens > 0
    server.done()


def test_usage_is_only_sent_when_asked_for_or_given(openai_server: Server) -> None:
    given = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    server = openai_server(
        [say("a"), say("a", usage=[given, given]), say("a", usage=given, usage_in_finish=True), say("a")]
    )
    assert [each.usage for each in ask(server, stream=True) if each.usage] == []
    assert len([each for each in ask(server, stream=True) if each.usage]) == 2
    assert [each.choices[0].finish_reason for each in ask(server, stream=True) if each.usage] == ["stop"]
    assert ask(server).usage.total_tokens > 0


def test_tool_calls_stream_in_fragments_and_come_whole_without_stream(openai_server: Server) -> None:
    step = call(("add", {"a": 1}), ("now", ""), text="First:", argument_chunk=3)
    server = openai_server([step, step])
    parts = [part for each in ask(server, stream=True) for part in each.choices[0].delta.tool_calls or []]
    assert json.loads("".join(part.function.arguments or "" for part in parts if part.index == 0)) == {"a": 1}
    message = ask(server).choices[0].message
    assert [(each.id, each.function.name, each.function.arguments) for each in message.tool_calls] == [
        ("call_0_add", "add", '{"a": 1}'),
        ("call_1_now", "now", ""),
    ]
    assert message.content == "First:"


def test_raw_fragments_keep_any_shape(openai_server: Server) -> None:
    server = openai_server([call({"id": "x", "name": "f"}, {"arguments": "{}"}, {"index": 7, "name": None})])
    frames = [json.loads(line[6:]) for line in server_lines(server) if line.startswith("data: {")]
    calls = [
        frame["choices"][0]["delta"]["tool_calls"][0]
        for frame in frames
        if "tool_calls" in frame["choices"][0]["delta"]
    ]
    assert calls == [
        {"id": "x", "function": {"name": "f"}},
        {"function": {"arguments": "{}"}},
        {"index": 7, "function": {"name": None}},
    ]


def server_lines(server: ScriptedServer, body: Any = None) -> list[str]:
    data = json.dumps(body or {"model": "m", "messages": [USER], "stream": True}).encode()
    with urlopen(HttpRequest(f"{server.url}/chat/completions", data), timeout=5) as answer:
        return [line.decode() for line in answer.read().splitlines()]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_details"])
def test_reasoning_goes_into_the_named_field(openai_server: Server, name: str) -> None:
    server = openai_server([say("4", reasoning="2 and 2", reasoning_field=name)])
    frames = "\n".join(server_lines(server))
    assert f'"{name}"' in frames
    assert "2 and 2" in frames


def test_inline_thinking_stands_before_the_text(openai_server: Server) -> None:
    server = openai_server([say("4", think="hm", chunks=2)])
    assert text_of(ask(server, stream=True)) == "<think>hm</think>4"


def test_errors_carry_status_body_and_headers(openai_server: Server) -> None:
    server = openai_server(
        [error(429, "slow down", headers={"Retry-After": "7"}), error(502, b"<html>"), error(400, {"detail": 1})]
    )
    with pytest.raises(openai.RateLimitError, match="slow down") as caught:
        ask(server)
    assert caught.value.response.headers["retry-after"] == "7"
    with pytest.raises(openai.InternalServerError):
        ask(server)
    with pytest.raises(openai.BadRequestError) as refused:
        ask(server)
    assert refused.value.response.json() == {"detail": 1}


@pytest.mark.parametrize("reset", [False, True])
def test_a_broken_stream_gives_its_first_pieces_and_then_fails(openai_server: Server, reset: bool) -> None:
    slow = say("abc", chunks=1).with_(chunk_delay=0.03)
    server = openai_server([broken(slow, after=2, reset=reset)])
    got: list[str] = []
    with pytest.raises(Exception) as caught:
        got.extend(each.choices[0].delta.content for each in ask(server, stream=True))
    assert "".join(got) == "ab"
    assert isinstance(caught.value, openai.APIConnectionError) or "http" in type(caught.value).__module__


def test_a_hanging_answer_times_out_and_the_leaving_client_is_noticed(openai_server: Server) -> None:
    server = openai_server([hanging(), hanging(say("abc", chunks=1), after=1)])
    for streamed in (False, True):
        with pytest.raises(openai.APITimeoutError):
            list(client(server, timeout=0.2).chat.completions.create(model="m", messages=[USER], stream=streamed))
    deadline = time.monotonic() + 3
    while not all(each.client_left for each in server.requests) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [each.client_left for each in server.requests] == [True, True]


def test_raw_streams_add_nothing(openai_server: Server) -> None:
    items = [": keep-alive\n\n", text_frame("a"), "event: noise\ndata: \n\n", 0.01, Line(b"data: [DONE]\n\n")]
    server = openai_server([raw(items), raw([])])
    lines = [each for each in server_lines(server) if each]
    assert lines[0] == ": keep-alive"
    assert lines[-1] == "data: [DONE]"
    assert len(lines) == 5
    assert server_lines(server) == []


def test_json_instead_of_a_stream_and_no_end(openai_server: Server) -> None:
    whole = {"choices": [{"message": {"role": "assistant", "content": "all"}}]}
    server = openai_server([say().with_(body=whole), say("x", finish=None).with_(done_marker=False)])
    assert json.loads(server_lines(server)[0]) == whole
    assert not any('finish_reason": "' in each or "DONE" in each for each in server_lines(server))


def test_requests_are_recorded_and_drift_is_a_500(openai_server: Server) -> None:
    server = openai_server([say("a")])
    ask(
        server,
        [{"role": "system", "content": "S"}, {"role": "user", "content": [{"type": "text", "text": "U"}]}],
        temperature=0,
    )
    request = server.requests[0]
    assert (request.roles, request.said("user"), request.body["temperature"]) == (["system", "user"], "U", 0)
    assert json.loads(request.raw) == request.body
    assert request.headers["authorization"] == "Bearer test-key"
    with pytest.raises(openai.InternalServerError, match="past the end"):
        ask(server)
    with pytest.raises(AssertionError, match="1 request"):
        server.done()


def test_unused_steps_are_named(openai_server: Server) -> None:
    server = openai_server([say("never")])
    with pytest.raises(AssertionError, match="say 'never'"):
        server.done()


def test_a_function_may_be_the_script_or_a_step(openai_server: Server) -> None:
    server = openai_server(lambda request: say(f"{len(request.messages)} messages"))
    assert ask(server).choices[0].message.content == "1 messages"
    assert ask(server, [USER, USER]).choices[0].message.content == "2 messages"
    server.done()


def test_many_threads_each_get_one_step(openai_server: Server) -> None:
    server = openai_server([say(str(n)).with_(delay=0.02) for n in range(20)])
    barrier = threading.Barrier(10)

    def one(_: int) -> str:
        barrier.wait(5)
        return str(ask(server).choices[0].message.content)

    with ThreadPoolExecutor(10) as pool:
        got = [*pool.map(one, range(10)), *pool.map(one, range(10))]
    assert sorted(got, key=int) == [str(n) for n in range(20)]
    server.done()


def test_a_wrong_key_and_a_wrong_path_are_refused(openai_server: Server) -> None:
    server = openai_server([], api_key="right")
    with pytest.raises(openai.AuthenticationError):
        ask(server)
    with pytest.raises(openai.NotFoundError):
        client(server).embeddings.create(model="m", input="x")
    assert [each.id for each in client(server).models.list()] == ["scripted"]
    assert not server.drift


def test_a_waiting_stream_goes_on(openai_server: Server) -> None:
    step = say("ab", chunks=1)
    server = openai_server([step.with_(items=(step.items[0], Wait(0.05), step.items[1]))])
    assert text_of(ask(server, stream=True)) == "ab"


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASSISTANT = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
SYSTEM = {"role": "system", "content": "s"}


def with_call(**changes: Any) -> dict[str, Any]:
    return {**ASSISTANT, "tool_calls": [{**CALL, **changes}]}


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([USER, RESULT], "must answer a preceding"),
        ([USER, ASSISTANT, USER], "no response for: c1"),
        ([USER, ASSISTANT], "must not be from the assistant"),
        ([USER, ASSISTANT, RESULT, RESULT], "must answer a preceding"),
        ([USER, with_call(function={"name": "f", "arguments": '{"a": '}), RESULT], "valid JSON"),
        ([USER, with_call(function={"name": "f", "arguments": "[1]"}), RESULT], "JSON object"),
        ([USER, with_call(function={"name": "", "arguments": "{}"}), RESULT], "function name"),
        ([USER, {**ASSISTANT, "tool_calls": [CALL, CALL]}, RESULT, RESULT], "not unique"),
        ([SYSTEM, SYSTEM, USER], "only one system"),
        ([USER, SYSTEM, USER], "at the beginning"),
        ([SYSTEM], "not be a system message"),
        ([USER, {"role": "assistant", "content": "a"}], "must not be from the assistant"),
        ([{"role": "user", "content": ""}], "must not be empty"),
        ([{"role": "user", "content": [{"type": "text", "text": " "}]}], "non-empty"),
        ([USER, ASSISTANT, {**RESULT, "content": [{"type": "text", "text": "x"}]}], "must be a string"),
        ([{"role": "user", "content": "a\0b"}], "not valid text"),
        ([{"role": "user", "content": "a\ud800b"}], "not valid text"),
        ([], "at least one message"),
    ],
)
def test_strict_servers_refuse(messages: list[Any], words: str) -> None:
    refused = refusal({"model": "m", "messages": messages}, Rules(strict=True))
    assert refused is not None
    assert words in refused.message
    assert refused.status == 400


def test_strict_servers_take_a_valid_conversation(openai_server: Server) -> None:
    server = openai_server([say("fine")], strict=True, alternate_roles=True)
    text = "backslash \\u0000 in words is text"
    assert (
        ask(server, [SYSTEM, {"role": "user", "content": text}, ASSISTANT, RESULT]).choices[0].message.content == "fine"
    )
    server.done()


@pytest.mark.parametrize(
    ("rules", "fields", "param"),
    [
        ({"no_tools": True}, {"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"no_tool_choice": True}, {"tool_choice": "none"}, "tool_choice"),
        ({"no_stream_options": True}, {"stream_options": {"include_usage": True}}, "stream_options"),
        ({"no_temperature": True}, {"temperature": 0.1}, "temperature"),
        ({"alternate_roles": True}, {"messages": [USER, USER]}, "messages"),
        ({"max_context": 20}, {"messages": [{"role": "user", "content": "long " * 50}]}, "messages"),
        ({"strict": True}, {"tools": []}, "tools"),
        ({"strict": True}, {"tool_choice": "auto"}, "tool_choice"),
    ],
)
def test_single_habits_are_refused_and_use_up_no_step(
    openai_server: Server, rules: dict[str, Any], fields: dict[str, Any], param: str
) -> None:
    server = openai_server([say("fine")], **rules)
    with pytest.raises(openai.BadRequestError) as caught:
        client(server).post(
            "/chat/completions",
            body={"model": "m", "messages": [USER], **fields},
            cast_to=openai.types.chat.ChatCompletion,
        )
    assert caught.value.body["param"] == param  # type: ignore[index]
    assert server.requests[0].refused is not None
    assert ask(server).choices[0].message.content == "fine"
    server.done()
