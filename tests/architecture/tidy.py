"""What is untidy in a module: too long, undocumented, unfinished, or used by nobody.

Pure functions over source text, so that each rule can be seen to find something
(`test_tidy.py`). The idea is TigerBeetle's.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")


def findings(source: str) -> Iterator[str]:
    """One sentence for each thing that is untidy in a module."""
    lines = source.splitlines()
    if len(lines) > MODULE_LINES_MAX:
        yield f"the module has {len(lines)} lines, {MODULE_LINES_MAX} are allowed"
    tree = ast.parse(source)
    if source.strip() and ast.get_docstring(tree) is None:
        yield "the module has no docstring"
    yield from _long_functions(tree)
    yield from (
        f"line {number} is unfinished: {line.strip()}"
        for number, line in enumerate(lines, 1)
        if UNFINISHED.search(line)
    )


def orphans(sources: Mapping[PurePosixPath, str], entries: Iterable[str]) -> list[str]:
    """Modules that no entry point reaches: a service, a command line, a program of its own.

    That another unreached module imports it does not count. A package is reached with any of its
    modules.
    """
    modules = {_name(path): source for path, source in sources.items()}
    waiting = [*entries, *(name for name, source in modules.items() if _starts(name, source))]
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in reached or name not in modules:
            continue
        reached.add(name)
        waiting += [*imports(modules[name]), *_packages(name)]
    return sorted(set(modules) - reached)


def imports(source: str) -> set[str]:
    """Every dotted name that a module imports, with its parents."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _long_functions(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                yield f"{node.name} has {length} lines, {FUNCTION_LINES_MAX} are allowed"


def _name(path: PurePosixPath) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _starts(name: str, source: str) -> bool:
    """Whether it is started as a program."""
    return name.endswith("__main__") or "__main__" in source


def _packages(name: str) -> list[str]:
    """The packages that contain it, whose `__init__` runs when it is imported."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]
