"""One GPU of a node: what is held of it, and what it still offers."""

from __future__ import annotations

from dataclasses import dataclass

from shared.core.model.mig.table import BEGIN_SHIFT, MEDIA_BIT, held
from shared.core.model.nouns import Gpu, GpuShare
from shared.core.model.units import GPU_MILLI


@dataclass(slots=True)
class GpuUse:
    """What is held of one GPU. `team` owns it while shares are on it."""

    state: int = 0
    """Busy memory slices, by holder, and the bit of the media engines (mig/table.py)."""
    milli: int = 0
    memory_mib: int = 0
    team: str = ""
    gpu: Gpu | None = None
    usable: bool = False
    """Reported, healthy, and on a node that takes new work."""

    def hold(self, team: str, share: GpuShare, *, media: bool) -> None:
        """Charge what one pod holds of it; an overlap is a programmer's error."""
        assert not self.state & share.mask, share
        assert self.milli + share.milli <= GPU_MILLI, share
        self.state |= held(share.mask, media=media)
        self.milli += share.milli
        self.memory_mib += share.memory_mib
        if not share.mask:
            assert self.team in {"", team}, share
            self.team = team

    def free(self, share: GpuShare, *, media: bool) -> None:
        """Undo `hold`."""
        assert self.state & share.mask == share.mask, share
        self.state &= ~(share.mask | share.mask << BEGIN_SHIFT)
        self.milli -= share.milli
        self.memory_mib -= share.memory_mib
        if media:
            self.state &= ~MEDIA_BIT
        if not self.milli:
            self.team = ""

    @property
    def shared(self) -> bool:
        """Whether time-sliced shares are on it."""
        return self.milli > 0 and not self.state

    @property
    def offers_whole(self) -> bool:
        """Whether it may be given away whole, or opened for shares."""
        return self.usable and not self.milli and self.gpu is not None and not self.gpu.mig

    @property
    def offers_mig(self) -> bool:
        """Whether instances may be made on it (if its slices allow)."""
        return self.usable and self.gpu is not None and self.gpu.mig and not self.shared

    @property
    def offers_shares(self) -> bool:
        """Whether its owner may put more shares on it."""
        return self.usable and self.shared and self.gpu is not None and not self.gpu.mig

    @property
    def free_memory_mib(self) -> int:
        """Memory that shares may still take."""
        return (self.gpu.memory_mib if self.gpu else 0) - self.memory_mib
