"""turngraph: one agent turn as a LangGraph state graph."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("turngraph")
except PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0.0.0"

__all__ = ["__version__"]
