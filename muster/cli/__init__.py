"""The `muster` command line: `main` is the entry point.

Reading order: `application` (the commands), `failures` (exit codes), `output` (formats), then
one module for each group of commands.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit with its code (docs/cli.md)."""
    from muster.cli.application import run

    run()
