"""What turngraph raises. Everything else that can go wrong ends in a receipt."""

from dataclasses import dataclass

from turngraph.state.words import FaultKind


@dataclass(frozen=True)
class ProviderFault:
    """What a provider's failure means: its kind, and the seconds it asked us to wait (None: it named none)."""

    kind: FaultKind
    retry_after: float | None = None
    detail: str = ""
    """What exactly was refused, where that is known: a parameter's name for `parameter_unsupported`."""

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in ("rate_limit", "transport", "bad_generation", "other")


class TurnError(Exception):
    """Base of the errors of turngraph. The thread stays valid whenever one is raised."""


class ProviderError(TurnError):
    """The model call of the first round failed; nothing was gathered. `invoke(None)` tries the round again."""

    def __init__(self, message: str, fault: ProviderFault) -> None:
        super().__init__(message)
        self.fault = fault

    @property
    def retryable(self) -> bool:
        return self.fault.retryable


class TurnConflict(TurnError):
    """Another runner works on this thread. Nothing was changed; try again when it has ended."""


class ResumeError(TurnError):
    """An answer to a pause cannot be applied. Nothing was changed; the message says what would be right."""


class InputError(TurnError, ValueError):
    """The input of a turn cannot be used. Nothing was changed; the message says what would be right."""
