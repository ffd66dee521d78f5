"""Whether gangs may have the size that their owner asks for: said before the command is taken.

A spec never changes, so what it allows is known here; when the size is reached is placement's to
say (ADR 34).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from services.gateway.app.context import GatewayContext
from services.gateway.http.problems import invalid
from services.gateway.workloads.spec_reads import ERRORS_MAX, SPECS, not_read_yet
from shared.core.model.decision import FieldError
from shared.core.model.nouns import Workload, WorkloadSpec
from shared.core.placement.resize import sizes_of

_specs: Final = msgspec.json.Decoder(WorkloadSpec)


async def check_sizes(gateway: GatewayContext, identifiers: Sequence[str], pods: int) -> None:
    """Raise a 400 that names every workload which cannot have `pods` pods, and what it can."""
    rows = await gateway.reader.fetch(SPECS, list(identifiers))
    errors = [error for row in rows if (error := _problem(row, pods)) is not None]
    if errors:
        raise invalid(errors[:ERRORS_MAX])


def _problem(row: Mapping[str, Any], pods: int) -> FieldError | None:
    if not row["spec"]:
        return FieldError(field="pods", value=str(pods), rule=not_read_yet(row["id"]))
    workload = Workload(
        id=row["id"],
        team=row["team"],
        queue="",
        cell=0,
        priority=0,
        spec=_specs.decode(row["spec"]),
        submitted_at_ms=0,
    )
    sizes = sizes_of(workload)
    if pods in sizes:
        return None
    return FieldError(field="pods", value=str(pods), rule=f"{row['id']} {_allowed(sizes)}")


def _allowed(sizes: Sequence[int]) -> str:
    if len(sizes) == 1:
        why = "not exactly one of its pod sets has a min_count below its count"
        return f"always has {sizes[0]} pods: {why}"
    step = sizes[0] - sizes[1]
    by = f", in steps of {step}" if step > 1 else ""
    return f"may have {sizes[-1]} to {sizes[0]} pods{by}"
