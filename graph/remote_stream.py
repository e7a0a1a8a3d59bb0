"""Passes what a remote run streams to whoever streams the run here, under the namespace of this graph."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.pregel._messages import StreamMessagesHandler
from langgraph.types import StreamWriter


class RemoteListener:
    """Made for one visit of the node that has this config. `modes` are those that somebody may listen to."""

    def __init__(self, config: RunnableConfig, writer: StreamWriter) -> None:
        self._config, self._writer = config, writer
        self._namespace = str(config["configurable"].get("checkpoint_ns", "")).split("|")[:-1]
        handlers = getattr(config.get("callbacks"), "handlers", [])
        self._handlers = [each for each in handlers if isinstance(each, StreamMessagesHandler)]
        self.modes = ["custom", "messages"] if self._handlers else ["custom"]

    def hear(self, namespace: tuple[str, ...], mode: str, data: Any) -> None:
        match mode:
            case "custom":
                self._custom(namespace, data)
            case "messages":
                self._message(namespace, *data)

    def _inner(self, namespace: tuple[str, ...]) -> str:
        """The checkpoint namespace of a node in that graph: LangGraph drops the node, which is its last part."""
        return "|".join([*self._namespace, *namespace, "remote"])

    def _custom(self, namespace: tuple[str, ...], data: Any) -> None:
        """LangGraph's writer takes the namespace from the config of the context that it is called in."""
        configurable = {**self._config["configurable"], "checkpoint_ns": self._inner(namespace)}
        token = var_child_runnable_config.set({**self._config, "configurable": configurable})
        try:
            self._writer(data)
        finally:
            var_child_runnable_config.reset(token)

    def _message(self, namespace: tuple[str, ...], data: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """Told to LangGraph's own handler as a model's tokens: so it knows the message when the node returns it."""
        if data.get("type") != "AIMessageChunk":
            return
        chunk = ChatGenerationChunk(message=AIMessageChunk.model_validate(data))
        run_id = uuid4()
        said = {
            **self._config.get("metadata", {}),
            "langgraph_node": metadata.get("langgraph_node"),
            "langgraph_path": (),
            "langgraph_checkpoint_ns": self._inner(namespace),
        }
        for handler in self._handlers:
            handler.on_chat_model_start({}, [], run_id=run_id, metadata=said)
            handler.on_llm_new_token("", chunk=chunk, run_id=run_id)
            handler.on_llm_end(LLMResult(generations=[]), run_id=run_id)
