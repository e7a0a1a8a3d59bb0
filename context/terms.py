"""What requests are made under, besides the tape and its anchors."""

from collections.abc import Sequence
from dataclasses import dataclass

from turngraph.context.budget import Budget, budget_of
from turngraph.context.tokens import ToolLike
from turngraph.state.settings import ModelProfile, TurnSettings


@dataclass(frozen=True, slots=True)
class ViewTerms:
    """The same for every request of a turn to one model.

    `tools` are counted only; `blocks` follow the base prompt in the system message; `profile` None is the settings'
    own; `calibration` is how many tokens the provider counts where we count one.
    """

    settings: TurnSettings
    tools: Sequence[ToolLike] = ()
    blocks: Sequence[str] = ()
    profile: ModelProfile | None = None
    calibration: float = 1.0

    @property
    def budget(self) -> Budget:
        """The arithmetic of the window; counts the tools anew each time."""
        return budget_of(self.settings, self.tools, self.calibration)

    @property
    def system(self) -> tuple[str, ...]:
        """The parts of the system message."""
        return (self.settings.system_prompt, *self.blocks)

    @property
    def accepted(self) -> ModelProfile:
        """What the model takes."""
        return self.profile or self.settings.model_profile
