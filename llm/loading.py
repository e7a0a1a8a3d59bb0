"""From a model's name to a model: `openai:NAME`, `local`, `local:PATH`, `offline`, or what `langchain` knows.

Nothing is read from the environment before a model is asked for, and keys come from nowhere else.
"""

import asyncio
import importlib
import importlib.util
import os
import threading
from collections.abc import Mapping
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from pydantic import SecretStr

from turngraph.llm.load_error import ModelLoadError
from turngraph.llm.local import gguf_path, options_of, serve
from turngraph.llm.offline import OfflineModel
from turngraph.llm.profile import model_name

__all__ = ["ModelLoadError", "load_model", "model_name", "model_window", "resolve_model"]

OFFLINE = "offline"
VARIABLE = "TURNGRAPH_MODEL"
POSSIBLE = (
    "openai:NAME (any OpenAI-compatible server), local:PATH.gguf, local, offline, "
    "or PROVIDER:NAME with the package langchain and the provider's own package installed"
)

_RELEVANT = ("OPENAI_", "TURNGRAPH_LOCAL_")
_lock = threading.Lock()
_loaded: dict[tuple[str, tuple[tuple[str, str], ...]], BaseChatModel] = {}


def load_model(name: str) -> BaseChatModel:
    """The model of that name, ready to be called. The same name in the same environment gives the same object.

    May read files and start a server, so it does not belong on an event loop: `resolve_model` does it in a thread.
    Raises ModelLoadError that says what is possible, or what is missing.
    """
    name = name.strip()
    cached = _cache_key(name)
    with _lock:
        if cached not in _loaded:
            _loaded[cached] = _load(name, dict(os.environ))
        return _loaded[cached]


def _cache_key(name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    relevant = sorted((key, value) for key, value in os.environ.items() if key.startswith(_RELEVANT))
    return name, tuple(relevant)


def _load(name: str, environment: Mapping[str, str]) -> BaseChatModel:
    provider, _, rest = name.partition(":")
    match provider.lower(), rest.strip():
        case "offline", "":
            return OfflineModel()
        case "local", path:
            return _local(path, environment)
        case "openai", "":
            raise ModelLoadError("Name the model after the colon, such as openai:gpt-5-mini.")
        case "openai", model:
            return _openai(model, environment)
        case _, "":
            raise ModelLoadError(f"There is no model {name!r}. Possible: {POSSIBLE}. Did you mean openai:{provider}?")
        case _:
            return _foreign(name)


def _openai(model: str, environment: Mapping[str, str]) -> BaseChatModel:
    """A server that is named by its URL may want no key; OpenAI itself always does."""
    base_url = environment.get("OPENAI_BASE_URL", "").strip() or None
    key = environment.get("OPENAI_API_KEY", "").strip()
    if not key and base_url is None:
        raise ModelLoadError(
            f"The model openai:{model} needs a key: set OPENAI_API_KEY, "
            "or OPENAI_BASE_URL for a compatible server that wants none."
        )
    return _wire(model, key or "none", base_url)


def _local(path: str, environment: Mapping[str, str]) -> BaseChatModel:
    endpoint = serve(gguf_path(path), options_of(environment))
    import openai

    # One client serves every event loop as long as no connection outlives its request. Proxies are not for loopback.
    no_keepalive = type(openai.DEFAULT_CONNECTION_LIMITS)(max_connections=100, max_keepalive_connections=0)
    return _wire(
        endpoint.model,
        endpoint.key,
        endpoint.url,
        profile={"max_input_tokens": endpoint.context},
        http_client=openai.DefaultHttpxClient(trust_env=False),
        http_async_client=openai.DefaultAsyncHttpxClient(trust_env=False, limits=no_keepalive),
    )


def _wire(model: str, key: str, base_url: str | None, **more: Any) -> BaseChatModel:
    """Retries are the turn's own: it alone knows what was already shown."""
    # The OpenAI client takes longer to import than all the rest; here a thread does it, and only where it is needed.
    from turngraph.llm.wire import TurnChatOpenAI

    return TurnChatOpenAI(
        model=model, api_key=SecretStr(key), base_url=base_url, stream_usage=True, max_retries=0, **more
    )


def _foreign(name: str) -> BaseChatModel:
    if importlib.util.find_spec("langchain") is None:
        raise ModelLoadError(
            f"The model {name!r} needs the package langchain, which is not installed. Possible here: {POSSIBLE}."
        )
    init_chat_model = importlib.import_module("langchain.chat_models").init_chat_model
    try:
        model = init_chat_model(name)
    except Exception as error:  # a provider's own, such as openai.OpenAIError for a missing key
        raise ModelLoadError(f"langchain cannot load the model {name!r}: {type(error).__name__}") from error
    if not isinstance(model, BaseChatModel):
        raise ModelLoadError(f"langchain gave no chat model for {name!r}, but {type(model).__name__}.")
    return model


async def resolve_model(given: BaseChatModel | str | None, setting: str | None) -> tuple[BaseChatModel, str]:
    """The model of a turn and its name: the setting wins, then what was given, then TURNGRAPH_MODEL, then `offline`.

    Loading happens in a thread. Raises ModelLoadError.
    """
    name = (setting or "").strip() or given
    if isinstance(name, BaseChatModel):
        return name, model_name(name)
    name = (name or "").strip() or os.environ.get(VARIABLE, "").strip() or OFFLINE
    ready = _loaded.get(_cache_key(name))
    return ready if ready is not None else await asyncio.to_thread(load_model, name), name


def model_window(model: BaseChatModel) -> int | None:
    """The model's context window in tokens, from its profile; None where it does not say."""
    window = (model.profile or {}).get("max_input_tokens")
    return window if isinstance(window, int) and window > 0 else None
