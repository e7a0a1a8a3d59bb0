"""TurnChatOpenAI against a real server: what it keeps, what it sends back, and that it works in every event loop."""

import asyncio
import gc
import json
import threading
import weakref
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_openai import AzureChatOpenAI, ChatOpenAI

from tests.support.openai_server import Frame, ScriptedServer, call, error, raw, say, text_frame
from turngraph.llm.call import ModelRequest, stream_round
from turngraph.llm.clean import clean_model
from turngraph.llm.loop_clients import LoopClients, clients_of
from turngraph.llm.structured import normalise_format
from turngraph.llm.wire import TurnChatOpenAI, WireOptions, from_chat_openai

Start = Callable[..., ScriptedServer]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}


def plain(server: ScriptedServer, **fields: Any) -> ChatOpenAI:
    return ChatOpenAI(base_url=server.url, api_key="x", model="m", **fields)


async def added_up(model: BaseChatModel, messages: Any = "hi", **kwargs: Any) -> AIMessageChunk:
    total = AIMessageChunk(content="")
    async for chunk in model.astream(messages, **kwargs):
        total = total + chunk
    return total


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
@pytest.mark.parametrize("streamed", [True, False])
async def test_reasoning_is_kept_and_written_back_in_its_field(openai_server: Start, name: str, streamed: bool) -> None:
    server = openai_server([say("Answer.", chunks=3, reasoning="because", reasoning_field=name), say("ok")])
    model = from_chat_openai(plain(server))
    said: AIMessage = await added_up(model) if streamed else await model.ainvoke("hi")
    assert said.text == "Answer."
    assert said.additional_kwargs["reasoning_content"] == "because"

    await model.with_options(WireOptions(reasoning_back=True)).ainvoke([HumanMessage("hi"), said, HumanMessage("more")])
    assert server.requests[1].messages[1][name] == "because"


async def test_reasoning_stays_here_unless_it_is_asked_for(openai_server: Start) -> None:
    server = openai_server([say("ok")])
    said = AIMessage("a", additional_kwargs={"reasoning_content": "secret thought"})
    await from_chat_openai(plain(server)).ainvoke([HumanMessage("hi"), said, HumanMessage("more")])
    assert b"secret thought" not in server.requests[0].raw


async def test_openrouter_details_come_through(openai_server: Start) -> None:
    def delta(text: str) -> Any:
        detail = {"type": "reasoning.text", "text": text, "index": 0, "format": "f"}
        return Frame({"choices": [{"index": 0, "delta": {"reasoning": text, "reasoning_details": [detail]}}]})

    server = openai_server([raw([delta("a"), delta("b"), text_frame("Yes.")], finish="stop")])
    said = await added_up(from_chat_openai(plain(server)))
    assert said.additional_kwargs["reasoning_content"] == "ab"
    assert [each["text"] for each in said.additional_kwargs["reasoning_details"]] == ["ab"]


async def test_fragments_of_calls_arrive_as_they_were_sent(openai_server: Start) -> None:
    sent = [
        {"id": "a", "function": {"name": None, "arguments": None}},
        {"index": "0", "function": {"name": "add", "arguments": '{"a"'}},
        {"index": 0, "function": None},
        {"function": {"arguments": {"b": 2}}},
    ]
    frames = [{"choices": [{"index": 0, "delta": {"tool_calls": [each]}}]} for each in sent]
    server = openai_server([raw(frames, finish="tool_calls")])
    chunks = [each async for each in from_chat_openai(plain(server)).astream("hi")]
    got = [fragment for chunk in chunks for fragment in chunk.tool_call_chunks]
    assert [(each["index"], each["id"], each["name"], each["args"]) for each in got] == [
        (None, "a", None, None),
        (0, None, "add", '{"a"'),
        (0, None, None, None),
        (None, None, None, '{"b": 2}'),
    ]


@pytest.mark.parametrize("arguments", ['"{\\"q\\": 1}"', "[1]", "7", '{"q": "tru', "null", ""])
async def test_a_whole_answer_with_strange_arguments_is_never_an_exception(
    openai_server: Start, arguments: str
) -> None:
    server = openai_server([call(("good", {"a": 1}), ("odd", arguments))])
    said = await from_chat_openai(plain(server)).ainvoke("hi")
    assert said.tool_calls[0]["args"] == {"a": 1}
    assert len(said.tool_calls) + len(said.invalid_tool_calls) == 2


