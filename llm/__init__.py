"""Everything about one model call."""

from turngraph.llm.faults import classify_provider_error
from turngraph.llm.scripted import ScriptedModel, ScriptedReply
from turngraph.llm.think import InlineThinkFilter
from turngraph.state.errors import ProviderFault

__all__ = ["InlineThinkFilter", "ProviderFault", "ScriptedModel", "ScriptedReply", "classify_provider_error"]
