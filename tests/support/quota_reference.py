"""The quota tree once more, in the plainest words: documents and charges in, answers by recursion.

Nothing is kept up to date but what was said, and every answer is worked out from that anew, until
the next word remembered, which only saves time. Whether an amount may be taken is found by
trying: no level may be above its limit because of it. One flavor and one unit at a time, because
they know nothing of each other.
"""

from functools import wraps

from shared.core.model.units import UNLIMITED

UNITS = range(3)


def remembered(function):
    @wraps(function)
    def ask(self, *question):
        key = (function.__name__, *question)
        if key not in self.known:
            self.known[key] = function(self, *question)
        return self.known[key]

    return ask


class ReferenceTree:
    """Limits are (nominal, borrowing limit, lending limit) by flavor; None is no limit."""

    def __init__(self):
        self.documents, self.charges, self.promises, self.known = {}, {}, {}, {}

    def apply(self, document):
        self.documents[document.name] = document
        self.known.clear()

    def charge(self, queue, flavor, amount, sign=1):
        self._count(self.charges, queue, flavor, amount, sign)

    def promise(self, queue, flavor, amount, sign=1):
        self._count(self.promises, queue, flavor, amount, sign)

    def _count(self, sums, queue, flavor, amount, sign):
        before = sums.get((queue, flavor), (0, 0, 0))
        sums[queue, flavor] = tuple(before[unit] + sign * amount[unit] for unit in UNITS)
        self.known.clear()

    def parent(self, name):
        return self.documents[name].parent if name in self.documents else ""

    @remembered
    def children(self, name):
        return [one for one in sorted(self.documents) if self.parent(one) == name]

    @remembered
    def path(self, name):
        return [name, *self.path(self.parent(name))] if name else []

    def limit(self, name, flavor, unit, kind):
        limits = self.documents[name].flavors.get(flavor) if name in self.documents else None
        amount = getattr(limits, kind, None)
        if amount is None:
            return 0 if kind == "nominal" else UNLIMITED
        return amount[unit]

    @remembered
    def owned(self, name, flavor, unit):
        members = sum(self.lendable(one, flavor, unit) for one in self.children(name))
        return min(UNLIMITED, self.limit(name, flavor, unit, "nominal") + members)

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
        if document is not None and document.kind == "queue" and flavor not in document.flavors:
            return 0
        borrowed = self.limit(name, flavor, unit, "borrowing_limit") if self.parent(name) else 0
        return min(UNLIMITED, self.owned(name, flavor, unit) + borrowed)

    @remembered
    def used(self, name, flavor, unit, promised=True, more=None):
        """Charged here, and by the members above what is guaranteed to them.

        `more` is (queue, amount) charged in thought; without what is `promised` if told so.
        """
        sums = (self.charges, self.promises) if promised else (self.charges,)
        own = sum(one.get((name, flavor), (0, 0, 0))[unit] for one in sums)
        own += more[1] if more is not None and more[0] == name else 0
        return own + sum(
            max(
                0,
                self.used(one, flavor, unit, promised, more) - self.guaranteed(one, flavor, unit),
            )
            for one in self.children(name)
        )

    def full(self, queue, flavor, unit, amount):
        """The levels that would exceed their ceiling because of `amount` more in `queue`."""
        for name in self.path(queue):
            before = self.used(name, flavor, unit)
            after = self.used(name, flavor, unit, True, (queue, amount))
            ceiling = self.ceiling(name, flavor, unit)
            if after > before and ceiling < UNLIMITED and after > ceiling:
                yield name

    def fits(self, queue, flavor, unit, amount):
        return not any(self.full(queue, flavor, unit, amount))

    def fits_all(self, queue, flavor, amount):
        return all(self.fits(queue, flavor, one, amount[one]) for one in UNITS if amount[one])

    def fits_empty(self, queue, flavor, amount):
        """Whether it would fit if nothing were used anywhere."""
        empty = ReferenceTree()
        empty.documents = self.documents
        return empty.fits_all(queue, flavor, amount)
