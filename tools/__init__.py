"""What a tool may declare and return, and everything that runs or refuses one."""

from turngraph.tools.ask import ask_user
from turngraph.tools.effects import TurnEffects
from turngraph.tools.mcp import load_mcp_tools
from turngraph.tools.policy import tool_policy
from turngraph.tools.run import idempotency_key
from turngraph.tools.skills import load_skills

__all__ = ["TurnEffects", "ask_user", "idempotency_key", "load_mcp_tools", "load_skills", "tool_policy"]
