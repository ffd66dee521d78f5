"""How kernels are compiled: without a compiler, and without a folder for the compiled code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from shared.core.kernels import jit


def a_function_without_a_file() -> Callable[[int], int]:
    """There is no folder for numba to keep what comes from no file."""
    names: dict[str, Callable[[int], int]] = {}
    exec("def double(number):\n    return 2 * number\n", names)
    return names["double"]


def test_without_numba_the_functions_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    spec = spec_from_file_location("jit_without_numba", jit.__file__)
    assert spec is not None
    assert spec.loader is not None
    plain = module_from_spec(spec)
    spec.loader.exec_module(plain)

    double = a_function_without_a_file()

    assert not plain.IS_COMPILED
    assert plain.compiled(double) is double
    assert plain.entry((0,))(double) is double


def test_what_cannot_be_kept_on_disk_is_compiled_all_the_same() -> None:
    double = a_function_without_a_file()

    made = jit.entry((0,))(double)

    assert made is not double
    assert made(21) == 42
    assert len(made.signatures) == 1  # type: ignore[attr-defined]


def test_an_edition_does_not_read_the_files_of_another() -> None:
    before, after = a_function_without_a_file(), a_function_without_a_file()

    jit.entry((0,))(before)
    jit._compiled.append(lambda: 1)
    try:
        jit.entry((0,))(after)
    finally:
        jit._compiled.pop()

    assert before.__qualname__ != after.__qualname__
