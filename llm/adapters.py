"""Recognises OpenAI's adapters without importing them: where a model is one, its package is loaded already."""

from typing import TYPE_CHECKING, TypeGuard

from langchain_core.language_models.chat_models import BaseChatModel

if TYPE_CHECKING:
    from turngraph.llm.wire import TurnChatOpenAI

_PACKAGE = "langchain_openai"


def is_wired(model: BaseChatModel) -> "TypeGuard[TurnChatOpenAI]":
    """Whether a model is our own adapter of the OpenAI wire."""
    if not _of_package(model):
        return False
    from turngraph.llm.wire import TurnChatOpenAI

    return isinstance(model, TurnChatOpenAI)


def adapted(model: BaseChatModel) -> BaseChatModel:
    """A plain ChatOpenAI as our own adapter, the adapters derived from it fit for every event loop, others as they are.

    The given object is never changed.
    """
    if not _of_package(model) or is_wired(model):
        return model
    from langchain_openai import ChatOpenAI
    from langchain_openai.chat_models.base import BaseChatOpenAI

    from turngraph.llm.loop_clients import with_loop_clients
    from turngraph.llm.wire import from_chat_openai

    if type(model) is ChatOpenAI:
        return from_chat_openai(model)
    return with_loop_clients(model) if isinstance(model, BaseChatOpenAI) else model


def _of_package(model: BaseChatModel) -> bool:
    """Whether a class of langchain-openai is among the model's: importing that takes longer than all else."""
    return any(base.__module__.partition(".")[0] == _PACKAGE for base in type(model).__mro__)
