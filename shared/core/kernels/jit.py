"""How functions of the kernels are compiled, and when a compiled copy on disk is out of date.

numba keeps compiled code beside the source, or where NUMBA_CACHE_DIR says, and looks at the one
file with the entry to see whether it still holds. Here the entry calls into several files, so the
code of all functions goes into the key: no back-end ever decides by yesterday's rules.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from types import CodeType
from typing import Any, Final, TypeVar, cast

try:
    import numba
except ImportError:
    numba = None  # type: ignore[assignment]

IS_COMPILED: Final = numba is not None
"""Whether there is a compiler; without it the functions are plain Python, alike but slow."""

Function = TypeVar("Function", bound=Callable[..., Any])

OPTIONS: Final[Any] = {"_nrt": False}
"""No memory is managed: arrays are handed on without counting, atomically and one by one, who
holds them, which is nearly all of the time of functions as small as these."""
INLINED: Final[Any] = {**OPTIONS, "forceinline": True}
"""A call would hand on each array of the index, some 200 words: a third to a half of the time of a
decision. So all functions become part of the one that Python calls."""

_compiled: list[Callable[..., Any]] = []


def compiled(function: Function) -> Function:
    """A function that compiled functions call. It may neither make arrays nor call itself."""
    _compiled.append(function)
    if not IS_COMPILED:
        return function
    return cast("Function", numba.njit(**INLINED)(function))


def entry(example: tuple[object, ...]) -> Callable[[Function], Function]:
    """A function that Python calls, for arguments like `example`: compiled now, or cached."""

    def compile_entry(function: Function) -> Function:
        if not IS_COMPILED:
            return function
        signature = tuple(map(numba.typeof, example))
        # Files of its own for each edition: what another wrote may name modules that are gone,
        # and numba would read it before it finds it out of date.
        function.__qualname__ += f"_{edition():x}"
        try:
            made = numba.njit(signature, cache=True, **OPTIONS)(function)
        except RuntimeError:  # no folder to write to: compiled anew in each process
            made = numba.njit(signature, **OPTIONS)(function)
        return cast("Function", made)

    return compile_entry


def edition() -> int:
    """A number for the code of all `compiled` functions, their options and their constants."""
    hasher = blake2b(repr((OPTIONS, INLINED)).encode(), digest_size=7)
    for function in _compiled:
        code = function.__code__
        names = function.__globals__
        constants = [names.get(name) for name in code.co_names]
        numbers = [each for each in constants if isinstance(each, int | float | tuple)]
        hasher.update(repr((function.__qualname__, _text(code), numbers)).encode())
    return int.from_bytes(hasher.digest(), "big")


def _text(code: CodeType) -> tuple[object, ...]:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    plain = [each for each in code.co_consts if not isinstance(each, CodeType)]
    return code.co_code, code.co_names, plain, *map(_text, inner)
