"""What a start imports: the OpenAI client takes longer than all the rest, so only a model that needs it loads it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import ROOT, Shell

HEAVY = ("openai", "langchain_openai")


def loaded(code: str, shell: Shell) -> list[str]:
    """Which of the heavy packages a fresh process holds once the code has run."""
    report = f"\nimport sys; print('LOADED', *(name for name in {HEAVY!r} if name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code + report],
        cwd=ROOT,
        env=shell.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


TURN = """
from turngraph.graph import build_turn_graph
from turngraph.llm import ScriptedModel, ScriptedReply, classify_provider_error
def look(place: str) -> str:
    "Look."
    return place
class APITimeoutError(Exception): ...
class BadRequestError(Exception): status_code = 400
model = ScriptedModel([ScriptedReply(calls=[("look", {"place": "yard"})]), APITimeoutError("timed out"), "Done."])
graph = build_turn_graph(model, [look])
assert graph.invoke({"messages": [("user", "go")]})["answer"] == "Done."
said = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
assert classify_provider_error(BadRequestError(said)).kind == "overflow"
"""

COMMAND = """
import sys
from turngraph.cli import main
sys.argv = ["turngraph", *{arguments!r}]
try:
    main()
except SystemExit as done:
    assert done.code == 0, done.code
"""


@pytest.mark.parametrize(
    "code",
    [
        "import turngraph.graph, turngraph.cli, turngraph.cli.app, turngraph.cli.work, turngraph.context, turngraph.tools",
        TURN,
        COMMAND.format(arguments=["run", "What is 2+3?", "--model", "offline", "--thread", "sums"]),
    ],
    ids=["imports", "a turn with errors", "an offline run"],
)
def test_nothing_of_openai_is_imported(tmp_path: Path, code: str) -> None:
    assert loaded(code, Shell(tmp_path)) == []


def test_a_model_that_needs_it_brings_it(tmp_path: Path) -> None:
    shell = Shell(tmp_path, model_url="http://127.0.0.1:9")
    code = "from turngraph.llm.loading import load_model\nload_model('openai:scripted')"
    assert loaded(code, shell) == list(HEAVY)


def test_a_langchain_model_of_openai_is_read_by_our_adapter_whenever_it_was_imported(tmp_path: Path) -> None:
    code = """
import turngraph.graph, sys
from turngraph.llm.clean import clean_model
from turngraph.llm.scripted import ScriptedModel
assert type(clean_model(ScriptedModel([])).inner) is ScriptedModel
assert "turngraph.llm.wire" not in sys.modules
from langchain_openai import ChatOpenAI, AzureChatOpenAI
assert type(clean_model(ChatOpenAI(model="m", api_key="k")).inner).__name__ == "TurnChatOpenAI"
azure = AzureChatOpenAI(azure_deployment="d", api_version="1", azure_endpoint="http://127.0.0.1:9", api_key="k")
from turngraph.llm.loop_clients import LoopClients
assert isinstance(clean_model(azure).inner.root_async_client, LoopClients)
assert not isinstance(azure.root_async_client, LoopClients), "the given model is not changed"
"""
    assert loaded(code, Shell(tmp_path)) == list(HEAVY)
