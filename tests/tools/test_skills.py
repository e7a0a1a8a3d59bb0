"""Skills: what is read from their folders, what is refused, and that nothing outside a folder can be read."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool

from turngraph.state.errors import InputError
from turngraph.tools.skills import load_skills, skills_block


def write(home: Path, text: str, **files: str) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    (home / "SKILL.md").write_text(text)
    for name, content in files.items():
        (home / name.replace("__", "/")).parent.mkdir(parents=True, exist_ok=True)
        (home / name.replace("__", "/")).write_text(content)
    return home


PDF = """---
name: pdf
description: >
  Work with PDF files.
  Use it for forms.
allowed-tools: Read, Bash(git:*) fill_form
---

# PDF
Do this.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "skills" / "pdf", PDF, scripts__fill="print(1)", reference="all fields")
    write(tmp_path / "skills" / "chart", "\ufeff---\r\ndescription: Draw charts\r\n---\r\nDraw.\r\n")
    (tmp_path / "skills" / "not-a-skill").mkdir()
    (tmp_path / "skills" / "readme.txt").write_text("x")
    (tmp_path / "secret").write_text("secret")
    return tmp_path / "skills"


def test_skills_are_loaded_by_name(folder: Path) -> None:
    chart, pdf = load_skills(folder)
    assert (chart.name, chart.description, chart.body, chart.files) == ("chart", "Draw charts", "Draw.", ())
    assert pdf.description == "Work with PDF files. Use it for forms."
    assert pdf.body == "# PDF\nDo this."
    assert pdf.files == ("reference", "scripts/fill")
    assert pdf.loads == ("Read", "fill_form")
    assert load_skills(str(folder / "pdf")) == [pdf]


def test_files_are_read_on_demand(folder: Path) -> None:
    _, pdf = load_skills(folder)
    (folder / "pdf" / "reference").write_text("newer\x00"[:-1])
    assert pdf.read("reference") == "newer"
    assert pdf.read("./scripts/fill") == "print(1)"
    assert pdf.read("scripts\\fill") == "print(1)"


@pytest.mark.parametrize(
    "path", ["../../secret", "/etc/passwd", "scripts/../../../secret", "", ".", "nope", "SKILL.md", "~/x"]
)
def test_nothing_outside_the_folder_is_read(folder: Path, path: str) -> None:
    _, pdf = load_skills(folder)
    with pytest.raises(InputError, match=r"Files: reference, scripts/fill"):
        pdf.read(path)


def test_links_out_of_the_folder_are_no_files_of_the_skill(folder: Path) -> None:
    (folder / "pdf" / "link").symlink_to(folder.parent / "secret")
    _, pdf = load_skills(folder)
    assert "link" not in pdf.files
    (folder / "pdf" / "reference").unlink()
    (folder / "pdf" / "reference").symlink_to(folder.parent / "secret")
    with pytest.raises(InputError, match="not inside"):
        pdf.read("reference")


def test_hidden_and_binary_files(folder: Path) -> None:
    (folder / "pdf" / ".env").write_text("KEY=1")
    (folder / "pdf" / "image.png").write_bytes(b"\x89PNG\x00\x00")
    _, pdf = load_skills(folder)
    assert pdf.files == ("image.png", "reference", "scripts/fill")
    with pytest.raises(InputError, match="not text"):
        pdf.read("image.png")


def test_a_large_file_is_read_up_to_a_bound(folder: Path) -> None:
    (folder / "pdf" / "reference").write_text("x" * 3_000_000)
    _, pdf = load_skills(folder)
    assert pdf.read("reference").endswith("[only the first 2,000,000 bytes of the file]")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("# no front matter", "front matter between"),
        ("---\nname: x\n---\nbody", "'description'"),
        ("---\ndescription: ''\n---\nbody", "'description'"),
        ("---\ndescription: [unclosed\n---\nbody", "not YAML"),
        ("---\njust text\n---\nbody", "fields such as"),
        ("---\nname: a/b\ndescription: d\n---\nbody", "name 'a/b'"),
        ("---\ndescription: !!python/object/apply:os.getcwd []\n---\nbody", "not YAML"),
    ],
)
def test_a_skill_that_cannot_be_used_is_named(tmp_path: Path, text: str, says: str) -> None:
    write(tmp_path / "bad", text)
    with pytest.raises(InputError, match=says) as caught:
        load_skills(tmp_path)
    assert "bad/SKILL.md" in str(caught.value)


def test_two_skills_of_one_name_and_a_missing_folder_are_refused(folder: Path) -> None:
    write(folder / "pdf2", PDF)
    with pytest.raises(InputError, match="Two skills are named 'pdf'"):
        load_skills(folder)
    with pytest.raises(InputError, match="no folder"):
        load_skills(folder / "nowhere")


def test_tools_come_with_a_skill(folder: Path) -> None:
    def fill(form: str) -> str:
        """Fill a form."""
        return form

    _, pdf = load_skills(folder, tools={"pdf": [fill, tool(fill)]})
    assert [each.name for each in pdf.tools] == ["fill", "fill"]
    with pytest.raises(InputError, match="'nope'"):
        load_skills(folder, tools={"nope": [fill]})


def test_the_block_lists_what_may_be_activated_and_holds_what_is_active(folder: Path) -> None:
    skills = load_skills(folder)
    idle = skills_block(skills, [])
    assert "- chart: Draw charts\n- pdf: Work with PDF files." in idle
    assert "Do this." not in idle
    active = skills_block(skills, ["pdf"])
    assert '<skill name="pdf">\n# PDF\nDo this.' in active
    assert "- scripts/fill" in active
    assert "- pdf:" not in active
    assert skills_block([], ["pdf"]) == ""
    assert skills_block(skills, ["pdf", "chart"]) == skills_block(skills[::-1], {"chart", "pdf"})
    assert "activate_skill" not in skills_block(skills, ["pdf", "chart"])


def test_a_long_list_of_files_is_shortened(folder: Path) -> None:
    for number in range(250):
        (folder / "chart" / f"file{number:03}").write_text("x")
    chart: Any = load_skills(folder)[0]
    assert "50 more" in skills_block([chart], ["chart"])
    assert chart.read("file249") == "x"
