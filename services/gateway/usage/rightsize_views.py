"""What would have been enough, as it is read."""

from __future__ import annotations

from services.gateway.http.views import View
from shared.core.model.nouns import WorkloadKind
from shared.core.rightsize import Form, SizeVerdict


class RightsizeItem(View, frozen=True, kw_only=True):
    """Work of one team, kind, image and name without its counter, that holds as much of a flavor.

    The proposal is in `form`, `new_gpus`, `new_milli` and `profile`; without one `form` is null.
    """

    team: str
    kind: WorkloadKind
    """What it is for."""
    name: str
    """Its name without the number or digest at the end."""
    image: str
    """Of its first pod set with GPUs; empty: the cluster's default."""
    flavor: str
    gpus: int
    """GPUs, or shares of one, that an attempt holds."""
    milli: int
    """Of each GPU, in thousandths."""
    verdict: SizeVerdict
    """smaller: there is a proposal; memory, compute or form: why there is none."""
    use_percent: int
    """Mean use of what was measured."""
    unmeasured_percent: int
    """Part of what was held while no report counted, rounded up."""
    run_hours: int
    """For so many hours attempts of it held their GPUs."""
    busy_percent: int
    """Use of a GPU that 95 % of the time does not exceed."""
    memory_mib: int
    """Used memory of a GPU that 99 % of the time does not exceed."""
    form: Form | None
    """What would have been enough; null: nothing smaller."""
    new_gpus: int
    """GPUs, instances or shares of the proposal."""
    new_milli: int
    """Of each of them, in thousandths of a GPU."""
    profile: str
    """MIG profile of the proposal; else empty."""
    saved_gpu_ms: int
    """GPU-milliseconds that the proposal would not have held."""
    saved_microdollars: int
    """What they cost at the present price of the flavor, in millionths of a dollar."""
    message: str
    """The same in a sentence."""


class RightsizeReport(View, frozen=True, kw_only=True):
    """Work that uses less than 40 % of what it holds: the largest saving first."""

    since: str
    """The first day that is looked at (UTC), a Monday."""
    items: tuple[RightsizeItem, ...]
    """The largest saving first."""
    left_out: int
    """How many more items there are than `limit`."""
    busy: int
    """Classes of work that use enough."""
    short: int
    """Classes that ran for less than 20 hours."""
    unmeasured: int
    """Classes of which more than 20 % is unmeasured, or no memory is known."""
    saved_gpu_ms: int
    """Of all items, also of those left out."""
    saved_microdollars: int
    """The same in millionths of a dollar."""
