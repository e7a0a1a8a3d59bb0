"""B59 (langgraph#3594): the drawing is exact, schemas are JSON, the pause has the shape that UIs know."""

import json

from turngraph.graph import build_turn_graph, graph

EDGES = {
    ("__start__", "prepare_turn"),
    ("prepare_turn", "call_llm"),
    ("call_llm", "dispatch_tools"),
    ("call_llm", "interrupt"),
    ("call_llm", "call_llm"),
    ("call_llm", "finalize"),
    ("call_llm", "forced_finish"),
    ("dispatch_tools", "interrupt"),
    ("dispatch_tools", "fold_checkpoint"),
    ("interrupt", "dispatch_tools"),
    ("interrupt", "fold_checkpoint"),
    ("interrupt", "interrupt"),
    ("interrupt", "finalize"),
    ("fold_checkpoint", "call_llm"),
    ("fold_checkpoint", "forced_finish"),
    ("fold_checkpoint", "finalize"),
    ("forced_finish", "finalize"),
    ("finalize", "__end__"),
}


def test_b59_the_drawn_edges_are_those_of_the_contract() -> None:
    drawn = build_turn_graph().get_graph()
    assert {(edge.source, edge.target) for edge in drawn.edges} == EDGES
    assert set(drawn.nodes) == {name for edge in EDGES for name in edge}


def test_b59_the_served_graph_draws_the_same() -> None:
    assert graph.get_graph().draw_mermaid() == build_turn_graph().get_graph().draw_mermaid()


def test_b59_every_schema_is_json_and_keeps_private_state_private() -> None:
    schemas = [
        graph.get_input_jsonschema(),
        graph.get_output_jsonschema(),
        graph.get_context_jsonschema(),
    ]
    for schema in schemas:
        json.dumps(schema)
    assert set(schemas[0]["properties"]) == {"messages"}
    assert set(schemas[1]["properties"]) == {"messages", "answer", "receipt", "structured"}
    assert schemas[0]["properties"]["messages"]["items"], "the items of messages are not drawable"


def test_b59_every_setting_is_described_and_tied_to_its_nodes() -> None:
    context = graph.get_context_jsonschema()
    assert context is not None
    nodes = set(graph.get_graph().nodes)
    for name, field in context["properties"].items():
        assert field.get("description"), name
        assert field.get("title"), name
        assert set(field["langgraph_nodes"]) <= nodes, name
        assert field["langgraph_nodes"], name
