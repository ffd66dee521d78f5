"""Facts of monitoring about where GPU-hours go (docs/adr/0091)."""

from __future__ import annotations

from shared.core.quota.prices import Purchase
from shared.events.workloads import Wire


class AttemptUse(Wire, frozen=True, kw_only=True):
    """What an attempt holds at one size within one day: all of that day so far.

    Amounts are thousandths of a GPU times milliseconds. Used, unused and unmeasured sum to what
    is allocated: the price is that of the time when the attempt got this size.
    """

    workload_id: str
    attempt: int
    resizes: int = 0
    """How often the attempt had changed its size before."""
    team: str
    queue: str
    namespace: str = ""
    """Namespace of its pods; empty: unknown."""
    flavor: str
    day: int
    """Days since 1970-01-01, UTC."""
    used: int
    """Held times use."""
    unused: int
    """Held and measured, without use."""
    unmeasured: int
    """Held while no report counts."""
    price_microdollars_per_gpu_hour: int = 0
    """Price of a GPU-hour in millionths of a dollar."""
    purchase: Purchase = Purchase.ON_DEMAND
    """How the GPUs were paid for when it got this size."""
    ended: bool = False
    """Whether the attempt holds this no more: nothing is told of it again."""


class UsageTold(Wire, frozen=True, kw_only=True):
    """Where GPU-hours went, of some attempts; replaces what was told of each and its day."""

    attempts: tuple[AttemptUse, ...]
    """Each with its day."""
    at_ms: int
    """As of when, Unix milliseconds."""
    cell: int = 0


ClassKey = tuple[str, str, str, str, int, int, int, str]
"""Team, kind, name, flavor, GPUs, GPUs of a pod, milli-GPU of each, image."""


class WorkClassUse(Wire, frozen=True, kw_only=True):
    """What was seen of like work in a week so far (docs/adr/0094).

    Like work is of one team, kind, image and name without its counter, and holds as much of one
    flavor. Amounts are thousandths of a GPU times milliseconds.
    """

    week: int
    """Day (since 1970-01-01, UTC) of the Monday with which it begins."""
    team: str
    kind: str
    """Kind of the work, such as training."""
    name: str
    """Its name without the number or digest at the end."""
    image: str = ""
    """Of its first pod set with GPUs; empty: the cluster's default."""
    flavor: str
    gpus: int
    """GPUs, or shares of one, of an attempt."""
    gpus_each: int = 1
    """GPUs of a pod."""
    milli: int = 1000
    """Of each GPU, in thousandths."""
    used: int
    """Held times use."""
    unused: int
    """Held and measured, without use."""
    unmeasured: int
    """Held while no report counts."""
    percents: tuple[int, ...] = ()
    """Uses of a held GPU that were seen, in per cent of a whole one, the smallest first."""
    percents_ms: tuple[int, ...] = ()
    """For how long each of `percents` was seen, in milliseconds of a held GPU."""
    memory_mib: tuple[int, ...] = ()
    """Upper ends of the classes of used memory of a GPU that were seen, in MiB, the smallest
    first."""
    memory_ms: tuple[int, ...] = ()
    """For how long each of `memory_mib` was seen, in milliseconds of a held GPU."""

    @property
    def key(self) -> ClassKey:
        """What tells its class from others, whatever the week."""
        return (
            self.team,
            self.kind,
            self.name,
            self.flavor,
            self.gpus,
            self.gpus_each,
            self.milli,
            self.image,
        )


class WorkClassesTold(Wire, frozen=True, kw_only=True):
    """What like work makes of its GPUs; replaces what was told of each and its week."""

    classes: tuple[WorkClassUse, ...]
    """Each with its week."""
    at_ms: int
    """As of when, Unix milliseconds."""
    cell: int = 0
