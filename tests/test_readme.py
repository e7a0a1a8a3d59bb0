"""The README tells the truth: its drawing, its table of settings, its names and its local links."""

import re
from pathlib import Path
from typing import Any

from turngraph.graph import TurnSettings, graph

README = (Path(__file__).parents[1] / "README.md").read_text()


def shown_default(field: Any) -> str:
    default = field.get_default(call_default_factory=True)
    if default is None or default in ([], {}):
        return "" if default is None else f"`{default}`"
    return f"`{default}`" if isinstance(default, str | int | float) else ""


def settings_table() -> str:
    """The table of settings as the README holds it."""
    rows = ["| field | default | what it does |", "|---|---|---|"]
    for name, field in TurnSettings.model_fields.items():
        rows.append(f"| `{name}` | {shown_default(field)} | {field.description} |")
    return "\n".join(rows)


def test_the_table_of_settings_is_the_class() -> None:
    assert settings_table() in README, f"put this table into the README:\n\n{settings_table()}"


def test_the_drawing_is_the_served_graphs() -> None:
    drawn = graph.get_graph().draw_mermaid().strip()
    assert drawn in README, f"put this drawing into the README:\n\n{drawn}"


def test_every_import_in_the_readme_exists() -> None:
    for module, names in re.findall(r"^from (turngraph[\w.]*) import (.+)$", README, re.MULTILINE):
        for name in names.split(","):
            assert hasattr(__import__(module, fromlist=["x"]), name.strip()), (module, name)


def test_every_folder_and_target_that_the_readme_names_exists() -> None:
    root = Path(__file__).parents[1]
    for folder in re.findall(r"^\| `(\w+)/` \|", README, re.MULTILINE):
        assert (root / folder).is_dir(), folder
    targets = set(re.findall(r"^([\w-]+):", (root / "Makefile").read_text(), re.MULTILINE))
    for target in re.findall(r"\bmake ([a-z][\w-]*)", README):
        assert target in targets, target


def test_python_blocks_compile() -> None:
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        compile(block, "README.md", "exec", flags=0x2000)  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
