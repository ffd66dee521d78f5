"""`muster nodes --summary`: the sum of each flavor, and the largest gang that fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from muster.cli.fleet import mig
from muster.cli.output import Column, Format, field, gpus, show_items

Json = dict[str, Any]
_COLUMNS: Final = (
    Column("FLAVOR", field("flavor")),
    Column("NODES", field("nodes"), right=True, rank=1),
    Column("GPUS", field("gpus"), right=True),
    Column("FREE", field("free_gpus"), right=True),
    Column("USED", lambda one: gpus(one["used_gpu_milli"]), right=True),
    Column("MIG", field("mig_gpus"), right=True),
    Column("CORDONED", field("cordoned_gpus"), right=True),
    Column("UNHEALTHY", field("unhealthy_gpus"), right=True, rank=2),
)
_GANG_COLUMNS: Final = (
    Column("FLAVOR", field("flavor")),
    Column("WITHIN A", lambda one: one["level"] or "flavor"),
    Column("GPUS", field("gpus"), right=True),
    Column("ON FULL NODES", field("full_node_gpus"), right=True, rank=1),
    Column("NODES", field("nodes"), right=True, rank=2),
    Column("POOL", field("pool", "-"), rank=4),
    Column("PLACE", field("place", "-"), rank=3),
)


def show_summary(items: Sequence[Json], output: Format) -> None:
    """A row for each flavor; then, for people, one for each flavor and level of the fabric."""
    columns = (*_COLUMNS, *mig.columns(items, rank=3))
    empty = "No node has reported itself yet."
    show_items(items, output, columns, name="flavor", empty=empty)
    gangs = [{"flavor": one["flavor"], **gang} for one in items for gang in one["largest_gangs"]]
    if gangs and output in (Format.TABLE, Format.WIDE):
        print("\nThe largest gang of whole GPUs that the free devices allow:")
        show_items(gangs, output, _GANG_COLUMNS)
