"""One queue or cohort of the quota tree: its limits, its use, and what it may still take.

`used` is what the ledger charged; what is taken counts the promises of nominations without an
answer besides. Both count, of what is charged below, the part that the members pass on.
"""

from __future__ import annotations

from collections.abc import Iterator

from shared.core.model.amounts import Amount
from shared.core.model.units import UNLIMITED
from shared.core.quota.document import NOTHING, FlavorLimits, QuotaDocument
from shared.core.quota.limits import (
    NO_QUOTA,
    PASSING,
    QuotaLimits,
    above,
    exceeding,
    least,
    plus,
    reach,
)


class QuotaNode:
    """A node with its sums by flavor. Only `core.quota.tree` changes one."""

    __slots__ = (
        "children",
        "debt",
        "document",
        "lent_in",
        "limits",
        "name",
        "parent",
        "promised",
        "used",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.document: QuotaDocument | None = None
        self.parent: QuotaNode | None = None
        self.children: dict[str, QuotaNode] = {}
        self.limits: dict[str, QuotaLimits] = {}
        """Of the flavors that it or a member has named; `limits_in` answers for any."""
        self.lent_in: dict[str, list[int]] = {}
        """Sum of what the members may lend, beyond `UNLIMITED` so that it can be taken off."""
        self.used: dict[str, list[int]] = {}
        self.promised: dict[str, list[int]] = {}
        """Beyond `used`, where nominations without an answer are placed."""
        self.debt = 0
        """Counts as share beside what it borrows, in parts per million (quota/deficits.py)."""

    def path(self) -> Iterator[QuotaNode]:
        """This node and its ancestors, to the root."""
        node: QuotaNode | None = self
        while node is not None:
            yield node
            node = node.parent

    @property
    def root(self) -> QuotaNode:
        """The top of the tree in which this node hangs."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    @property
    def is_queue(self) -> bool:
        """Whether work is queued here; what is not applied yet is neither queue nor cohort."""
        return self.document is not None and self.document.kind == "queue"

    def limits_in(self, flavor: str) -> QuotaLimits:
        """The limits in a flavor, named or not."""
        found = self.limits.get(flavor)
        if found is not None:
            return found
        return NO_QUOTA if self.parent is None or self.is_queue else PASSING

    # ── what documents say ───────────────────────────────────────────────────────────────────

    def own(self, flavor: str) -> FlavorLimits | None:
        """What its document says of the flavor."""
        return self.document.flavors.get(flavor) if self.document is not None else None

    def nominal(self, flavor: str) -> Amount:
        """Its own quota, a cohort's without that of its members."""
        return self.limits_in(flavor).nominal

    def owned(self, flavor: str) -> Amount:
        """Its nominal quota and what its members own that they may lend."""
        return self.limits_in(flavor).owned

    def guaranteed(self, flavor: str) -> Amount:
        """What is owned and never lent."""
        return self.limits_in(flavor).guaranteed

    def potential(self, flavor: str) -> Amount:
        """What would be available if nothing were used anywhere. O(depth)."""
        limits = self.limits_in(flavor)
        if self.parent is None:
            return limits.ceiling
        return least(limits.ceiling, plus(limits.guaranteed, self.parent.potential(flavor)))

    # ── what is used ─────────────────────────────────────────────────────────────────────────

    def charged(self, flavor: str) -> Amount:
        """`used` in one flavor."""
        used = self.used.get(flavor, NOTHING)
        return used[0], used[1], used[2]

    def taken(self, flavor: str) -> Amount:
        """Used and promised."""
        used = self.used.get(flavor, NOTHING)
        promised = self.promised.get(flavor, NOTHING)
        return used[0] + promised[0], used[1] + promised[1], used[2] + promised[2]

    def available(self, flavor: str) -> Amount:
        """What may still be taken here, unit by unit; negative when over. O(depth).

        What is left of its guaranteed part and what the cohort offers, within its borrowing
        limit: the most that keeps `taken <= ceiling` at every level.
        """
        parent = self.parent.available(flavor) if self.parent is not None else None
        return reach(self.limits_in(flavor), self.taken(flavor), parent)

    def unpromised(self, flavor: str) -> Amount:
        """`available`, if no promise were kept."""
        parent = self.parent.unpromised(flavor) if self.parent is not None else None
        return reach(self.limits_in(flavor), self.charged(flavor), parent)

    def borrowed(self, flavor: str) -> Amount:
        """Use above what is owned."""
        return exceeding(self.charged(flavor), self.owned(flavor))

    def spare(self, flavor: str) -> Amount:
        """What it owns and has not taken, whatever holds it now."""
        return exceeding(self.owned(flavor), self.taken(flavor))

    def lent(self, flavor: str) -> Amount:
        """Of what it owns and does not use, the part that others use now.

        What a cohort's members borrow comes from its own pool first, then from its members by
        what each has to spare, rounded down. O(depth x members): for reports, not for
        decisions.
        """
        if self.parent is None:
            return NOTHING
        return self.parent.lent_by_members(flavor)[self.name]

    def lent_by_members(self, flavor: str) -> dict[str, Amount]:
        """What each member lends now (see `lent`), by name. O(depth x members)."""
        gpu, cpu, memory = (_lent_by_members(self, flavor, unit) for unit in range(3))
        return {name: (gpu[name], cpu[name], memory[name]) for name in self.children}


def _spare(node: QuotaNode, flavor: str, unit: int) -> int:
    """What `node` offers its cohort in one unit and does not use itself."""
    limits = node.limits_in(flavor)
    if limits.lendable[unit] >= UNLIMITED:
        return UNLIMITED
    passed_on = above(node.charged(flavor), limits.guaranteed)[unit]
    return max(0, limits.lendable[unit] - passed_on)


def _lent_by_members(cohort: QuotaNode, flavor: str, unit: int) -> dict[str, int]:
    members = cohort.children.values()
    spares = {one.name: _spare(one, flavor, unit) for one in members}
    wanted = sum(one.borrowed(flavor)[unit] for one in members)
    if cohort.parent is not None:
        wanted += _lent_by_members(cohort.parent, flavor, unit)[cohort.name]
    wanted = max(0, wanted - cohort.nominal(flavor)[unit])
    total = sum(spares.values())
    given = min(wanted, total)
    return {name: given * spare // total if total else 0 for name, spare in spares.items()}
