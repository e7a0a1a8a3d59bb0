"""Skills: folders with a `SKILL.md` that a turn may activate. Loading them, reading their files, their prompt block."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

import yaml  # type: ignore[import-untyped]
from langchain_core.tools import BaseTool

from turngraph.state.errors import InputError
from turngraph.tools.clean import clean
from turngraph.tools.policy import as_tool_object

SKILL_FILE = "SKILL.md"
_MAX_LISTED = 200
_MAX_READ = 2_000_000
"""Bytes of one file that are read."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Skill:
    """One skill in the shape of agentskills.io.

    `body` is the text of SKILL.md without its front matter. `files`: paths below `folder`, with `/`, read on demand.
    `tools` are usable from the round after the activation on; `loads` names deferred tools that activating it loads.
    """

    name: str
    description: str
    body: str
    folder: Path
    files: tuple[str, ...] = ()
    tools: tuple[BaseTool, ...] = ()
    loads: tuple[str, ...] = ()

    def read(self, path: str) -> str:
        """The text of one of the skill's files. Blocking.

        Raises InputError for a path that is not one of `files`: absolute, out of the folder (by `..` or by a link), or
        not there; and for a file that is not text.
        """
        plain = str(PurePosixPath(path.strip().replace("\\", "/")))
        if plain not in self.files:
            raise InputError(f"The skill {self.name!r} has no file {path!r}. Files: {', '.join(self.files) or 'none'}.")
        target = (self.folder / plain).resolve()
        if not target.is_relative_to(self.folder.resolve()) or not target.is_file():
            raise InputError(f"The file {path!r} is not inside the folder of the skill {self.name!r}.")
        with target.open("rb") as handle:
            data = handle.read(_MAX_READ + 1)
        if b"\x00" in data[:8_000]:
            raise InputError(f"The file {path!r} of the skill {self.name!r} is not text.")
        text = clean(data[:_MAX_READ].decode("utf-8", "replace").removeprefix("\ufeff"))
        return text if len(data) <= _MAX_READ else f"{text}\n[only the first {_MAX_READ:,} bytes of the file]"


def load_skills(folder: str | Path, *, tools: Mapping[str, Sequence[Any]] | None = None) -> list[Skill]:
    """The skills of a folder: each folder in it that has a `SKILL.md` (or the folder itself), by name.

    SKILL.md begins with YAML front matter: `description`, `name` (else the folder's), `allowed-tools` (names of
    deferred tools that the activation loads; it never changes a permission). `tools`: by skill name, tools that come
    with it. Blocking: call it when the graph is built. Raises InputError that names the file and what is wrong.
    """
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise InputError(f"There is no folder of skills at {str(folder)!r}.")
    homes = [root] if (root / SKILL_FILE).is_file() else sorted(p for p in root.iterdir() if (p / SKILL_FILE).is_file())
    skills = sorted((_load(home, tools or {}) for home in homes), key=lambda skill: skill.name)
    for left, right in pairwise(skills):
        if left.name == right.name:
            raise InputError(f"Two skills are named {left.name!r}: {left.folder} and {right.folder}.")
    if unknown := set(tools or {}) - {skill.name for skill in skills}:
        raise InputError(f"Tools are given for the skill {min(unknown)!r}, which is not in {str(folder)!r}.")
    return skills


def _load(home: Path, tools: Mapping[str, Sequence[Any]]) -> Skill:
    file = home / SKILL_FILE
    head, body = _split(file)
    name = str(head.get("name") or home.name).strip()
    if not _NAME.fullmatch(name):
        raise InputError(f"{file}: the name {name!r} must be up to 64 letters, digits, '-', '_' or '.'.")
    description = head.get("description")
    if not isinstance(description, str) or not description.strip():
        raise InputError(f"{file}: the front matter needs a 'description': what the skill does and when to use it.")
    made = [as_tool_object(tool) for tool in tools.get(name, ())]
    return Skill(
        name=name,
        description=" ".join(clean(description).split()),
        body=body,
        folder=home,
        files=_files(home),
        tools=tuple(tool for tool in made if isinstance(tool, BaseTool)),
        loads=_names(head.get("allowed-tools")),
    )


def _split(file: Path) -> tuple[dict[str, Any], str]:
    """Front matter and body of a SKILL.md."""
    text = clean(file.read_bytes().decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n"))
    match = _FRONT_MATTER.match(text)
    if match is None:
        raise InputError(f"{file}: it must begin with YAML front matter between two lines of '---'.")
    try:
        head = yaml.safe_load(match.group(1))
    except yaml.YAMLError as error:
        raise InputError(f"{file}: the front matter is not YAML: {error}") from error
    if not isinstance(head, dict):
        raise InputError(f"{file}: the front matter must be fields such as 'description: ...'.")
    return head, text[match.end() :].strip()


def _files(home: Path) -> tuple[str, ...]:
    """The files that belong to a skill: below its folder, not hidden, not a link out of it."""
    inside = home.resolve()
    found = [
        path.relative_to(home).as_posix()
        for path in home.rglob("*")
        if path.is_file()
        and path.resolve().is_relative_to(inside)
        and not any(part.startswith(".") for part in path.relative_to(home).parts)
    ]
    return tuple(sorted(set(found) - {SKILL_FILE}))


def _names(raw: Any) -> tuple[str, ...]:
    """Plain tool names of `allowed-tools`: a list, or a text parted by spaces or commas; patterns are no names."""
    given = re.split(r"[\s,]+", raw) if isinstance(raw, str) else raw if isinstance(raw, list) else []
    return tuple(dict.fromkeys(name for name in map(str, given) if re.fullmatch(r"[A-Za-z0-9_.-]+", name)))


def skills_block(skills: Sequence[Skill], active: Collection[str]) -> str:
    """What the system prompt says of skills: a line for each that may be activated, the whole text of the active ones.

    Law: it depends on nothing but its arguments, and not on the order of `active`. "" where there are no skills.
    """
    ordered = sorted(skills, key=lambda skill: skill.name)
    waiting = [skill for skill in ordered if skill.name not in active]
    parts: list[str] = []
    if waiting:
        lines = "\n".join(f"- {skill.name}: {skill.description}" for skill in waiting)
        parts.append(f"Skills that you can activate with activate_skill, when one fits what is asked:\n{lines}")
    parts.extend(_active(skill) for skill in ordered if skill.name in active)
    return "\n\n".join(parts)


def _active(skill: Skill) -> str:
    text = f'<skill name="{skill.name}">\n{skill.body}'
    if skill.files:
        listed = "\n".join(f"- {path}" for path in skill.files[:_MAX_LISTED])
        more = f"\n- … {len(skill.files) - _MAX_LISTED} more" if len(skill.files) > _MAX_LISTED else ""
        text += f'\n\nFiles, to be read with read_skill_file(skill="{skill.name}", path):\n{listed}{more}'
    return f"{text}\n</skill>"
