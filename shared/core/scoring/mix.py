"""What pods a flavor is asked for, and how much of it in MIG mode (scoring/learned_counts.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from shared.core.model.demand import Gang
from shared.core.model.mig.profiles import counted_milli
from shared.core.scoring.learned_counts import LearnedCounts
from shared.core.scoring.mig_mix import ProfileMix

LEARNED_MIN: Final = 64
"""Pods before there is a mix to speak of."""
MODES_MILLI_MAX: Final = 16_384_000
"""Milli-GPU remembered by mode at most; then the older weigh half."""


class PodClass(NamedTuple):
    """What is told apart: GPUs, share and CPU of one pod, and the products it is bound to."""

    gpus: int
    milli: int
    cpu_milli: int
    products: tuple[str, ...]

    @property
    def gpu_milli(self) -> int:
        """GPU that one pod holds."""
        return self.gpus * 1000 + self.milli


class ModeMix:
    """Milli-GPU asked for in MIG mode and outside it, fading together."""

    def __init__(self) -> None:
        self._mig_milli = 0
        self._whole_milli = 0
        self._noted = 0

    def note(self, milli: int, *, mig: bool) -> None:
        """Count one request."""
        self._noted += 1
        if mig:
            self._mig_milli += milli
        else:
            self._whole_milli += milli
        if self._mig_milli + self._whole_milli >= MODES_MILLI_MAX:
            self._mig_milli //= 2
            self._whole_milli //= 2

    @property
    def known(self) -> bool:
        """Whether enough was asked to go by."""
        return self._noted >= LEARNED_MIN and self._mig_milli + self._whole_milli > 0

    def mig_share_of(self, gpus: int) -> int:
        """How many of `gpus` would be in MIG mode by what was asked, rounded up."""
        return -(-gpus * self._mig_milli // (self._mig_milli + self._whole_milli))


class DemandMix:
    """Counters of pods by class. `version` changes when the mix in force does."""

    def __init__(self) -> None:
        self.profiles = ProfileMix()
        """MIG instances, which are chosen by prices of their own."""
        self.modes = ModeMix()
        self._pods = LearnedCounts[PodClass](LEARNED_MIN)

    @property
    def counts(self) -> Mapping[PodClass, int]:
        """Pods asked for by class, the older ones weighing less."""
        return self._pods.counts

    @property
    def version(self) -> int:
        """0 while nothing is known."""
        return self._pods.version

    def note(self, gang: Gang, *, placed: bool) -> None:
        """Count the pods of one request."""
        for demand in gang.demands:
            if demand.profile:
                instances = demand.instances * demand.count
                if self.profiles.note(demand.profile, instances, placed=placed):
                    self.modes.note(instances * counted_milli(demand.profile), mig=True)
                continue
            products = gang.choice.products if demand.wants_gpu else ()
            pod_class = PodClass(demand.gpus, demand.milli, demand.cpu_milli, products)
            counted = self._pods.note(pod_class, demand.count, placed=placed)
            if counted and demand.gpu_milli:
                self.modes.note(demand.count * demand.gpu_milli, mig=False)
