"""The error of a model that cannot be loaded."""

from turngraph.state.errors import TurnError


class ModelLoadError(TurnError):
    """A model's name cannot be used. The message says what is missing and how to get it; it never holds a key."""
