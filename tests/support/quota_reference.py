"""The quota tree once more, in the plainest words: documents and charges in, answers by recursion.

Nothing is remembered but what was said, and every answer is worked out from that anew. Whether
an amount may be taken is found by trying: no level may be above its limit because of it. One
flavor and one unit at a time, because they know nothing of each other.
"""

from shared.core.units import UNLIMITED

UNITS = range(3)


class ReferenceTree:
    """Limits are (nominal, borrowing limit, lending limit) by flavor; None is no limit."""

    def __init__(self):
        self.documents = {}
        self.charges = {}
        self.promises = {}
        self._owned = {}

    def apply(self, document):
        self.documents[document.name] = document
        self._owned.clear()

    def charge(self, queue, flavor, amount, sign=1):
        self._count(self.charges, queue, flavor, amount, sign)

    def promise(self, queue, flavor, amount, sign=1):
        self._count(self.promises, queue, flavor, amount, sign)

    def _count(self, sums, queue, flavor, amount, sign):
        before = sums.get((queue, flavor), (0, 0, 0))
        sums[queue, flavor] = tuple(before[unit] + sign * amount[unit] for unit in UNITS)

    # ── the tree ──

    def parent(self, name):
        document = self.documents.get(name)
        return document.parent if document is not None else ""

    def children(self, name):
        return [one for one in sorted(self.documents) if self.parent(one) == name]

    def path(self, name):
        names = []
        while name:
            names.append(name)
            name = self.parent(name)
        return names

    def limit(self, name, flavor, unit, kind):
        document = self.documents.get(name)
        limits = document.flavors.get(flavor) if document is not None else None
        if limits is None:
            return 0 if kind == "nominal" else UNLIMITED
        amount = getattr(limits, kind)
        return UNLIMITED if amount is None else amount[unit]

    # ── what documents say ──

    def owned(self, name, flavor, unit):
        known = self._owned.get((name, flavor, unit))
        if known is None:
            members = sum(self.lendable(one, flavor, unit) for one in self.children(name))
            known = min(UNLIMITED, self.limit(name, flavor, unit, "nominal") + members)
            self._owned[name, flavor, unit] = known
        return known

    def lendable(self, name, flavor, unit):
        return min(self.owned(name, flavor, unit), self.limit(name, flavor, unit, "lending_limit"))

    def guaranteed(self, name, flavor, unit):
        owned, lendable = self.owned(name, flavor, unit), self.lendable(name, flavor, unit)
        if owned == UNLIMITED:
            return 0 if lendable == UNLIMITED else UNLIMITED
        return owned - lendable

    def ceiling(self, name, flavor, unit):
        """What may be used here: a queue may only use flavors that it names."""
        document = self.documents.get(name)
        owned = self.owned(name, flavor, unit)
        if document is not None and document.kind == "queue" and flavor not in document.flavors:
            return 0
        if not self.parent(name):
            return owned
        return min(UNLIMITED, owned + self.limit(name, flavor, unit, "borrowing_limit"))

    # ── what is used ──

    def used(self, name, flavor, unit, *sums, more=None):
        """Charged here, and by the members above what is guaranteed to them.

        `more` is (queue, amount) charged in thought.
        """
        own = sum(one.get((name, flavor), (0, 0, 0))[unit] for one in sums)
        own += more[1] if more is not None and more[0] == name else 0
        return own + sum(
            max(
                0,
                self.used(one, flavor, unit, *sums, more=more)
                - self.guaranteed(one, flavor, unit),
            )
            for one in self.children(name)
        )

    def fits(self, queue, flavor, unit, amount):
        """Whether no level exceeds its ceiling because of `amount` more in `queue`."""
        both = (self.charges, self.promises)
        for name in self.path(queue):
            before = self.used(name, flavor, unit, *both)
            after = self.used(name, flavor, unit, *both, more=(queue, amount))
            ceiling = self.ceiling(name, flavor, unit)
            if after > before and ceiling < UNLIMITED and after > ceiling:
                return False
        return True