@pytest.mark.parametrize(
    "frame",
    [
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
        {"choices": [{"index": 0, "delta": {}, "usage": {"prompt_tokens": 7, "completion_tokens": 2}}]},
        {"choices": [{"index": 0, "delta": {}}], "x_groq": {"usage": {"prompt_tokens": 7, "completion_tokens": 2}}},
    ],
)
async def test_usage_is_read_from_any_place(openai_server: Start, frame: Any) -> None:
    server = openai_server([raw([text_frame("a"), frame], finish="stop")])
    said = await added_up(from_chat_openai(plain(server)))
    assert said.usage_metadata is not None
    assert (said.usage_metadata["input_tokens"], said.usage_metadata["output_tokens"]) == (7, 2)


@pytest.mark.parametrize(
    "frame",
    [
        {"choices": [None]},
        {"choices": None, "usage": {"prompt_tokens": "many"}},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [{"index": 0, "delta": {"content": None, "tool_calls": [None, 3]}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": {"a": 1}}}]},
        {
            "choices": [
                {"index": 0, "delta": {"content": [{"type": "text", "text": ""}, 4, {"text": None}, {"type": "text"}]}}
            ]
        },
    ],
)
async def test_broken_frames_are_passed_over(openai_server: Start, frame: Any) -> None:
    server = openai_server([raw([text_frame("a"), frame, text_frame("b")], finish="stop")])
    assert (await added_up(from_chat_openai(plain(server)))).text == "ab"


@pytest.mark.parametrize("streamed", [True, False])
async def test_surrogates_and_nul_never_reach_a_message(openai_server: Start, streamed: bool) -> None:
    server = openai_server([raw([text_frame("a\ud83d\ude00\x00b\ud800")], finish="stop")])
    model = clean_model(plain(server, disable_streaming=not streamed))
    said: AIMessage = await added_up(model) if streamed else await model.ainvoke("hi")
    assert said.text == "a😀b"


async def test_reasoning_blocks_show_in_content_blocks(openai_server: Start) -> None:
    server = openai_server([say("Yes.", reasoning="since")] * 2)
    model = plain(server)
    for said in (await clean_model(model).ainvoke("hi"), await added_up(from_chat_openai(model))):
        assert [each["type"] for each in said.content_blocks] == ["reasoning", "text"]


class TestUpgrade:
    def test_the_given_model_is_not_changed(self, openai_server: Start) -> None:
        model = plain(openai_server([]), temperature=0.3, max_retries=5)
        before = dict(model.__dict__)
        made = from_chat_openai(model)
        assert model.__dict__ == before
        assert type(model) is ChatOpenAI
        assert (made.temperature, made.model_name) == (0.3, "m")
        assert isinstance(made.root_async_client, LoopClients)
        assert from_chat_openai(made) is made
        assert str(made.root_async_client.base_url) == str(model.root_async_client.base_url)

    def test_subclasses_are_refused(self) -> None:
        azure = AzureChatOpenAI(api_key="x", azure_endpoint="https://x.example", api_version="1", model="m")
        with pytest.raises(TypeError, match="AzureChatOpenAI"):
            from_chat_openai(azure)

    def test_connections_are_shared_between_upgrades_and_freed_with_the_model(self, openai_server: Start) -> None:
        model = plain(openai_server([]))
        clients = from_chat_openai(model).root_async_client
        assert from_chat_openai(model).root_async_client is clients
        assert clients_of(model) is clients
        gone = weakref.ref(clients)
        del model, clients
        gc.collect()
        assert gone() is None

    async def test_the_clients_own_retries_are_off(self, openai_server: Start) -> None:
        server = openai_server([error(500)] * 4)
        with pytest.raises(openai.InternalServerError):
            await from_chat_openai(plain(server, max_retries=3)).ainvoke("hi")
        with pytest.raises(openai.InternalServerError):
            from_chat_openai(plain(server, max_retries=3)).invoke("hi")
        assert len(server.requests) == 2

    def test_no_key_is_in_what_is_shown(self, openai_server: Start) -> None:
        server = openai_server([])
        model = from_chat_openai(ChatOpenAI(base_url=server.url, api_key="sk-CANARY", model="m"))
        assert "CANARY" not in repr(model)
        assert "CANARY" not in str(model._serialized)


class TestLoops:
    def test_one_model_in_many_loops(self, openai_server: Start) -> None:
        server = openai_server(lambda request: say("ok", chunks=1))
        model = from_chat_openai(plain(server))
        for _ in range(4):
            assert asyncio.run(added_up(model)).text == "ok"
            assert asyncio.run(model.ainvoke("hi")).text == "ok"
        assert len(model.root_async_client._clients) <= 1

    def test_a_background_loop_and_the_callers_loop_together(self, openai_server: Start) -> None:
        server = openai_server(lambda request: say("ok", chunks=1))
        model = from_chat_openai(plain(server))
        background = asyncio.new_event_loop()
        thread = threading.Thread(target=background.run_forever, daemon=True)
        thread.start()

        async def both() -> list[str]:
            far = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(added_up(model), background))
            return [each.text for each in await asyncio.gather(far, added_up(model), added_up(model))]

        for _ in range(3):
            assert asyncio.run(both()) == ["ok", "ok", "ok"]
        background.call_soon_threadsafe(background.stop)
        thread.join(5)
        background.close()

    def test_uvloop_loops_can_be_kept_apart_too(self, openai_server: Start) -> None:
        uvloop = pytest.importorskip("uvloop")
        server = openai_server(lambda request: say("ok"))
        model = from_chat_openai(plain(server))
        for _ in range(2):
            assert uvloop.run(added_up(model)).text == "ok"

    async def test_the_users_own_http_client_is_used(self, openai_server: Start) -> None:
        seen: list[str] = []

        async def note(request: Any) -> None:
            seen.append(str(request.url))

        server = openai_server([say("ok")])
        own = openai.DefaultAsyncHttpxClient(event_hooks={"request": [note]})
        await from_chat_openai(plain(server, http_async_client=own)).ainvoke("hi")
        assert len(seen) == 1


class TestOptions:
    async def test_max_tokens_has_the_name_that_the_server_knows(self, openai_server: Start) -> None:
        server = openai_server([say("ok"), say("ok")])
        model = from_chat_openai(plain(server, max_tokens=5))
        await model.ainvoke("hi")
        await model.with_options(WireOptions(max_tokens_name="max_tokens")).ainvoke("hi")
        first, second = (request.body for request in server.requests)
        assert (first.get("max_completion_tokens"), first.get("max_tokens")) == (5, None)
        assert (second.get("max_completion_tokens"), second.get("max_tokens")) == (None, 5)

    async def test_parameters_are_dropped_and_added(self, openai_server: Start) -> None:
        server = openai_server([say("ok")])
        options = WireOptions(drop=frozenset({"temperature"}), extra={"response_format": {"type": "json_object"}})
        await added_up(from_chat_openai(plain(server, temperature=0.1)).with_options(options))
        assert "temperature" not in server.requests[0].body
        assert server.requests[0].body["response_format"] == {"type": "json_object"}

    @pytest.mark.parametrize(("wanted", "sent"), [(True, {"include_usage": True}), (False, None), (None, None)])
    async def test_stream_options(self, openai_server: Start, wanted: bool | None, sent: Any) -> None:
        server = openai_server([say("ok")])
        await added_up(from_chat_openai(plain(server)).with_options(WireOptions(stream_usage=wanted)))
        assert server.requests[0].body.get("stream_options") == sent

    async def test_options_survive_bind_tools_and_with_config(self, openai_server: Start) -> None:
        server = openai_server([say("ok")])
        model = from_chat_openai(plain(server)).with_options(WireOptions(reasoning_back=True))
        bound = model.bind_tools([TOOL]).with_config(tags=["t"])
        said = AIMessage(
            "",
            additional_kwargs={"reasoning_content": "r"},
            tool_calls=[{"name": "add", "args": {}, "id": "c1"}],
        )
        await bound.ainvoke([HumanMessage("hi"), said, ToolMessage("1", tool_call_id="c1")])
        body = json.loads(server.requests[0].raw)
        assert body["messages"][1]["reasoning_content"] == "r"
        assert body["tools"]


def test_sync_calls_work(openai_server: Start) -> None:
    server = openai_server([say("one", reasoning="r"), say("two", chunks=1, reasoning="r")])
    model = TurnChatOpenAI(base_url=server.url, api_key="x", model="m")
    assert model.invoke("hi").additional_kwargs["reasoning_content"] == "r"
    assert "".join(chunk.text for chunk in model.stream("hi")) == "two"


class TestResponsesApi:
    """The other API of OpenAI: items instead of deltas, reasoning that only its provider can read."""

    @staticmethod
    def frames(text: str, call_args: str | None, *, status: str = "completed") -> list[dict[str, Any]]:
        summary = {"type": "summary_text", "text": "Because."}
        reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "sealed"}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        part = {"type": "output_text", "text": "", "annotations": []}
        where = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
        made: list[dict[str, Any]] = [
            {"type": "response.output_item.added", "output_index": 0, "item": reasoning},
            {
                "type": "response.reasoning_summary_part.added",
                "item_id": "rs_1",
                "output_index": 0,
                "summary_index": 0,
                "part": {"type": "summary_text", "text": ""},
            },
            {
                "type": "response.reasoning_summary_text.delta",
                "item_id": "rs_1",
                "output_index": 0,
                "summary_index": 0,
                "delta": "Because.",
            },
            {"type": "response.output_item.done", "output_index": 0, "item": {**reasoning, "summary": [summary]}},
            {"type": "response.output_item.added", "output_index": 1, "item": message},
            {"type": "response.content_part.added", **where, "part": part},
            *({"type": "response.output_text.delta", **where, "delta": each, "logprobs": []} for each in text),
            {"type": "response.output_text.done", **where, "text": text, "logprobs": []},
            {
                "type": "response.output_item.done",
                "output_index": 1,
                "item": {**message, "status": "completed", "content": [{**part, "text": text}]},
            },
        ]
        if call_args is not None:
            item = {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "add", "arguments": ""}
            made += [
                {"type": "response.output_item.added", "output_index": 2, "item": {**item, "status": "in_progress"}},
                {
                    "type": "response.function_call_arguments.delta",
                    "item_id": "fc_1",
                    "output_index": 2,
                    "delta": call_args,
                },
                {"type": "response.output_item.done", "output_index": 2, "item": {**item, "arguments": call_args}},
            ]
        usage = {
            "input_tokens": 9,
            "output_tokens": 4,
            "total_tokens": 13,
            "input_tokens_details": {"cached_tokens": 3},
            "output_tokens_details": {"reasoning_tokens": 2},
        }
        details = {"reason": "max_output_tokens"} if status == "incomplete" else None
        whole = {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "gpt-x",
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "status": status,
            "incomplete_details": details,
            "usage": usage,
        }
        made.append({"type": f"response.{status}", "response": whole})
        return [{**each, "sequence_number": at} for at, each in enumerate(made)]

    @staticmethod
    def model(*answers: list[dict[str, Any]]) -> tuple[ChatOpenAI, list[dict[str, Any]]]:
        asked: list[dict[str, Any]] = []
        left = list(answers)

        def answer(request: httpx2.Request) -> httpx2.Response:
            asked.append(json.loads(request.content))
            body = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in left.pop(0))
            return httpx2.Response(200, headers={"content-type": "text/event-stream"}, text=body)

        own = openai.DefaultAsyncHttpxClient(transport=httpx2.MockTransport(answer))
        made = ChatOpenAI(model="gpt-x", api_key="x", use_responses_api=True, http_async_client=own, store=False)
        return made, asked

    async def test_round_and_sealed_reasoning_back(self) -> None:
        model, asked = self.model(self.frames("Look.", '{"a": 1}'), self.frames("Done.", None))
        shown: list[tuple[str, str]] = []
        request = ModelRequest([HumanMessage("hi")], tools=[TOOL])
        result = await stream_round(model, request, lambda kind, text: shown.append((kind, text)))
        message = result.message
        assert message.content == "Look."
        assert "".join(text for kind, text in shown if kind == "content") == "Look."
        assert message.additional_kwargs["reasoning_content"] == "Because."
        assert message.tool_calls == [{"name": "add", "args": {"a": 1}, "id": "c1", "type": "tool_call"}]
        assert (result.finish, result.cut, result.model_name) == ("stop", False, "gpt-x")
        assert (result.usage["input_tokens"], result.usage["cached_tokens"], result.usage["reasoning_tokens"]) == (
            9,
            3,
            2,
        )
        again = [HumanMessage("hi"), message, ToolMessage("1", tool_call_id="c1")]
        second = await stream_round(model, ModelRequest(again, tools=[TOOL]), lambda *_: None)
        assert second.message.content == "Done."
        items = [each.get("type", each.get("role")) for each in asked[1]["input"]]
        assert items == ["message", "reasoning", "message", "function_call", "function_call_output"]
        assert asked[1]["input"][1]["encrypted_content"] == "sealed"

    async def test_a_schema_goes_where_this_api_has_it(self) -> None:
        fmt = normalise_format({"title": "Point", "type": "object", "properties": {"x": {"type": "integer"}}})
        model, asked = self.model(self.frames('{"x": 1}', None))
        request = ModelRequest([HumanMessage("hi")], response_format=fmt, max_output_tokens=30)
        result = await stream_round(model, request, lambda *_: None)
        assert result.message.content == '{"x": 1}'
        assert asked[0]["text"]["format"]["name"] == "Point"
        assert asked[0]["max_output_tokens"] == 30
        assert "response_format" not in asked[0]

    async def test_an_incomplete_response_is_cut(self) -> None:
        model, _ = self.model(self.frames("Half", '{"a": ', status="incomplete"))
        result = await stream_round(model, ModelRequest([HumanMessage("hi")], tools=[TOOL]), lambda *_: None)
        assert (result.finish, result.cut) == ("length", True)
        assert [each["code"] for each in result.problems.values()] == ["cut_off"]

    async def test_a_stream_that_breaks_off_is_cut(self) -> None:
        model, _ = self.model(self.frames("Half", None)[:-1])
        result = await stream_round(model, ModelRequest([HumanMessage("hi")], tools=[TOOL]), lambda *_: None)
        assert (result.message.content, result.finish, result.cut) == ("Half", "missing", True)
