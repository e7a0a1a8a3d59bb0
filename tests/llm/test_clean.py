"""CleanChatModel: any model, clean in every way it can be called, bound and streamed."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import Field

from turngraph.llm.binding import names_of
from turngraph.llm.clean import CleanChatModel, clean_model
from turngraph.llm.scripted import ScriptedModel, ScriptedReply
from turngraph.llm.wire import TurnChatOpenAI


@tool
def add(a: int) -> int:
    """Adds."""
    return a


REPLY = ScriptedReply("<think>why</think>Hello there", chunks=3, calls=[("add", {"a": 1})])


class Blocks(BaseChatModel):
    """A model whose content is a list of blocks, thinking signed."""

    sent: list[Any] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "blocks"

    def _chunks(self) -> Iterator[ChatGenerationChunk]:
        for content in (
            [{"type": "thinking", "thinking": "wh", "index": 0}],
            [{"type": "thinking", "thinking": "y", "signature": "sig", "index": 0}],
            [{"type": "text", "text": "Hel", "index": 1}],
            [{"type": "text", "text": "lo", "index": 1}],
        ):
            yield ChatGenerationChunk(message=AIMessageChunk(content=content))

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        total = AIMessageChunk(content=[])
        for chunk in self._chunks():
            total = total + chunk.message
        return ChatResult(generations=[ChatGeneration(message=AIMessage(total.content))])

    async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        self.sent.append(messages)
        for chunk in self._chunks():
            yield chunk


def check(message: AIMessage) -> None:
    assert message.text == "Hello there"
    assert message.additional_kwargs["reasoning_content"] == "why"
    assert [(each["name"], each["args"]) for each in message.tool_calls] == [("add", {"a": 1})]


def added_up(chunks: list[AIMessageChunk]) -> AIMessageChunk:
    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk
    return total


class TestEveryWay:
    async def test_async(self) -> None:
        model = clean_model(ScriptedModel([REPLY, REPLY])).bind_tools([add])
        said = await model.ainvoke("hi")
        check(said)
        assert said.additional_kwargs["raw_text"] == "<think>why</think>Hello there"
        chunks = [each async for each in model.astream("hi")]
        check(added_up(chunks))
        assert len(chunks) > 4
        assert "<think>" not in repr(chunks)

    def test_sync(self) -> None:
        model = clean_model(ScriptedModel([REPLY, REPLY])).bind_tools([add])
        check(model.invoke("hi"))
        check(added_up(list(model.stream("hi"))))

    async def test_bound_and_configured(self) -> None:
        inner = ScriptedModel([REPLY])
        model = clean_model(inner).bind_tools([add], tool_choice="auto").with_config(tags=["t"])
        check(await model.ainvoke("hi"))
        assert inner.requests[0].tool_names == ["add"]
        assert inner.requests[0].tool_choice == "auto"

    async def test_content_blocks(self) -> None:
        model = clean_model(Blocks())
        for said in (
            await model.ainvoke("hi"),
            added_up([each async for each in model.astream("hi")]),
            model.invoke("hi"),
        ):
            assert (said.content, said.additional_kwargs["reasoning_content"]) == ("Hello", "why")

    async def test_sealed_blocks_go_back_to_the_model_that_wrote_them(self) -> None:
        inner = Blocks(sent=[])
        model = clean_model(inner)
        said = await model.ainvoke("hi")
        await model.ainvoke([HumanMessage("hi"), said, HumanMessage("more")])
        back = inner.sent[1][1].content
        assert back[0]["signature"] == "sig"
        edited = said.model_copy(update={"content": "Edited."})
        await model.ainvoke([HumanMessage("hi"), edited, HumanMessage("more")])
        assert inner.sent[2][1].content == "Edited."
        other = ScriptedModel(["ok"])
        await clean_model(other).ainvoke([HumanMessage("hi"), said, HumanMessage("more")])
        assert other.requests[0].messages[1].content == "Hello"

    async def test_a_call_with_a_problem_is_an_invalid_call(self) -> None:
        reply = ScriptedReply(
            "x", calls=[{"name": "add", "args": '{"a": ', "id": "c1"}, {"name": "nope", "args": "{}", "id": "c2"}]
        )
        model = clean_model(ScriptedModel([reply, reply])).bind_tools([add])
        for said in (await model.ainvoke("hi"), added_up([each async for each in model.astream("hi")])):
            assert said.tool_calls == []
            assert [each["id"] for each in said.invalid_tool_calls] == ["c1", "c2"]

    async def test_usage_is_counted_once(self) -> None:
        usage = {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7}
        model = clean_model(ScriptedModel([ScriptedReply("a b c", usage=usage)] * 2))  # type: ignore[arg-type]
        assert (await model.ainvoke("hi")).usage_metadata == usage
        assert added_up([each async for each in model.astream("hi")]).usage_metadata == usage


class TestWrapping:
    def test_kinds(self) -> None:
        plain = ChatOpenAI(api_key="x", model="m")
        assert isinstance(clean_model(plain).inner, TurnChatOpenAI)
        azure = AzureChatOpenAI(api_key="x", azure_endpoint="https://x.example", api_version="1", model="m")
        assert type(clean_model(azure).inner) is AzureChatOpenAI
        assert azure.root_async_client is not clean_model(azure).inner.root_async_client  # type: ignore[attr-defined]
        assert not clean_model(azure).reading.openai_wire
        wrapped = clean_model(azure)
        assert clean_model(wrapped) is wrapped

    def test_it_looks_like_the_model_inside(self) -> None:
        inner = ChatOpenAI(api_key="sk-CANARY", model="m", tags=["t"], metadata={"k": "v"})
        model = clean_model(inner)
        assert model._llm_type == inner._llm_type
        assert model._get_ls_params()["ls_model_name"] == "m"
        assert model.tags == ["t"]
        assert model.metadata is not None
        assert model.metadata["k"] == "v"
        assert "CANARY" not in f"{model!r}{model._serialized}{model._get_invocation_params()}"

    def test_tools_bound_through_something_else_are_refused(self) -> None:
        class Odd(ScriptedModel):
            def bind_tools(self, *_: Any, **__: Any) -> Any:
                return RunnableLambda(lambda _: AIMessage("x"))

        with pytest.raises(NotImplementedError):
            clean_model(Odd([])).bind_tools([add])

    def test_names_of_tools_in_any_format(self) -> None:
        tools = [
            add,
            {"name": "b", "input_schema": {}},
            {"type": "function", "function": {"name": "c"}},
            {"type": "web"},
        ]
        assert names_of(tools) == ["add", "b", "c"]


class Tokens(AsyncCallbackHandler):
    def __init__(self) -> None:
        self.tokens: list[str] = []

    async def on_llm_new_token(self, token: str, **_: Any) -> None:
        self.tokens.append(token)


class SyncTokens(BaseCallbackHandler):
    def __init__(self) -> None:
        self.tokens: list[str] = []

    def on_llm_new_token(self, token: str, **_: Any) -> None:
        self.tokens.append(token)


async def test_callbacks_of_the_caller_and_the_model_see_clean_tokens_once() -> None:
    theirs, own = Tokens(), SyncTokens()
    model = clean_model(ScriptedModel([REPLY], callbacks=[own])).bind_tools([add])
    async for _ in model.astream("hi", {"callbacks": [theirs]}):
        pass
    assert "".join(theirs.tokens) == "".join(own.tokens) == "Hello there"


class TestInAGraph:
    """The wrapped model used by somebody's own node."""

    @staticmethod
    def graph(model: CleanChatModel) -> Any:
        async def node(state: MessagesState) -> dict[str, Any]:
            return {"messages": [await model.bind_tools([add]).ainvoke(state["messages"])]}

        return StateGraph(MessagesState).add_node("n", node).add_edge(START, "n").compile()

    async def test_messages_mode(self) -> None:
        graph = self.graph(clean_model(ScriptedModel([REPLY])))
        chunks = [each async for each, _ in graph.astream({"messages": [("user", "hi")]}, stream_mode="messages")]
        assert "<think>" not in repr(chunks)
        check(added_up(chunks))
        assert len({each.id for each in chunks}) == 1

    @pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
    async def test_v3(self) -> None:
        graph = self.graph(clean_model(ScriptedModel([REPLY])))
        run = await graph.astream_events({"messages": [("user", "hi")]}, version="v3")
        streams = [[event async for event in stream] async for stream in run.messages]
        assert len(streams) == 1
        assert "<think>" not in repr(streams)
        deltas = [event["delta"] for event in streams[0] if event["event"] == "content-block-delta"]
        assert "".join(each.get("text", "") for each in deltas) == "Hello there"
        assert "".join(each.get("reasoning", "") for each in deltas) == "why"

    def test_sync_graph(self) -> None:
        model = clean_model(ScriptedModel([REPLY])).bind_tools([add])

        def node(state: MessagesState) -> dict[str, Any]:
            return {"messages": [model.invoke(state["messages"])]}

        graph = StateGraph(MessagesState).add_node("n", node).add_edge(START, "n").compile()
        chunks = [each for each, _ in graph.stream({"messages": [("user", "hi")]}, stream_mode="messages")]
        assert "<think>" not in repr(chunks)
        check(added_up(chunks))
