"""The served graph: what `langgraph.json` names."""

from turngraph.graph.build import build_turn_graph
from turngraph.tools.ask import ask_user
from turngraph.tools.demo import demo_tools

graph = build_turn_graph(tools=[*demo_tools(), ask_user], name="turn")
