"""Shows the verdicts: a table for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from operations.check.model import Result

EXAMPLES_MAX: Final = 10


def as_json(results: Sequence[Result], records: int) -> str:
    """One document: `ok`, `records` of the log read, and the invariants."""
    return json.dumps(
        {
            "ok": all(result.ok for result in results),
            "records": records,
            "invariants": [_one(result) for result in results],
        },
        indent=2,
    )


def _one(result: Result) -> dict[str, Any]:
    return {
        "id": result.id,
        "what": result.what,
        "checked": result.checked,
        "violations": len(result.violations),
        "examples": [
            {"subject": one.subject, "detail": one.detail}
            for one in result.violations[:EXAMPLES_MAX]
        ],
    }


def print_table(results: Sequence[Result], records: int) -> None:
    """The table, then what was found."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name, justify in (("INVARIANT", "left"), ("", "left"), ("CHECKED", "right")):
        table.add_column(name, justify="right" if justify == "right" else "left")
    table.add_column("VERDICT")
    for result in results:
        verdict = "[green]ok[/]" if result.ok else f"[red]{len(result.violations)} violations[/]"
        table.add_row(result.id, result.what, f"{result.checked:,}", verdict)
    console = Console(highlight=False)
    console.print(table)
    for result in results:
        for one in result.violations[:EXAMPLES_MAX]:
            console.print(f"[red]{result.id}[/] {one.subject}: {one.detail}", soft_wrap=True)
        rest = len(result.violations) - EXAMPLES_MAX
        if rest > 0:
            console.print(f"[red]{result.id}[/] ... and {rest} more")
    console.print(f"{records:,} records of the log read.")
