"""The arithmetic of a context window: what of it is room for messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from turngraph.context.tokens import ToolLike, tool_tokens
from turngraph.state.settings import DEFAULT_CONTEXT_WINDOW, DEFAULT_OUTPUT_RESERVE, SAFETY_MARGIN, TurnSettings


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens as the provider counts them, but `tools` and `room`, which are in our own count.

    `calibration` is how many tokens the provider counts where we count one.
    """

    window: int
    reserved: int
    tools: int
    room: int
    calibration: float

    def billed(self, counted: int) -> int:
        """Our count as the provider's."""
        return counted if self.calibration == 1.0 else ceil(counted * self.calibration)


def budget_of(settings: TurnSettings, tools: Sequence[ToolLike], calibration: float = 1.0) -> Budget:
    """Window − safety margin − output reserve − tool schemas = room for messages; never below 0."""
    window = settings.context_window or DEFAULT_CONTEXT_WINDOW
    reserve = min(settings.max_output_tokens or DEFAULT_OUTPUT_RESERVE, window // 2)
    reserved = ceil(window * SAFETY_MARGIN) + reserve
    schemas = tool_tokens(tools)
    factor = calibration if calibration > 0 else 1.0
    return Budget(window, reserved, schemas, max(0, int((window - reserved) / factor) - schemas), factor)
