"""Exit codes, and what a person reads when something went wrong: what, and what to do."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import Any, Final

from muster.errors import (
    Changed,
    MusterError,
    NotAuthorised,
    NotConfigured,
    NotFound,
    Rejected,
    Unreachable,
)


class Exit(IntEnum):
    """What a script can rely on (docs/cli.md): of several, the highest."""

    OK = 0
    FAILURE = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_AUTHORISED = 4
    REJECTED = 5
    UNREACHABLE = 6
    WORKLOAD_FAILED = 100
    NOT_FINISHED = 101
    CANCELLED = 103


class UsageError(Exception):
    """The command line or a file is not what it must be; the text says what to write."""


_CODES: Final[tuple[tuple[type[Exception], Exit], ...]] = (
    (UsageError, Exit.USAGE),
    (NotConfigured, Exit.USAGE),
    (NotFound, Exit.NOT_FOUND),
    (NotAuthorised, Exit.NOT_AUTHORISED),
    (Rejected, Exit.REJECTED),
    (Unreachable, Exit.UNREACHABLE),
)
_ADVICE: Final[tuple[tuple[type[Exception], str], ...]] = (
    (
        NotFound,
        "`muster queue -a` and `muster quota` list what there is, but not of other teams.",
    ),
    (
        NotAuthorised,
        "Check MUSTER_KEY or --key; a team admin makes keys with `muster admin keys create`.",
    ),
    (Changed, "Apply again: the file is then compared with the new document."),
    (
        Unreachable,
        "Check --address or MUSTER_ADDRESS, and `make status` if it runs on this machine.",
    ),
)
_ENDS: Final = {
    "succeeded": Exit.OK,
    "failed": Exit.WORKLOAD_FAILED,
    "cancelled": Exit.CANCELLED,
    "rejected": Exit.REJECTED,
}


def exit_code_of(error: Exception) -> Exit:
    """The exit code of an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.FAILURE)


def exit_code_of_workload(workload: dict[str, Any]) -> Exit:
    """The exit code of a workload that has ended: what is evicted goes back to its queue."""
    return _ENDS.get(workload["state"], Exit.NOT_FINISHED)


def exit_code_of_work(workload: dict[str, Any]) -> int:
    """That of its container where it failed with one, as if it had run here; else as above."""
    own = workload.get("exit_code") or 0
    return own if workload["state"] == "failed" and own else exit_code_of_workload(workload)


def show(error: Exception) -> None:
    """Tell a person on stderr."""
    print(f"error: {_text(error)}", file=sys.stderr)
    if isinstance(error, MusterError):
        for one in error.errors:
            if one.field == "used_by":
                print(f"  {one.value} {one.rule}", file=sys.stderr)
                continue
            given = f" (given: {one.value})" if one.value else ""
            print(f"  {one.field or 'body'}: {one.rule}{given}", file=sys.stderr)
    if "?team=" in str(error):
        print("This is an operator's key: say for which team with --team.", file=sys.stderr)
        return
    for kind, advice in _ADVICE:
        if isinstance(error, kind):
            print(advice, file=sys.stderr)
            return


def _text(error: Exception) -> str:
    """Without the first broken rule, where the rules are listed below."""
    text = str(error)
    if isinstance(error, MusterError) and error.errors:
        first = error.errors[0]
        return text.removesuffix(f": {first.field}: {first.rule}")
    return text
