"""What a tool may ask of the turn besides its result, as a typed artifact."""

from dataclasses import asdict, dataclass
from typing import Any

from turngraph.state.errors import InputError
from turngraph.tools.plain import as_json


@dataclass(frozen=True)
class TurnEffects:
    """The artifact of a tool with `response_format="content_and_artifact"` that acts on the turn.

    context_checkpoint: a summary that takes the place of this turn's earlier rounds in what the model is sent.
    terminate: the final answer; the turn ends after the batch. activate_skills, load_tools: names in force from the
    next round on. artifact: JSON that stays on the tool message. Raises InputError for other types.
    """

    context_checkpoint: str | None = None
    terminate: str | None = None
    activate_skills: tuple[str, ...] = ()
    load_tools: tuple[str, ...] = ()
    artifact: Any = None

    def __post_init__(self) -> None:
        for field in ("context_checkpoint", "terminate"):
            value = getattr(self, field)
            if value is not None and not isinstance(value, str):
                raise InputError(f"TurnEffects.{field} is a text or None, not {type(value).__name__}.")
        for field in ("activate_skills", "load_tools"):
            value = getattr(self, field)
            names = (value,) if isinstance(value, str) else value
            if not isinstance(names, list | tuple | set | frozenset) or not all(
                isinstance(name, str) for name in names
            ):
                raise InputError(f"TurnEffects.{field} is a sequence of names, not {value!r}.")
            ordered = sorted(names) if isinstance(names, set | frozenset) else names
            object.__setattr__(self, field, tuple(dict.fromkeys(ordered)))

    def to_json(self) -> dict[str, Any]:
        """The effects that were asked for, as plain JSON; `artifact` is not part of it."""
        fields = {key: value for key, value in asdict(self).items() if key != "artifact" and value not in (None, ())}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "TurnEffects":
        """The effects that `to_json` wrote. Law: `from_json(e.to_json()) == e` for effects without artifact."""
        return cls(
            context_checkpoint=data.get("context_checkpoint"),
            terminate=data.get("terminate"),
            activate_skills=tuple(data.get("activate_skills", ())),
            load_tools=tuple(data.get("load_tools", ())),
        )


def split_artifact(artifact: Any) -> tuple[TurnEffects | None, Any | None]:
    """A tool's artifact as (effects on the turn, JSON to store).

    What is not JSON is stored as its description in words: artifacts on the tape are plain JSON.
    """
    if isinstance(artifact, TurnEffects):
        return artifact, as_json(artifact.artifact)
    return None, as_json(artifact)
