"""The `muster` command line: `main` is the entry point.

Reading order: `application` (the commands), `failures` (exit codes), `output` (formats), then
one module for each group of commands.
"""

from __future__ import annotations

import sys

_WITHOUT_SERVER = {"-h", "--help", "--version", "--install-completion", "--show-completion"}


def main() -> None:
    """Run the command line and exit with its code (docs/cli.md)."""
    if len(sys.argv) > 1 and not _WITHOUT_SERVER.intersection(sys.argv):
        _load_http()
    from muster.cli.application import run

    run()


def _load_http() -> None:
    """Load the library of HTTP beside the commands: most of its time it reads certificates.

    That takes a tenth of a second in C, in which the commands are loaded.
    """
    from importlib import import_module
    from threading import Thread

    Thread(target=import_module, args=("aiohttp",), daemon=True).start()
