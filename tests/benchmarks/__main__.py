"""Runs a benchmark by name: `python -m tests.benchmarks pipeline --json out.json`."""

import importlib
import sys


def main() -> None:
    """The first argument names a module of this package; it reads the others itself."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python -m tests.benchmarks NAME [options]; each takes --help")
    name = sys.argv.pop(1)
    importlib.import_module(f"tests.benchmarks.{name}").main()


if __name__ == "__main__":
    main()
