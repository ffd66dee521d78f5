"""What monitoring knows of the use of GPUs: accounts of attempts, readings of nodes, totals.

What was settled is written down by node with each report that changes it, so a kill loses
nothing: a report that is not committed is read again. An entry costs one report, not one
workload, and all entries of a batch are one row of the journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from shared.core.quota.prices import Price, Purchase, price_at
from shared.core.usage import Reading, UseAmounts
from shared.ports.reader import Reader
from shared.runtime.journal import Journal

ACCOUNT: Final = "c"
NODE_USE: Final = "g"
MEASURED: Final = "m"
PRICES: Final = (
    "SELECT flavor, version, applied_at_ms, microdollars_per_gpu_hour, purchase"
    " FROM monitoring.flavor_price UNION ALL"
    " SELECT flavor, version, applied_at_ms, microdollars_per_gpu_hour, purchase"
    " FROM monitoring.dated_price"
)


class Sums(msgspec.Struct, array_like=True):
    """Milli-GPU milliseconds, added up in place."""

    used: int = 0
    unused: int = 0
    unmeasured: int = 0
    microjoules: int = 0
    """What the boards drew meanwhile, by what was held of each."""

    def add(self, more: UseAmounts | Sums) -> None:
        """Both together."""
        if isinstance(more, Sums):
            self.microjoules += more.microjoules
        self.used += more.used
        self.unused += more.unused
        self.unmeasured += more.unmeasured


class ChargedAttempt(msgspec.Struct, array_like=True):
    """An attempt at one size, as the cost ledger charges it."""

    attempt: int
    resizes: int
    team: str
    queue: str
    namespace: str
    flavor: str
    gpu_milli: int
    started_ms: int
    day: int
    """The first day that may still change."""
    told_ms: int
    """When it was told last; at first when it began."""


class NodeUse(msgspec.Struct, array_like=True):
    """The newest reading of a node, and what is settled since by workload and day."""

    settled_ms: int
    at_ms: int = 0
    percent: tuple[int, ...] = ()
    instances: tuple[tuple[int, int, int], ...] = ()
    sums: dict[str, dict[int, Sums]] = {}
    memory_mib: tuple[int, ...] = ()
    """Used memory by index of the GPU."""
    watts: tuple[int, ...] = ()
    """Power by index of the GPU."""

    @property
    def reading(self) -> Reading:
        """As the core knows it."""
        return Reading(
            at_ms=self.at_ms, percent=self.percent, instances=self.instances, watts=self.watts
        )


class ClassUse(msgspec.Struct, array_like=True):
    """What was seen of like work in a week; milli-GPU milliseconds, and weights by value."""

    week: int
    """Day (since 1970-01-01) of its Monday."""
    team: str
    kind: str
    name: str
    image: str
    flavor: str
    gpus: int
    """GPUs or shares of an attempt."""
    gpus_each: int
    """GPUs of a pod."""
    milli: int
    """Of each GPU."""
    used: int = 0
    unused: int = 0
    unmeasured: int = 0
    percents: dict[int, int] = {}
    memory: dict[int, int] = {}


DECODERS: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    ACCOUNT: msgspec.json.Decoder(ChargedAttempt),
    NODE_USE: msgspec.json.Decoder(NodeUse),
    MEASURED: msgspec.json.Decoder(Sums),
}


class UseMemory:
    """Part of the memory of monitoring, in the same journal."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.accounts: dict[str, ChargedAttempt] = {}
        """By workload; in the order in which they are told."""
        self.nodes: dict[str, NodeUse] = {}
        self.closed: dict[tuple[str, str], Sums] = {}
        """Of days and attempts that are over, by (team, flavor)."""
        self.totals: dict[tuple[str, str], Sums] = {}
        """With what is settled of the others: these only grow."""
        self.prices: dict[str, list[Price]] = {}

    async def load(self, reader: Reader) -> None:
        """Fill it from the journal, which is loaded, and from the prices of the ledger."""
        accounts = self.journal.of_kind(ACCOUNT)
        self.accounts = dict(sorted(accounts.items(), key=lambda one: one[1].told_ms))
        self.nodes = self.journal.of_kind(NODE_USE)
        for key, sums in self.journal.of_kind(MEASURED).items():
            team, flavor = key.split("/", 1)
            self.closed[team, flavor] = sums
            self.total(team, flavor).add(sums)
        for node in self.nodes.values():
            for workload_id, days in node.sums.items():
                account = self.accounts[workload_id]
                for sums in days.values():
                    self.total(account.team, account.flavor).add(sums)
        for row in await reader.fetch(PRICES):
            price = Price(
                version=row["version"],
                applied_at_ms=row["applied_at_ms"],
                microdollars_per_gpu_hour=row["microdollars_per_gpu_hour"],
                purchase=Purchase(row["purchase"]),
            )
            self.prices.setdefault(row["flavor"], []).append(price)

    def total(self, team: str, flavor: str) -> Sums:
        """What is settled of a team and flavor, ever."""
        return self.totals.setdefault((team, flavor), Sums())

    def close(self, account: ChargedAttempt, sums: Sums) -> None:
        """A day or an attempt is over."""
        self.closed.setdefault((account.team, account.flavor), Sums()).add(sums)
        closed = self.closed[account.team, account.flavor]
        self.journal.put(MEASURED, f"{account.team}/{account.flavor}", closed)

    def price(self, flavor: str, prices: Sequence[Price]) -> None:
        """A version of a flavor has these prices; told again it changes nothing."""
        known = self.prices.setdefault(flavor, [])
        if all(one.version != prices[0].version for one in known):
            known += prices

    def price_at(self, flavor: str, at_ms: int) -> Price:
        """Of GPU-hours of what begins then."""
        return price_at(self.prices.get(flavor, ()), at_ms)

    def price_of(self, account: ChargedAttempt) -> Price:
        """Of its GPU-hours: the price when it began."""
        return self.price_at(account.flavor, account.started_ms)

    def keep(self, name: str) -> None:
        """Write down what is settled on a node, and its reading for what begins next."""
        self.journal.put(NODE_USE, name, self.nodes[name])

    def forget(self, name: str) -> None:
        """The node is gone."""
        del self.nodes[name]
        self.journal.drop(NODE_USE, name)
