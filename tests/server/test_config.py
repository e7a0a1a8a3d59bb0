"""`langgraph.json` holds what LangGraph's own tools take, and what deploying needs."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

from tests.support.dev_server import ROOT
from turngraph.graph import TurnGraph

CONFIG = json.loads((ROOT / "langgraph.json").read_text())


def langgraph(*arguments: str) -> str:
    done = subprocess.run(
        [str(Path(sys.executable).with_name("langgraph")), *arguments],
        cwd=ROOT,
        env={"PATH": "", "LANGGRAPH_CLI_NO_ANALYTICS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout + done.stderr


def test_langgraph_validate_takes_it() -> None:
    said = langgraph("validate")
    assert "is valid" in said
    assert "nknown" not in said, "an unknown key is a warning only"


def test_langgraph_dockerfile_installs_the_package_and_serves_the_graph(tmp_path: Path) -> None:
    langgraph("dockerfile", str(tmp_path / "Dockerfile"))
    text = (tmp_path / "Dockerfile").read_text()
    assert 'LANGSERVE_GRAPHS=\'{"turn": {"path": "turngraph.graph:graph"' in text
    assert "-e ." in text
    assert "allowed_msgpack_modules" in text


def test_every_graph_is_named_in_module_form_and_exists() -> None:
    """`langgraph validate` does not check this, and the server then dies at its start."""
    for name, served in CONFIG["graphs"].items():
        module, _, attribute = served["path"].partition(":")
        assert "/" not in module, "the file form loads the module a second time"
        graph = getattr(importlib.import_module(module), attribute)
        assert isinstance(graph, TurnGraph)
        assert graph.name == name
        assert graph.checkpointer is None, "the server brings its own, and refuses to start with another"
        assert graph.store is None
        assert served["description"]


def test_no_thread_is_pruned_or_deleted_by_itself() -> None:
    """Messages are stored as what each step added: without its older checkpoints a thread would lose its beginning.

    A pause may wait for months, so deleting threads by age is a deployment's own choice.
    """
    assert "ttl" not in CONFIG["checkpointer"]


def test_the_store_removes_what_has_a_time_to_live_and_gives_none_to_the_rest() -> None:
    """The journal and queued input lie in the store: a default would end the promises made for a turn that waits."""
    assert CONFIG["store"]["ttl"]["sweep_interval_minutes"] > 0
    assert "default_ttl" not in CONFIG["store"]["ttl"]


def test_stored_state_is_never_unpickled_and_builds_no_foreign_classes() -> None:
    serde = CONFIG["checkpointer"]["serde"]
    assert serde["pickle_fallback"] is False
    assert serde["allowed_msgpack_modules"] == []


def test_the_env_file_is_not_part_of_the_repository() -> None:
    assert CONFIG["env"] == ".env"
    assert ".env" in (ROOT / ".gitignore").read_text().split()
