"""stream_round: retries, refusals, broken and silent streams, against a real server and scripted models."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph

from tests.support.openai_server import ScriptedServer, Wait, broken, call, error, hanging, raw, say, text_frame
from turngraph.llm import call as call_module
from turngraph.llm.call import CallFailed, ModelRequest, RoundResult, StreamProgress, delay, stream_round
from turngraph.llm.profile import PROFILES, effective_profile
from turngraph.llm.scripted import ScriptedModel, ScriptedReply
from turngraph.state.settings import ModelProfile

Start = Callable[..., ScriptedServer]


@tool
def add(a: int, b: int = 0) -> int:
    """Adds."""
    return a + b


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing learned by one test reaches the next, and nobody waits."""
    monkeypatch.setattr(call_module, "FIRST_DELAY", 0.01)
    PROFILES.forget()


def plain(server: ScriptedServer, **fields: Any) -> ChatOpenAI:
    return ChatOpenAI(base_url=server.url, api_key="x", model="m", **fields)


class Shown:
    """What `on_delta` was given."""

    def __init__(self) -> None:
        self.deltas: list[tuple[str, str]] = []

    def __call__(self, kind: str, text: str) -> None:
        self.deltas.append((kind, text))

    def of(self, kind: str) -> str:
        return "".join(text for each, text in self.deltas if each == kind)


async def ask(
    model: BaseChatModel, shown: Shown | None = None, progress: StreamProgress | None = None, **request: Any
) -> RoundResult:
    shown = shown or Shown()
    request.setdefault("messages", [HumanMessage("hi")])
    result = await stream_round(model, ModelRequest(**request), shown, progress)
    assert shown.of("content") == result.message.text
    assert isinstance(result.message.content, str)
    return result


async def failure(model: BaseChatModel, shown: Shown | None = None, **request: Any) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        await ask(model, shown, **request)
    return caught.value


class TestResult:
    async def test_a_round_with_everything(self, openai_server: Start) -> None:
        server = openai_server([call(("add", {"a": 1}), text="Let me see.", think="hm", reasoning="first ", chunks=3)])
        shown = Shown()
        result = await ask(plain(server), shown, tools=[add])
        message = result.message
        assert message.content == "Let me see."
        assert message.additional_kwargs["reasoning_content"] == shown.of("thinking") == "first hm"
        assert message.additional_kwargs["raw_text"] == "<think>hm</think>Let me see."
        assert message.tool_calls == [{"name": "add", "args": {"a": 1}, "id": "call_0_add", "type": "tool_call"}]
        assert message.response_metadata["finish_reason"] == "tool_calls"
        assert message.response_metadata["model_name"] == result.model_name == "m"
        assert message.usage_metadata is not None
        assert message.usage_metadata["input_tokens"] == result.usage["input_tokens"] > 0
        assert (result.finish, result.cut, result.overflow, result.usage["estimated"]) == (
            "tool_calls",
            False,
            False,
            False,
        )

    async def test_plain_text_has_no_raw_text(self, openai_server: Start) -> None:
        result = await ask(plain(openai_server([say("a < b", chunks=1)])))
        assert "raw_text" not in result.message.additional_kwargs

    @pytest.mark.parametrize("finish", ["stop", "other", None])
    async def test_calls_count_whatever_the_finish_reason(self, finish: str | None) -> None:
        model = ScriptedModel([ScriptedReply("look", calls=[("add", {"a": 1})], finish=finish)])
        result = await ask(model, tools=[add])
        assert len(result.message.tool_calls) == 1
        assert result.problems == {}

    async def test_missing_usage_is_estimated_and_marked(self, openai_server: Start) -> None:
        def four_a_message(messages: Any) -> int:
            return 4 * len(messages)

        server = openai_server([say("ok", usage=None)])
        result = await ask(plain(server), estimate=four_a_message)
        assert result.usage == {"input_tokens": 4, "output_tokens": 4, "total_tokens": 8, "estimated": True}

    async def test_usage_in_every_frame_and_twice_at_the_end(self, openai_server: Start) -> None:
        totals = [{"prompt_tokens": 35, "completion_tokens": made, "total_tokens": 35 + made} for made in (0, 1, 2, 2)]
        server = openai_server(
            [raw([text_frame("x", usage=each) for each in totals], finish="stop", usage=[totals[3]] * 2)]
        )
        result = await ask(plain(server))
        assert (result.usage["input_tokens"], result.usage["output_tokens"]) == (35, 2)

    async def test_silent_overflow(self, openai_server: Start) -> None:
        usage = {"prompt_tokens": 1000, "completion_tokens": 0, "total_tokens": 1000}
        server = openai_server([say("", finish="length", usage=usage), say("", finish="model_context_window_exceeded")])
        assert (await ask(plain(server), window=1000)).overflow
        assert (await ask(plain(server), window=1000)).overflow

    async def test_no_finish_reason_is_cut_on_the_openai_wire_only(self, openai_server: Start) -> None:
        server = openai_server([raw([text_frame("Half a sen")])])
        result = await ask(plain(server))
        assert (result.message.content, result.cut, result.finish) == ("Half a sen", True, "missing")
        result = await ask(ScriptedModel([ScriptedReply("whole", finish=None)]))
        assert (result.cut, result.finish) == (False, "missing")


