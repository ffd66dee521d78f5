"""What may go wrong in the simulated cluster, by probability, from one seed.

Every probability is 0 by default and then costs nothing. `refusal` is asked once for each
operation, before it is tried; `reply_lost` once for each, after it was executed; `kubelet` once
for each try of a kubelet to start a pod.
"""

from __future__ import annotations

from random import Random

import msgspec

from shared.ports.cluster import UNKNOWN, PodResult
from shared.simulator.kubelet import Kubelet


class Faults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Probabilities between 0 and 1."""

    reply_lost: float = 0.0
    """An operation is executed, but its answer never arrives."""
    conflict: float = 0.0
    """An operation is answered 409 Conflict and not tried."""
    throttled: float = 0.0
    """An operation is answered 429 and not tried."""
    broken: float = 0.0
    """An operation is answered 500 and not tried."""
    watch_dropped: float = 0.0
    """A watch breaks after a batch of events."""
    kubelet_refuses: float = 0.0
    """A kubelet fails a pod that was bound to its node."""
    cannot_pull: float = 0.0
    """A kubelet cannot pull the image now, and tries again later."""
    cannot_create: float = 0.0
    """A kubelet cannot make the container, as something that it names is missing."""

    def __post_init__(self) -> None:
        """Refuse what is no probability; ValueError."""
        for name in self.__struct_fields__:
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: must be between 0 and 1")


CONFLICT = PodResult(status=409, reason="Conflict")
THROTTLED = PodResult(status=429, reason="TooManyRequests")
BROKEN = PodResult(status=500, reason="InternalError")
LOST = PodResult(status=UNKNOWN, reason="ReplyLost")


class Dice:
    """Draws faults; the same seed and the same questions give the same answers."""

    def __init__(self, faults: Faults, seed: str) -> None:
        self.faults = faults
        self._random = Random(seed)

    def refusal(self) -> PodResult | None:
        """The answer to an operation that is not to be tried, or None."""
        faults = self.faults
        return (
            (CONFLICT if self._falls(faults.conflict) else None)
            or (THROTTLED if self._falls(faults.throttled) else None)
            or (BROKEN if self._falls(faults.broken) else None)
        )

    def reply(self, result: PodResult) -> PodResult:
        """The answer to an executed operation as it arrives."""
        return LOST if self._falls(self.faults.reply_lost) else result

    def kubelet(self) -> Kubelet:
        """What a kubelet does with a pod that is to start."""
        faults = self.faults
        if self._falls(faults.kubelet_refuses):
            return Kubelet.REFUSES
        if self._falls(faults.cannot_pull):
            return Kubelet.CANNOT_PULL
        return Kubelet.CANNOT_CREATE if self._falls(faults.cannot_create) else Kubelet.STARTS

    def watch_dropped(self) -> bool:
        """Whether a watch breaks now."""
        return self._falls(self.faults.watch_dropped)

    def _falls(self, probability: float) -> bool:
        return probability > 0 and self._random.random() < probability
