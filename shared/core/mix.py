"""What is asked of a flavor, learned from the requests themselves, in bounded counters.

Each request counts once for each of its pods; a class that is refused again and again counts once
until one of it is placed, so that retries do not look like demand. Old requests fade: when the
sum reaches `TOTAL_MAX` every counter is halved. Nothing is learned from a trace as a whole
(placement.md 3.2: p_m must be learned online).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from shared.core.demand import Gang
from shared.core.mig_mix import ProfileMix
from shared.core.mig_profiles import counted_milli

TOTAL_MAX: Final = 16_384
"""Pods remembered at most; then the older ones weigh half."""
CLASSES_MAX: Final = 512
"""Kinds of pods told apart at most; the rarest are forgotten first."""
LEARNED_MIN: Final = 64
"""Pods before there is a mix to speak of."""
REFRESH_MAX: Final = 4096
"""Pods after which the mix in force is replaced at the latest."""
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
        self.counts: dict[PodClass, int] = {}
        self.profiles = ProfileMix()
        """MIG instances, which are chosen by prices of their own."""
        self.modes = ModeMix()
        self.version = 0
        """0 while nothing is known."""
        self._total = 0
        self._noted = 0
        self._refresh_at = LEARNED_MIN
        self._refused: set[PodClass] = set()

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
            if placed:
                self._refused.discard(pod_class)
            elif pod_class in self._refused:
                continue
            elif len(self._refused) < CLASSES_MAX:
                self._refused.add(pod_class)
            self._count(pod_class, demand.count)
            if demand.gpu_milli:
                self.modes.note(demand.count * demand.gpu_milli, mig=False)

    def _count(self, pod_class: PodClass, pods: int) -> None:
        self.counts[pod_class] = self.counts.get(pod_class, 0) + pods
        self._total += pods
        self._noted += pods
        if self._total >= TOTAL_MAX or len(self.counts) > CLASSES_MAX:
            self._fade()
        if self._noted >= self._refresh_at:
            self._refresh_at = self._noted + min(self._noted, REFRESH_MAX)
            self.version += 1

    def _fade(self) -> None:
        self.counts = {each: count // 2 for each, count in self.counts.items() if count > 1}
        if len(self.counts) > CLASSES_MAX // 2:
            kept = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
            self.counts = dict(kept[: CLASSES_MAX // 2])
        self._total = sum(self.counts.values())
