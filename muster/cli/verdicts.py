"""What admission says of new submissions, waited for a moment, and what is told of an end."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from muster.cli.output import note, reason_of
from muster.errors import MusterError

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]
VERDICT_SECONDS: Final = 1.0
"""Admission answers within milliseconds; what it has not judged by then is accepted."""
PAUSE_SECONDS: Final = 0.02
PAUSE_SECONDS_MAX: Final = 0.2
IDS_MAX: Final = 100
"""Workloads of one request."""
TOLD_MAX: Final = 3
"""Workloads that ended for the same reason and are told one by one."""
UNDECIDED: Final = "received"


async def verdicts_of(client: AsyncClient, answers: Sequence[Json]) -> list[Json]:
    """The workloads as they are once admission has judged them all, or `VERDICT_SECONDS` later.

    A gateway that does not answer changes nothing: they were accepted.
    """
    known = {str(one["id"]): dict(one) for one in answers}
    open_ids = [
        identifier
        for identifier, one in known.items()
        if one.get("state") == UNDECIDED or one.get("replayed")
    ]
    with contextlib.suppress(TimeoutError, MusterError):
        async with asyncio.timeout(VERDICT_SECONDS):
            pause = PAUSE_SECONDS
            while open_ids:
                asked = open_ids[:IDS_MAX]
                async for one in client.workloads(id=",".join(asked), limit=len(asked)):
                    known[str(one["id"])] |= one
                    if one["state"] != UNDECIDED:
                        open_ids.remove(str(one["id"]))
                await asyncio.sleep(pause if open_ids else 0)
                pause = min(pause * 1.5, PAUSE_SECONDS_MAX)
    return [known[str(one["id"])] for one in answers]


def tell_reasons(workloads: Iterable[Json]) -> None:
    """A line on stderr for each that did not succeed: its state and why; the same three times."""
    told: Counter[tuple[str, str]] = Counter()
    for one in workloads:
        why = " ".join(filter(None, (_reason(one), str(one.get("message") or ""))))
        if one["state"] == "succeeded" or not why:
            continue
        kind = (str(one["state"]), why)
        told[kind] += 1
        if told[kind] <= TOLD_MAX:
            note(f"{one['id']}  {one.get('name', '')}  {one['state']}: {why}")
    for (state, why), count in told.items():
        if count > TOLD_MAX:
            note(f"{count - TOLD_MAX} more are {state}: {why}")


def _reason(workload: Json) -> str:
    reason = reason_of(workload)
    return f"{reason}:" if reason else ""
