"""The house: which room may import which, and what a wheel holds."""

import ast
import json
import os
import shutil
import stat
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

RIGHT_OF = {
    "cli": {"graph", "nodes", "tools", "llm", "context", "state"},
    "graph": {"nodes", "tools", "llm", "context", "state"},
    "nodes": {"tools", "llm", "context", "state"},
    "tools": {"state"},
    "llm": {"state"},
    "context": {"state"},
    "state": set[str](),
}
"""The rooms, and those that each may import from."""

EXTRAS_ONLY = {"typer": {"cli"}, "rich": {"cli"}, "xllamacpp": {"llm"}, "langchain_mcp_adapters": {"tools"}}
"""Packages that are not installed with the core, and the rooms that know of them."""


def modules(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Full names of the modules that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=module, names=names, level=level):
                assert level == 0, f"{path}: relative import"
                found |= {f"{module}.{alias.name}" for alias in names}
    return found


@pytest.mark.parametrize("room", sorted(RIGHT_OF))
def test_a_room_imports_only_from_the_rooms_to_its_right(room: str) -> None:
    assert modules(room), f"no modules in {room}/"
    for path in modules(room):
        for name in imported(path):
            top, _, rest = name.partition(".")
            if top == "turngraph":
                other = rest.partition(".")[0]
                assert other in RIGHT_OF[room] | {room, "__version__"}, f"{path.relative_to(ROOT)} imports {name}"
            else:
                assert top not in RIGHT_OF, f"{path.relative_to(ROOT)} imports {name} without turngraph in front"


@pytest.mark.parametrize("package", sorted(EXTRAS_ONLY))
def test_what_comes_with_an_extra_is_known_in_one_room_only(package: str) -> None:
    for room in set(RIGHT_OF) - EXTRAS_ONLY[package]:
        for path in modules(room):
            assert package not in {name.partition(".")[0] for name in imported(path)}, path


def test_every_module_says_its_job() -> None:
    for room in RIGHT_OF:
        for path in modules(room):
            source = path.read_text(encoding="utf-8")
            if source.strip():
                first = (ast.get_docstring(ast.parse(source)) or "").splitlines()
                assert first, f"{path.relative_to(ROOT)} has no docstring"


def test_the_links_lead_to_the_rooms() -> None:
    for room in RIGHT_OF:
        link = ROOT / "turngraph" / room
        assert link.is_symlink()
        assert os.readlink(link) == f"../{room}"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel built from a copy, so that nothing is left behind in the checkout."""
    copy = tmp_path_factory.mktemp("wheel") / "source"
    copy.mkdir()
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for folder in (*RIGHT_OF, "turngraph"):
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=ignored)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / file).exists():
            shutil.copy(ROOT / file, copy)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(copy / "dist")]
    built = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=110)
    assert built.returncode == 0, built.stdout + built.stderr
    return zipfile.ZipFile(next((copy / "dist").glob("*.whl")))


def test_the_wheel_holds_every_module_as_a_real_file_under_turngraph(wheel: zipfile.ZipFile) -> None:
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert all(name.startswith("turngraph/") for name in names), sorted(names)
    assert not any(stat.S_ISLNK(info.external_attr >> 16) for info in wheel.infolist())
    for room in RIGHT_OF:
        for path in modules(room):
            name = f"turngraph/{path.relative_to(ROOT).as_posix()}"
            assert name in names
            assert wheel.read(name) == path.read_bytes()
    assert {"turngraph/__init__.py", "turngraph/py.typed"} <= names


def test_the_wheel_holds_the_package_data(wheel: zipfile.ZipFile) -> None:
    data = [path for path in (ROOT / "turngraph" / "data").rglob("*") if path.is_file()]
    for path in data:
        assert wheel.read(path.relative_to(ROOT).as_posix()) == path.read_bytes()


def test_the_wheel_names_licence_entry_point_and_extras(wheel: zipfile.ZipFile) -> None:
    info = {name.partition(".dist-info/")[2]: name for name in wheel.namelist() if ".dist-info/" in name}
    assert "turngraph = turngraph.cli:main" in wheel.read(info["entry_points.txt"]).decode()
    assert "licenses/LICENSE" in info
    metadata = wheel.read(info["METADATA"]).decode()
    assert "License-Expression: MIT" in metadata
    for extra in ("cli", "sqlite", "postgres", "mcp", "local", "server", "dev"):
        assert f"Provides-Extra: {extra}" in metadata


def test_the_core_needs_six_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {each.partition(">")[0] for each in project["dependencies"]}
    assert names == {"langgraph", "langchain-core", "langchain-openai", "tiktoken", "pydantic", "langsmith"}
    assert project["requires-python"] == ">=3.11"


def test_langgraph_json_names_the_graph_in_module_form() -> None:
    served = json.loads((ROOT / "langgraph.json").read_text())
    path = served["graphs"]["turn"]["path"]
    module, _, attribute = path.partition(":")
    assert "/" not in path  # a path would load a second copy of the module
    assert (module, attribute) == ("turngraph.graph", "graph")
    assert served["dependencies"] == ["."]
    assert served["graphs"]["turn"]["description"]


def test_langgraph_json_is_valid_and_loads() -> None:
    pytest.importorskip("langgraph_cli")
    from langgraph_cli.config import validate_config_file

    config = validate_config_file(ROOT / "langgraph.json")
    assert config["python_version"] == "3.11"


def test_the_served_graph_has_no_saver_of_its_own() -> None:
    from turngraph.graph import graph

    assert graph.checkpointer is None
    assert graph.store is None
    assert set(graph.get_graph().nodes) >= {"prepare_turn", "call_llm", "dispatch_tools", "interrupt", "finalize"}
