"""`python -m turngraph.cli`."""

from turngraph.cli import main

main()