class TestRetries:
    @pytest.mark.parametrize("fault", [500, 502, 429, 408])
    async def test_what_may_pass_is_tried_again(self, openai_server: Start, fault: int) -> None:
        server = openai_server([error(fault), error(fault), say("ok")])
        assert (await ask(plain(server, max_retries=5))).message.content == "ok"
        server.done()

    async def test_retries_are_counted_here_only(self, openai_server: Start) -> None:
        server = openai_server([error(500)] * 9)
        failed = await failure(plain(server, max_retries=5), max_retries=1)
        assert (failed.fault.kind, failed.partial, len(server.requests)) == ("transport", None, 2)

    @pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (403, "auth"), (400, "invalid_request")])
    async def test_what_stays_is_not(self, openai_server: Start, status: int, kind: str) -> None:
        server = openai_server([error(status, "No.")] * 2)
        failed = await failure(plain(server))
        assert (failed.fault.kind, len(server.requests)) == (kind, 1)
        assert failed.__cause__ is not None

    async def test_overflow_is_handed_on_at_once(self, openai_server: Start) -> None:
        server = openai_server([say("never")], max_context=1)
        assert (await failure(plain(server))).fault.kind == "overflow"
        assert len(server.requests) == 1

    async def test_retry_after_is_honoured(self, openai_server: Start) -> None:
        server = openai_server([error(429, headers={"Retry-After": "1"}), say("ok")])
        began = time.monotonic()
        await ask(plain(server))
        assert 0.95 < time.monotonic() - began < 5

    def test_retry_after_has_a_bound_and_delays_grow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(call_module, "FIRST_DELAY", 0.5)
        assert delay(0, 60.0) == 60.0
        assert delay(0, 3600.0) <= 0.5
        for retries in range(12):
            wanted = min(8.0, 0.5 * 2**retries)
            assert wanted / 2 <= delay(retries, None) <= wanted

    async def test_a_failed_generation_keeps_the_tools(self, openai_server: Start) -> None:
        body = {"error": {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": "x"}}
        server = openai_server([error(400, body), call(("add", {"a": 1}))])
        await ask(plain(server), tools=[add])
        assert server.requests[1].tool_names == ["add"]

    async def test_programming_errors_are_not_repeated(self) -> None:
        model = ScriptedModel([TypeError("a bug"), "never"])
        assert (await failure(model)).fault.kind == "other"
        assert len(model.requests) == 1

    async def test_a_stream_that_says_nothing_is_tried_again(self, openai_server: Start) -> None:
        server = openai_server([raw([]), say("ok")])
        assert (await ask(plain(server))).message.content == "ok"

    async def test_a_server_that_answers_a_stream_request_with_one_body(self, openai_server: Start) -> None:
        message = {"role": "assistant", "content": "<think>t</think>whole"}
        body = {"id": "1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

        def answer(request: Any) -> Any:
            return say("x").with_(body=body)

        result = await ask(plain(openai_server(answer)))
        assert (result.message.content, result.message.additional_kwargs["reasoning_content"]) == ("whole", "t")


class TestBrokenStreams:
    @pytest.mark.parametrize("reset", [True, False])
    async def test_text_that_was_shown_is_kept_and_nothing_repeated(self, openai_server: Start, reset: bool) -> None:
        server = openai_server([broken(say("One two three", chunks=4), after=2, reset=reset), say("never")])
        shown = Shown()
        failed = await failure(plain(server), shown)
        assert failed.fault.kind == "transport"
        assert failed.partial is not None
        assert failed.partial.message.content == shown.of("content")
        assert shown.of("content").startswith("One") or not reset
        assert failed.partial.cut
        assert len(server.requests) == 1

    async def test_reasoning_alone_is_not_visible(self, openai_server: Start) -> None:
        server = openai_server([broken(say("", reasoning="long thought", chunks=3), after=2), say("ok")])
        assert (await ask(plain(server))).message.content == "ok"

    async def test_calls_alone_are_not_visible(self, openai_server: Start) -> None:
        server = openai_server([broken(call(("add", {"a": 1}), argument_chunk=2), after=2), call(("add", {"a": 1}))])
        assert (await ask(plain(server), tools=[add])).message.tool_calls[0]["args"] == {"a": 1}

    @pytest.mark.parametrize("reset", [True, False])
    async def test_a_connection_that_breaks_after_the_end_breaks_nothing(
        self, openai_server: Start, reset: bool
    ) -> None:
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        server = openai_server([broken(raw([text_frame("Whole."), last, 0.05]), reset=reset)])
        result = await ask(plain(server))
        assert (result.message.content, result.finish, result.cut) == ("Whole.", "stop", False)

    async def test_a_stream_that_stays_open_after_its_end(
        self, openai_server: Start, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("turngraph.llm.attempt.CLOSING_SECONDS", 0.2)
        last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        server = openai_server([hanging(raw([text_frame("Whole."), last]))])
        assert (await ask(plain(server))).message.content == "Whole."

    async def test_an_error_in_the_middle_of_a_stream(self, openai_server: Start) -> None:
        frame = {"error": {"message": "Overloaded", "type": "overloaded_error", "code": 503}}
        server = openai_server([raw([text_frame("Half"), frame])])
        failed = await failure(plain(server))
        assert failed.partial is not None
        assert (failed.fault.kind, failed.partial.message.content) == ("transport", "Half")

    async def test_incomplete_calls_are_left_out_of_what_is_kept(self) -> None:
        fragments = [
            {"name": "add", "args": '{"a": 1}', "id": "c1", "index": 0},
            {"name": "add", "args": '{"a', "id": "c2", "index": 1},
        ]
        model = ScriptedModel([ScriptedReply("Text.", calls=fragments, fault=ConnectionError("gone"))])
        failed = await failure(model, tools=[add])
        assert failed.partial is not None
        assert [each["id"] for each in failed.partial.message.tool_calls] == ["c1"]
        assert failed.partial.problems == {}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(["a", " b", "<think>", "</think>", "<", "\n", "`", '"', "[", "é"]), max_size=8),
            st.sampled_from([None, "transport", "auth"]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 3),
)
def test_what_is_shown_is_kept_and_never_repeated(attempts: list[tuple[list[str], str | None]], retries: int) -> None:
    faults = {None: None, "transport": ConnectionError("gone"), "auth": PermissionError("401 invalid api key")}
    replies = [ScriptedReply(chunks=pieces, fault=faults[fault]) for pieces, fault in attempts]
    model = ScriptedModel([*replies, "end"])
    shown = Shown()
    request = ModelRequest([HumanMessage("hi")], max_retries=retries)
    call_module.FIRST_DELAY, before = 0.0, call_module.FIRST_DELAY
    try:
        kept = asyncio.run(stream_round(model, request, shown)).message.text
    except CallFailed as failed:
        kept = failed.partial.message.text if failed.partial is not None else ""
    finally:
        call_module.FIRST_DELAY = before
    assert shown.of("content") == kept
    assert len(model.requests) <= retries + 1


class TestSilence:
    async def test_a_stream_that_stops_talking(self, openai_server: Start) -> None:
        server = openai_server([hanging(say("One two", chunks=4), after=1)])
        began = time.monotonic()
        failed = await failure(plain(server), idle_timeout=0.3)
        assert time.monotonic() - began < 3
        assert failed.partial is not None
        assert (failed.fault.kind, failed.partial.message.content) == ("transport", "One ")

    async def test_no_answer_at_all_is_tried_again(self, openai_server: Start) -> None:
        server = openai_server([hanging(), say("ok")])
        assert (await ask(plain(server), idle_timeout=0.3)).message.content == "ok"

    async def test_long_arguments_are_not_silence(self, openai_server: Start) -> None:
        step = call(("add", {"a": 1, "b": 123456}), argument_chunk=2, chunk_delay=0.1)
        result = await ask(plain(openai_server([step])), tools=[add], idle_timeout=0.5)
        assert result.message.tool_calls[0]["args"] == {"a": 1, "b": 123456}

    async def test_the_callers_own_deadline_passes_through(self, openai_server: Start) -> None:
        server = openai_server([hanging(say("One two", chunks=4), after=1)])
        progress = StreamProgress()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await ask(plain(server), progress=progress)
        partial = progress.partial()
        assert partial is not None
        assert partial.message.content == "One "


class TestCancellation:
    @pytest.mark.parametrize(
        ("text", "after", "kept"),
        [("Half a sentence", 2, "Half a s"), ("<think>thought", 2, ""), ("Text<think>thought", 3, "Text")],
    )
    async def test_what_was_shown_can_be_read(self, openai_server: Start, text: str, after: int, kept: str) -> None:
        server = openai_server([hanging(say(text, chunks=4), after=after)])
        progress, shown = StreamProgress(), Shown()
        assert progress.partial() is None
        task = asyncio.create_task(ask(plain(server), shown, progress, tools=[add]))
        while len(server.requests) < 1 or not (partial := progress.partial()) or partial.message.content != kept:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        partial = progress.partial()
        assert partial is not None
        assert partial.message.content == shown.of("content") == kept
        assert "raw_text" not in partial.message.additional_kwargs
        assert partial.cut
        await asyncio.sleep(0.1)
        assert server.requests[0].client_left

    async def test_before_the_first_chunk(self, openai_server: Start) -> None:
        progress = StreamProgress()
        task = asyncio.create_task(ask(plain(openai_server([hanging()])), progress=progress))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert progress.partial() is None


class TestRefusals:
    async def test_stream_options(self, openai_server: Start) -> None:
        server = openai_server([say("one"), say("two")], no_stream_options=True)
        model = plain(server)
        await ask(model)
        await ask(model)
        assert [request.refused is not None for request in server.requests] == [True, False, False]
        assert effective_profile(model, ModelProfile()).stream_usage is False

    async def test_temperature(self, openai_server: Start) -> None:
        server = openai_server([say("one"), say("two")], no_temperature=True)
        await ask(plain(server), temperature=0.2, max_retries=0)
        await ask(plain(server, temperature=0.7))
        assert [request.body.get("temperature") for request in server.requests] == [0.2, None, None]

    async def test_tool_choice_goes_and_the_tools_stay(self, openai_server: Start) -> None:
        server = openai_server([call(("add", {"a": 1})), say("done"), say("done")], no_tool_choice=True)
        model = plain(server)
        await ask(model, tools=[add])
        await ask(model, tools=[add], tool_choice="none")
        await ask(model, tools=[add], tool_choice="none")
        assert ["tool_choice" in request.body for request in server.requests] == [False, True, False, False]
        assert [len(request.tool_names) for request in server.requests] == [1, 1, 0, 0]

    async def test_a_named_tool_that_cannot_be_demanded(self, openai_server: Start) -> None:
        body = {
            "error": {"message": "Thinking mode does not support this tool_choice", "type": "invalid_request_error"}
        }
        server = openai_server([error(400, body), call(("add", {"a": 1}))])
        await ask(plain(server), tools=[add], only_tool="add")
        assert "tool_choice" in server.requests[0].body
        assert "tool_choice" not in server.requests[1].body
        assert server.requests[1].tool_names == ["add"]

    async def test_images_become_a_placeholder(self, openai_server: Start) -> None:
        body = {"error": {"message": "This model does not support image input", "type": "invalid_request_error"}}
        server = openai_server([error(400, body), say("ok")])
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        await ask(plain(server), messages=[HumanMessage([{"type": "text", "text": "look"}, image])])
        sent = server.requests[1].messages[0]["content"]
        assert [part["type"] for part in sent] == ["text", "text"]
        assert "image was here" in sent[1]["text"]

    async def test_max_tokens_by_its_other_name(self, openai_server: Start) -> None:
        body = {"error": {"message": "Unrecognized request argument supplied: max_completion_tokens"}}
        server = openai_server([error(400, body), say("ok"), say("ok")])
        model = plain(server)
        await ask(model, max_output_tokens=50)
        await ask(model, max_output_tokens=60)
        assert [request.body.get("max_tokens") for request in server.requests] == [None, 50, 60]
        assert "max_completion_tokens" not in server.requests[1].body

    async def test_reasoning_that_is_wanted_back(self, openai_server: Start) -> None:
        message = "The `reasoning_content` in the thinking mode must be passed back to the API."
        server = openai_server([error(400, {"error": {"message": message}}), say("ok")])
        said = AIMessage("a", additional_kwargs={"reasoning_content": "because"})
        await ask(plain(server), messages=[HumanMessage("hi"), said, HumanMessage("go on")])
        assert server.requests[1].messages[1]["reasoning_content"] == "because"

    async def test_roles_that_have_to_alternate(self, openai_server: Start) -> None:
        def reshape(profile: ModelProfile) -> list[BaseMessage]:
            assert profile.alternate_roles is True
            return [HumanMessage("one\n\ntwo")]

        server = openai_server([say("ok")], alternate_roles=True)
        model = plain(server)
        two = [HumanMessage("one"), HumanMessage("two")]
        await ask(model, messages=two, reshape=reshape)
        assert effective_profile(model, ModelProfile()).alternate_roles is True
        assert (await failure(model, messages=two)).fault.detail == "alternate_roles"

    async def test_what_is_refused_again_ends_the_call(self, openai_server: Start) -> None:
        body = {"error": {"message": "Unsupported parameter: 'temperature' is not supported with this model."}}
        server = openai_server([error(400, body)] * 9)
        failed = await failure(plain(server), temperature=0.5)
        assert (failed.fault.kind, len(server.requests)) == ("parameter_unsupported", 2)

    async def test_an_unknown_parameter_of_the_users(self, openai_server: Start) -> None:
        body = {
            "error": {"message": "Unsupported parameter: 'seed' is not supported with this model.", "param": "seed"}
        }
        server = openai_server([error(400, body), say("ok")])
        await ask(plain(server, seed=7))
        assert [request.body.get("seed") for request in server.requests] == [7, None]


class TestTextProtocol:
    CALL = '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'

    async def test_tools_refused(self, openai_server: Start) -> None:
        server = openai_server([say(f"Let me. {self.CALL}", chunks=5), say("done")], no_tools=True, strict=True)
        model = plain(server)
        result = await ask(model, tools=[add], messages=[SystemMessage("Be good."), HumanMessage("1 + 0?")])
        assert result.message.tool_calls[0]["args"] == {"a": 1}
        assert result.message.content.strip() == "Let me."
        assert "tools" not in server.requests[1].body
        assert "add" in server.requests[1].said("system")
        assert server.requests[1].said("system").startswith("Be good.")
        again = [
            HumanMessage("1 + 0?"),
            result.message,
            ToolMessage("1", tool_call_id=result.message.tool_calls[0]["id"]),
        ]
        await ask(model, tools=[add], messages=again)
        assert [request.refused is not None for request in server.requests] == [True, False, False]
        assert "tool" not in server.requests[2].roles

    async def test_history_is_text_for_calls_without_tools_too(self, openai_server: Start) -> None:
        server = openai_server([say("one"), say("two")], no_tools=True)
        model = plain(server)
        await ask(model, tools=[add])
        said = AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1"}])
        await ask(model, messages=[HumanMessage("hi"), said, ToolMessage("1", tool_call_id="c1")])
        assert "tool" not in server.requests[-1].roles
        assert not any("tool_calls" in message for message in server.requests[-1].messages)

    async def test_tools_refused_in_streams_only(self, openai_server: Start) -> None:
        message = "This model doesn't support tool use in streaming mode."

        def answer(request: Any) -> Any:
            if request.body.get("stream") and request.tool_names:
                return error(400, message)
            return call(("add", {"a": 1})) if request.tool_names else say("text", chunks=1)

        server = openai_server(answer)
        model, shown = plain(server), Shown()
        for _ in range(2):
            assert (await ask(model, tools=[add])).message.tool_calls[0]["args"] == {"a": 1}
        await ask(model, shown)
        assert len(shown.deltas) == 4
        assert [bool(request.body.get("stream")) for request in server.requests] == [True, False, False, True]

    async def test_never(self, openai_server: Start) -> None:
        server = openai_server([say("x")], no_tools=True)
        assert (await failure(plain(server), tools=[add], text_tools="never")).fault.kind == "tools_unsupported"

    async def test_always(self, openai_server: Start) -> None:
        server = openai_server([say(self.CALL)])
        result = await ask(plain(server), tools=[add], text_tools="always")
        assert result.message.tool_calls[0]["name"] == "add"
        assert "tools" not in server.requests[0].body

    async def test_a_model_that_cannot_bind_tools(self) -> None:
        class Bare(ScriptedModel):
            def bind_tools(self, *_: Any, **__: Any) -> Any:
                raise NotImplementedError

        result = await ask(Bare([self.CALL]), tools=[add])
        assert result.message.tool_calls[0]["args"] == {"a": 1}

    async def test_native_markup_in_the_text_is_rescued(self, openai_server: Start) -> None:
        server = openai_server([say(self.CALL, chunks=3)])
        result = await ask(plain(server), tools=[add])
        assert (result.message.content, len(result.message.tool_calls)) == ("", 1)
        assert server.requests[0].tool_names == ["add"]


class TestNoTools:
    async def test_calls_that_come_anyway_are_dropped(self, openai_server: Start) -> None:
        server = openai_server([call(("add", {"a": 1}), text="So: ")])
        result = await ask(plain(server), tools=[add], tool_choice="none")
        assert (result.message.content, result.message.tool_calls, result.problems) == ("So: ", [], {})
        assert server.requests[0].body["tool_choice"] == "none"
        assert server.requests[0].tool_names == ["add"]

    @pytest.mark.parametrize("text_tools", ["auto", "never", "always"])
    async def test_markup_alone_is_empty(self, openai_server: Start, text_tools: str) -> None:
        markup = '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'
        server = openai_server([say(markup, chunks=4)])
        result = await ask(plain(server), tools=[add], tool_choice="none", text_tools=text_tools)
        assert (result.message.content.strip(), result.message.tool_calls) == ("", [])

    async def test_a_refusal_without_a_clear_reason(self, openai_server: Start) -> None:
        server = openai_server([error(400, "Bad."), error(400, "Still bad."), say("done"), call(("add", {"a": 1}))])
        model = plain(server)
        assert (await ask(model, tools=[add], tool_choice="none")).message.content == "done"
        assert [("tool_choice" in each.body, bool(each.tool_names)) for each in server.requests] == [
            (True, True),
            (False, False),
            (False, True),
        ]
        await ask(model, tools=[add])
        assert server.requests[3].tool_names == ["add"]


class WholeOnly(BaseChatModel):
    """A model that cannot stream."""

    @property
    def _llm_type(self) -> str:
        return "whole"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        message = AIMessage("<think>t</think>Whole.", response_metadata={"finish_reason": "stop"})
        return ChatResult(generations=[ChatGeneration(message=message)])


class TestOtherModels:
    async def test_a_model_that_cannot_stream(self) -> None:
        shown = Shown()
        result = await ask(WholeOnly(), shown)
        assert (result.message.content, shown.of("thinking")) == ("Whole.", "t")

    async def test_a_global_cache_is_not_asked(self) -> None:
        set_llm_cache(InMemoryCache())
        try:
            model = ScriptedModel(["one", "two"])
            assert [(await ask(model)).message.content for _ in range(2)] == ["one", "two"]
        finally:
            set_llm_cache(None)

    async def test_temperature_goes_to_the_field_that_the_model_has(self) -> None:
        seen: list[Any] = []

        class Warm(ScriptedModel):
            temperature: float | None = 0.9
            num_predict: int | None = None

            async def _astream(self, *args: Any, **kwargs: Any) -> Any:
                seen.append((self.temperature, self.num_predict))
                async for each in super()._astream(*args, **kwargs):
                    yield each

        model = Warm(["ok", "ok"])
        await ask(model, temperature=0.1, max_output_tokens=9)
        await ask(model)
        assert seen == [(0.1, 9), (0.9, None)]

    async def test_the_template_that_opens_the_block_is_learned(self, openai_server: Start) -> None:
        server = openai_server([say("thought</think>Answer")] * 2 + [say("no block at all")])
        model = plain(server)
        assert (await ask(model)).message.content == "thoughtAnswer"
        second = await ask(model)
        assert (second.message.content, second.message.additional_kwargs["reasoning_content"]) == ("Answer", "thought")
        assert (await ask(model)).message.content == ""
        assert effective_profile(model, ModelProfile()).opens_think is None

    def test_one_model_in_many_loops(self, openai_server: Start) -> None:
        server = openai_server(lambda request: say("ok", chunks=1))
        azure = AzureChatOpenAI(api_key="x", azure_endpoint=server.url, api_version="1", azure_deployment="m")
        for model in (plain(server), azure):
            for _ in range(3):
                assert asyncio.run(ask(model)).message.content == "ok"

    async def test_an_error_of_the_listener_is_the_callers_own(self) -> None:
        def broken_listener(*_: str) -> None:
            raise KeyError("mine")

        model = ScriptedModel(["one", "never"])
        with pytest.raises(KeyError, match="mine"):
            await stream_round(model, ModelRequest([HumanMessage("hi")]), broken_listener)
        assert model.left == 1

    async def test_garbage_in_a_stream(self, openai_server: Start) -> None:
        server = openai_server([raw([text_frame("Half"), "data: {nonsense\n\n"])])
        failed = await failure(plain(server))
        assert failed.partial is not None
        assert (failed.fault.kind, failed.partial.message.content) == ("transport", "Half")

    async def test_nothing_blocks_the_loop(self, openai_server: Start) -> None:
        from blockbuster import blockbuster_ctx

        server = openai_server([call(("add", {"a": 1})), say("ok")])
        model = plain(server)
        with blockbuster_ctx("turngraph"):
            await ask(model, tools=[add])
            await ask(model, tools=[add], tool_choice="none")


class TestLangGraphStreams:
    """The call runs inside a node: what LangGraph's own streams show of it."""

    @staticmethod
    def graph(model: BaseChatModel, **request: Any) -> Any:
        async def node(state: MessagesState) -> dict[str, Any]:
            result = await stream_round(model, ModelRequest(state["messages"], **request), lambda *_: None)
            return {"messages": [result.message]}

        return StateGraph(MessagesState).add_node("n", node).add_edge(START, "n").compile()

    REPLY = ScriptedReply("<think>secret</think>Hello there", chunks=3, calls=[("add", {"a": 1})])

    async def test_messages_mode(self) -> None:
        graph = self.graph(ScriptedModel([self.REPLY]), tools=[add])
        chunks = [each async for each, _ in graph.astream({"messages": [("user", "hi")]}, stream_mode="messages")]
        assert len(chunks) > 4
        assert len({each.id for each in chunks}) == 1
        assert "".join(each.text for each in chunks) == "Hello there"
        assert "<think>" not in repr(chunks)
        reasoning = [block for each in chunks for block in each.content_blocks if block["type"] == "reasoning"]
        assert "".join(block["reasoning"] for block in reasoning) == "secret"
        assert [call["name"] for each in chunks for call in each.tool_calls] == ["add"]

    @pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
    async def test_v3(self) -> None:
        graph = self.graph(ScriptedModel([self.REPLY]), tools=[add])
        run = await graph.astream_events({"messages": [("user", "hi")]}, version="v3")
        streams = []
        async for stream in run.messages:
            streams.append([event async for event in stream])
        assert len(streams) == 1
        assert "<think>" not in repr(streams)
        deltas = [event["delta"] for event in streams[0] if event["event"] == "content-block-delta"]
        texts = [delta["text"] for delta in deltas if delta["type"] == "text-delta"]
        assert len(texts) > 2
        assert "".join(texts) == "Hello there"
        state = await run.output()
        assert state["messages"][-1].content == "Hello there"

    @pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
    async def test_hidden_calls(self) -> None:
        async def node(state: MessagesState) -> dict[str, Any]:
            model = ScriptedModel(["a summary nobody sees"])
            await stream_round(model, ModelRequest(state["messages"], hidden=True), lambda *_: None)
            return {"messages": [AIMessage("seen")]}

        graph = StateGraph(MessagesState).add_node("n", node).add_edge(START, "n").compile()
        shown = [each async for each, _ in graph.astream({"messages": [("user", "hi")]}, stream_mode="messages")]
        assert [each.text for each in shown] == ["seen"]
        run = await graph.astream_events({"messages": [("user", "hi")]}, version="v3")
        events = [repr([event async for event in stream]) async for stream in run.messages]
        assert not any("summary" in each for each in events)

    async def test_a_broken_stream_does_not_show_its_message_twice(self) -> None:
        model = ScriptedModel([ScriptedReply("Half a sentence", chunks=4, fault=ConnectionError("gone"))])

        async def node(state: MessagesState) -> dict[str, Any]:
            with pytest.raises(CallFailed) as caught:
                await stream_round(model, ModelRequest(state["messages"]), lambda *_: None)
            assert caught.value.partial is not None
            return {"messages": [caught.value.partial.message]}

        graph = StateGraph(MessagesState).add_node("n", node).add_edge(START, "n").compile()
        chunks = [each async for each, _ in graph.astream({"messages": [("user", "hi")]}, stream_mode="messages")]
        assert "".join(each.text for each in chunks) == "Half a sentence"


async def test_waits_between_frames_do_not_change_the_text(openai_server: Start) -> None:
    step = say("abc", chunks=1)
    server = openai_server([step.with_(items=(*step.items[:1], Wait(0.05), *step.items[1:]))])
    assert (await ask(plain(server))).message.content == "abc"
