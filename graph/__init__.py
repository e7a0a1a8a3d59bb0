"""The public API of turngraph: the graph, its settings, its state and what goes around it.

`graph` is a turn without a checkpointer for LangGraph server (it brings its own), with the demo tools and `ask_user`.
"""

from turngraph.graph.build import build_turn_graph
from turngraph.graph.compact import Compaction, acompact, compact
from turngraph.graph.compose import as_tool
from turngraph.graph.inputs import (
    alist_grants,
    arevoke_grant,
    asend_input,
    list_grants,
    revoke_grant,
    send_input,
)
from turngraph.graph.remote import RemoteTurn, remote_turn
from turngraph.graph.serve import graph
from turngraph.graph.shell import TurnGraph
from turngraph.graph.threads import adelete_thread, delete_thread
from turngraph.llm.loading import ModelLoadError
from turngraph.nodes.parts import Capability
from turngraph.state.channels import TurnInput, TurnOutput, TurnState
from turngraph.state.errors import InputError, ProviderError, ResumeError, TurnConflict, TurnError
from turngraph.state.receipt import TurnReceipt
from turngraph.state.settings import ModelProfile, TurnSettings
from turngraph.tools.journal import Journal

__all__ = [
    "Capability",
    "Compaction",
    "InputError",
    "Journal",
    "ModelLoadError",
    "ModelProfile",
    "ProviderError",
    "RemoteTurn",
    "ResumeError",
    "TurnConflict",
    "TurnError",
    "TurnGraph",
    "TurnInput",
    "TurnOutput",
    "TurnReceipt",
    "TurnSettings",
    "TurnState",
    "acompact",
    "adelete_thread",
    "alist_grants",
    "arevoke_grant",
    "as_tool",
    "asend_input",
    "build_turn_graph",
    "compact",
    "delete_thread",
    "graph",
    "list_grants",
    "remote_turn",
    "revoke_grant",
    "send_input",
]
