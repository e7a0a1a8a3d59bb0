"""What each model accepts: known from data, declared by the user, learned from what the provider refused."""

import re
import threading
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from langchain_core.language_models import BaseChatModel

from turngraph.state.settings import ModelProfile

ProfileKey: TypeAlias = tuple[str, str]
"""Where the model is served (base URL, else the provider's name) and the model's name."""

Fact: TypeAlias = Literal[
    "reasoning_back",
    "opens_think",
    "system_messages",
    "alternate_roles",
    "string_tool_content",
    "tool_choice",
    "stream_usage",
    "native_tools",
    "temperature",
    "images",
    "json_schema",
    "streaming",
    "tool_streaming",
    "max_tokens_name",
    "dropped",
]
"""What can be learned: the fields of `ModelProfile`, and parameters that only this room looks at."""

PROFILE_FIELDS: Final = frozenset(ModelProfile.model_fields)


@dataclass(frozen=True)
class _Known:
    """A habit of the models whose name matches, wherever they are served."""

    name: re.Pattern[str]
    facts: dict[str, Any]


_KNOWN: Final = (
    # Providers of these document that earlier reasoning of a tool-using turn is to be sent back.
    _Known(re.compile(r"deepseek-(v3\.[2-9]|v[4-9]|reasoner|chat)|kimi-k2.*think|kimi-k[3-9]|glm-(4\.[5-9]|[5-9])"),
           {"reasoning_back": True}),
    _Known(re.compile(r"minimax-m[2-9]|gpt-oss|mimo-v"), {"reasoning_back": True}),
    _Known(re.compile(r"\b(mistral|mixtral)[-_]?7b|mistral-(7|8x7)b|gemma-[12]\b|gemma-2-"), {"alternate_roles": True}),
    _Known(re.compile(r"\bgemma-[12]\b|gemma-2-"), {"system_messages": False}),
    _Known(re.compile(r"deepseek"), {"string_tool_content": True}),
)  # fmt: skip


class ProfileStore:
    """Facts learned in this process, per model. Safe to use from every thread and event loop."""

    def __init__(self) -> None:
        self._facts: dict[ProfileKey, dict[str, Any]] = {}
        self._lock = threading.Lock()

    def learn(self, key: ProfileKey, fact: Fact, value: Any) -> None:
        """Remembers a fact; a later one about the same thing replaces it. None forgets it."""
        with self._lock:
            facts = self._facts.setdefault(key, {})
            if value is None:
                facts.pop(fact, None)
            else:
                facts[fact] = value

    def learned(self, key: ProfileKey) -> dict[str, Any]:
        """A copy of what was learned of a model."""
        with self._lock:
            return dict(self._facts.get(key, {}))

    def forget(self, key: ProfileKey | None = None) -> None:
        """Forgets one model, or (None) all of them."""
        with self._lock:
            if key is None:
                self._facts.clear()
            else:
                self._facts.pop(key, None)


PROFILES: Final = ProfileStore()
"""The store of this process."""


def profile_key(model: BaseChatModel) -> ProfileKey:
    """The key of a model; no request is made, nothing secret is in it."""
    params = model._get_ls_params()
    served = ""
    for name in ("openai_api_base", "anthropic_api_url", "base_url", "api_base", "endpoint", "azure_endpoint"):
        value = getattr(model, name, None)
        if isinstance(value, str) and value:
            served = value.rstrip("/")
            break
    return (_without_secrets(served) or str(params.get("ls_provider", "")), model_name(model))


def model_name(model: BaseChatModel) -> str:
    """The name of the model as its provider knows it, else its class."""
    for name in ("model_name", "model", "model_id", "deployment_name"):
        value = getattr(model, name, None)
        if isinstance(value, str) and value:
            return value
    named = model._get_ls_params().get("ls_model_name")
    return str(named) if named else type(model).__name__


def known_facts(name: str) -> dict[str, Any]:
    """What is known of a model by its name alone."""
    facts: dict[str, Any] = {}
    for entry in _KNOWN:
        if entry.name.search(name.lower()):
            facts.update(entry.facts)
    return facts


def effective(declared: ModelProfile, learned: dict[str, Any]) -> ModelProfile:
    """The profile that holds: declared fields first, then learned ones; what is in neither stays None.

    Laws: a declared field is never overruled; `effective(effective(d, l), l) == effective(d, l)`.
    """
    fields = {name: value for name, value in learned.items() if name in PROFILE_FIELDS}
    fields.update({name: value for name, value in declared.model_dump().items() if value is not None})
    return ModelProfile(**fields)


def effective_profile(model: BaseChatModel, declared: ModelProfile) -> ModelProfile:
    """The profile of a model now: declared, then learned, then known by name."""
    return effective(declared, facts_of(model))


def facts_of(model: BaseChatModel) -> dict[str, Any]:
    """Everything known and learned of a model, by name of the fact."""
    key = profile_key(model)
    return {**known_facts(key[1]), **PROFILES.learned(key)}


def _without_secrets(url: str) -> str:
    """The URL without user info and query, which may hold keys."""
    return re.sub(r"//[^/@]*@", "//", url.split("?")[0])
