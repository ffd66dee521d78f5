"""What teams hold and have held: GPUs now, GPU-seconds and dollars so far.

Sums by label are changed by each begin and end, so that a scrape costs O(labels). What is held
has the price of when it began until it ends (ADR 22).
"""

from __future__ import annotations

from collections import Counter
from typing import Final, Protocol

import msgspec

from shared.core.model.amounts import Amount
from shared.core.quota.cost import RunningTotal
from shared.runtime.journal import Journal

TOTAL: Final = "t"
COST: Final = "p"
DECODERS: Final = {kind: msgspec.json.Decoder(int) for kind in (TOTAL, COST)}


class Holding(Protocol):
    """What an attempt holds at one size."""

    team: str
    queue: str
    flavor: str
    gpu_milli: int
    charge: Amount
    placed_at_ms: int
    microdollars: int
    """Of a GPU-hour."""
    purchase: str


class HeldTotals:
    """Part of the memory of monitoring, in the same journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.charged: Counter[tuple[str, str, str]] = Counter()
        """Milli-GPU by (team, queue, flavor)."""
        self.charges: Counter[tuple[str, str, Amount]] = Counter()
        """Workloads that hold devices, by (queue, flavor, what quota counts for each)."""
        self.gpus: dict[tuple[str, str], RunningTotal] = {}
        """Milli-GPU milliseconds by (team, flavor)."""
        self.cost: dict[tuple[str, str, str], RunningTotal] = {}
        """The same times microdollars of a GPU-hour, by (team, purchase, flavor)."""

    def load(self) -> None:
        """What has ended, from the journal, which is loaded; what goes on begins anew."""
        for key, ended in self._journal.of_kind(TOTAL).items():
            team, flavor = key.split("/", 1)
            self.gpus[team, flavor] = RunningTotal(ended=ended)
        for key, ended in self._journal.of_kind(COST).items():
            team, purchase, flavor = key.split("/", 2)
            self.cost[team, purchase, flavor] = RunningTotal(ended=ended)

    def begin(self, one: Holding) -> None:
        """It has its devices."""
        self.charged[one.team, one.queue, one.flavor] += one.gpu_milli
        self.charges[one.queue, one.flavor, one.charge] += 1
        self._gpus_of(one).begin(one.gpu_milli, one.placed_at_ms)
        if one.microdollars:
            self._cost_of(one).begin(one.gpu_milli * one.microdollars, one.placed_at_ms)

    def end(self, one: Holding, at_ms: int) -> None:
        """It has given them back."""
        self.charged[one.team, one.queue, one.flavor] -= one.gpu_milli
        kind = (one.queue, one.flavor, one.charge)
        self.charges[kind] -= 1
        if not self.charges[kind]:
            del self.charges[kind]
        total = self._gpus_of(one)
        total.end(one.gpu_milli, one.placed_at_ms, at_ms)
        self._journal.put(TOTAL, f"{one.team}/{one.flavor}", total.ended)
        if one.microdollars:
            cost = self._cost_of(one)
            cost.end(one.gpu_milli * one.microdollars, one.placed_at_ms, at_ms)
            self._journal.put(COST, f"{one.team}/{one.purchase}/{one.flavor}", cost.ended)

    def _gpus_of(self, one: Holding) -> RunningTotal:
        return self.gpus.setdefault((one.team, one.flavor), RunningTotal())

    def _cost_of(self, one: Holding) -> RunningTotal:
        return self.cost.setdefault((one.team, one.purchase, one.flavor), RunningTotal())
