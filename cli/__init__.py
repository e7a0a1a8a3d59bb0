"""The command line. Importing it is cheap; what a command needs is imported when it runs."""

import sys


def main() -> None:
    """Runs `turngraph`. Says which extra is missing where typer is not installed; exits with the command's code."""
    try:
        from turngraph.cli.app import run_app
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("typer", "rich", "click"):
            raise
        print('The command line is not installed. Install it with: pip install "turngraph[cli]"', file=sys.stderr)
        raise SystemExit(1) from None
    run_app()


__all__ = ["main"]
