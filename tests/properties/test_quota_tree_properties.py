"""The quota tree against the reference over random histories, and what always holds."""

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from operations.check.limits import Limits, tree_of
from shared.core.model.amounts import FIELDS
from shared.core.model.units import UNLIMITED, Resources
from shared.core.quota.attainable import Attainable
from shared.core.quota.limits import least
from shared.core.quota.tree import FlavorLimits, QuotaDocument, QuotaTree
from shared.events.quotas import FlavorQuota, QuotaChanged
from tests.support.quota_reference import UNITS, ReferenceTree

FLAVORS = ("h100", "a100")
COHORTS = ("top", "left", "right", "deep")
QUEUES = ("q", "r", "s", "t")
PARENTS = ("", *COHORTS)
"""`deep` hangs below `left` when the histories begin."""

quantity = st.one_of(st.integers(0, 6), st.sampled_from([0, UNLIMITED // 2, UNLIMITED]))
amount = st.tuples(quantity, quantity, quantity)
small = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
large = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
flavor_limits = st.builds(
    FlavorLimits,
    nominal=amount,
    borrowing_limit=st.none() | amount,
    lending_limit=st.none() | amount,
)
flavors = st.dictionaries(st.sampled_from(FLAVORS), flavor_limits)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("apply"), st.sampled_from(QUEUES + COHORTS), st.sampled_from(PARENTS), flavors
        ),
        st.tuples(st.just("charge"), st.sampled_from(QUEUES), st.sampled_from(FLAVORS), small),
        st.tuples(st.just("charge"), st.sampled_from(QUEUES), st.sampled_from(FLAVORS), small),
        st.tuples(st.just("promise"), st.sampled_from(QUEUES), st.sampled_from(FLAVORS), small),
        st.tuples(st.sampled_from(["release", "recall"]), st.integers(0, 20)),
    ),
    max_size=20,
)
USED_MAX = 1000
"""More than any history uses, so that use and a whole unlimited amount stay apart."""
START = [
    ("apply", "left", "top", {"h100": FlavorLimits(nominal=(2, 2, 2))}),
    ("apply", "right", "top", {}),
    ("apply", "deep", "left", {"h100": FlavorLimits(nominal=(1, 1, 1), lending_limit=(0, 0, 0))}),
    ("apply", "q", "deep", {"h100": FlavorLimits(nominal=(4, 4, 4), lending_limit=(1, 1, 1))}),
    ("apply", "r", "left", {"h100": FlavorLimits(nominal=(4, 4, 4), borrowing_limit=(2, 2, 2))}),
    ("apply", "s", "right", {one: FlavorLimits(nominal=(3, 3, 3)) for one in FLAVORS}),
]


class History:
    """Plays steps on both trees; charges only what the tree allows, as the ledger does."""

    def __init__(self):
        self.tree, self.reference = QuotaTree(), ReferenceTree()
        self.version = 0
        self.held: dict[str, list] = {"charge": [], "promise": []}

    def play(self, step):
        getattr(self, step[0])(*step[1:])

    def apply(self, name, parent, quota):
        self.version += 1
        kind = "queue" if name in QUEUES else "cohort"
        document = QuotaDocument(
            name=name, kind=kind, version=self.version, parent=parent, flavors=quota
        )
        node, _ = self.tree.apply(document)
        if node is not None:
            self.reference.apply(document)

    def charge(self, queue, flavor, request, kind="charge"):
        node = self.tree.node(queue)
        fits = self.tree.blocked_by(node, flavor, request) is None
        assert fits == self.expected_fit(queue, flavor, request)
        if fits:
            for tree in (self.tree, self.reference):
                getattr(tree, kind)(queue, flavor, request)
            self.held[kind].append((queue, flavor, request))
            self.check_ceilings(queue, flavor, request)

    def promise(self, queue, flavor, request):
        self.charge(queue, flavor, request, "promise")

    def release(self, number, kind="charge"):
        if self.held[kind]:
            one = self.held[kind].pop(number % len(self.held[kind]))
            for tree in (self.tree, self.reference):
                getattr(tree, kind)(*one, -1)

    def recall(self, number):
        self.release(number, "promise")

    def expected_fit(self, queue, flavor, request):
        return all(
            not request[unit] or self.reference.fits(queue, flavor, unit, request[unit])
            for unit in UNITS
        )

    def check_ceilings(self, queue, flavor, request):
        """What was just charged is within quota and what may be borrowed, at every level."""
        for unit in UNITS:
            less = (queue, -request[unit])
            for name in self.reference.path(queue):
                used = self.reference.used(name, flavor, unit)
                if used > self.reference.used(name, flavor, unit, True, less):
                    assert used <= self.reference.ceiling(name, flavor, unit)

    def check(self):
        for name in QUEUES + COHORTS:
            node = self.tree.node(name)
            for flavor in FLAVORS:
                for unit in UNITS:
                    self.check_unit(node, flavor, unit)

    def check_unit(self, node, flavor, unit):
        reference, where = self.reference, (node.name, flavor, unit)
        limits = node.limits_in(flavor)
        assert limits.owned[unit] == reference.owned(*where)
        assert limits.lendable[unit] == reference.lendable(*where)
        assert limits.guaranteed[unit] == reference.guaranteed(*where)
        assert min(limits.ceiling[unit], UNLIMITED) == reference.ceiling(*where)
        used = reference.used(*where, False)
        assert node.used.get(flavor, (0, 0, 0))[unit] == used
        assert node.taken(flavor)[unit] == reference.used(*where)
        self.check_available(node.available(flavor)[unit], *where)
        owned = reference.owned(*where)
        assert node.borrowed(flavor)[unit] == (max(0, used - owned) if owned < UNLIMITED else 0)
        assert node.lent(flavor)[unit] <= max(0, limits.lendable[unit])

    def check_available(self, available, name, flavor, unit):
        """It fits, and one more does not."""
        if available > 0:
            most = min(available, UNLIMITED - USED_MAX)
            assert self.reference.fits(name, flavor, unit, most)
        if available < UNLIMITED:
            assert not self.reference.fits(name, flavor, unit, max(0, available) + 1)


@given(steps)
@example([("apply", "left", "", {}), ("charge", "q", "h100", (3, 3, 3))])
@example([("charge", "r", "h100", (3, 0, 0)), ("charge", "r", "h100", (3, 0, 0))])
@example([("charge", "q", "h100", (3, 0, 0)), ("apply", "q", "right", {})])
def test_the_tree_says_what_the_reference_says_after_every_step(history):
    played = History()
    for step in [*START, *history]:
        played.play(step)
        played.check()


@given(st.lists(st.tuples(st.sampled_from(QUEUES[:3]), small), max_size=30))
def test_all_that_is_used_is_never_more_than_all_that_is_owned(charges):
    played = History()
    for step in START:
        played.play(step)

    for queue, request in charges:
        played.charge(queue, "h100", request)

    nominal = 2 + 1 + 4 + 4 + 3
    for unit in UNITS:
        used = sum(played.tree.node(one).used.get("h100", [0, 0, 0])[unit] for one in QUEUES)
        assert used <= nominal
        # r may borrow 2, q lends at most 1 of its 4, and the pool of `deep` lends nothing
        assert played.tree.node("r").used.get("h100", [0, 0, 0])[unit] <= 6
        assert played.tree.node("s").used.get("h100", [0, 0, 0])[unit] <= 3 + 2 + 4 + 0
        left_for_q = 3 + 1 - played.tree.node("q").used.get("h100", [0, 0, 0])[unit]
        assert played.tree.node("q").available("h100")[unit] >= left_for_q


@given(steps, st.sampled_from(QUEUES), st.sampled_from(FLAVORS), large)
@example([("charge", "r", "h100", (3, 0, 0))], "s", "h100", (6, 0, 0)).via("r holds 3 of 9")
@example([("charge", "r", "h100", (3, 0, 0))], "s", "h100", (7, 0, 0)).via("one too much")
@example([("charge", "q", "h100", (4, 0, 0))], "s", "h100", (9, 0, 0)).via("q never lends it")
@example(
    [("charge", "q", "h100", (4, 0, 0)), ("charge", "s", "h100", (3, 0, 0))],
    "r",
    "h100",
    (6, 0, 0),
)
@example([], "q", "h100", (0, 12, 0)).via("beyond all that is lent")
@example(
    [
        ("apply", "t", "left", {"h100": FlavorLimits(nominal=(3, 3, 3))}),
        ("apply", "r", "left", {"h100": FlavorLimits(nominal=(4, 4, 4))}),
        ("charge", "t", "h100", (3, 0, 0)),
        ("charge", "s", "h100", (3, 0, 0)),
    ],
    "r",
    "h100",
    (7, 0, 0),
).via("a sister takes it, two levels below the limit")
def test_what_can_be_had_is_what_fits_where_others_hold_only_what_they_own(
    history, queue, flavor, request
):
    played = History()
    for step in [*START, *history]:
        played.play(step)
    tree, others = played.tree, QuotaTree()
    for document in played.reference.documents.values():
        others.apply(document)
    for node in tree.node(queue).path():
        for one in node.parent.children.values() if node.parent is not None else ():
            if one is not node:
                held = least(one.taken(flavor), one.owned(flavor))
                others.charge(one.name, flavor, held)

    found = Attainable().fits(tree.node(queue), flavor, request)

    assert found == (others.blocked_by(others.node(queue), flavor, request) is None)


@given(steps, st.integers(0, 5))
def test_a_tree_that_is_built_from_its_rows_is_the_same_tree(history, turn):
    played = History()
    for step in [*START, *history]:
        played.play(step)

    again = QuotaTree()
    documents = list(played.reference.documents.values())
    for document in documents[turn:] + documents[:turn]:
        assert again.apply(document)[1] == ""
    for kind in ("charge", "promise"):
        for queue, flavor, request in played.held[kind]:
            getattr(again, kind)(queue, flavor, request)

    for name in QUEUES + COHORTS:
        for flavor in FLAVORS:
            assert picture(again.node(name), flavor) == picture(played.tree.node(name), flavor)


def picture(node, flavor):
    return (
        node.limits_in(flavor),
        tuple(node.used.get(flavor, (0, 0, 0))),
        node.taken(flavor),
        node.available(flavor),
        node.lent(flavor),
    )


@given(st.lists(st.tuples(st.sampled_from(QUEUES[:3]), small), max_size=12), flavors, flavors)
def test_the_checker_finds_exactly_what_the_tree_refuses(charges, left, right):
    """It shares no code with the tree, and sees facts and sums only."""
    played = History()
    more = [("apply", "left", "top", left), ("apply", "s", "right", right)]
    for step in [("apply", "top", "", {}), *START, *more]:
        played.play(step)
    limits = Limits.of([(told(one), 0) for one in played.reference.documents.values()])

    for queue, request in charges:
        before = len(played.held["charge"])
        played.charge(queue, "h100", request)
        charged = len(played.held["charge"]) > before
        if not charged:
            played.reference.charge(queue, "h100", request)
        used = {
            (name, flavor, unit): sums[index]
            for (name, flavor), sums in played.reference.charges.items()
            for index, unit in enumerate(FIELDS)
        }
        entry = (queue, "h100", dict(zip(FIELDS, request, strict=True)))
        assert charged == (not list(limits.broken((0, 0), used, entry)))
        if not charged:
            played.reference.charge(queue, "h100", request, -1)


@given(flavors, flavors, flavors, flavors)
def test_the_checker_works_out_the_limits_of_the_ledger(top, left, q, s):
    played = History()
    more = [("apply", "left", "top", left), ("apply", "q", "deep", q), ("apply", "s", "left", s)]
    for step in [("apply", "top", "", top), *START, *more]:
        played.play(step)
    tree = tree_of([told(one) for one in played.reference.documents.values()])

    for name in played.reference.documents:
        node = played.tree.node(name)
        for flavor in FLAVORS:
            for index, unit in enumerate(FIELDS):
                limits = node.limits_in(flavor)
                assert limits.ceiling[index] == tree.ceiling(name, flavor, unit)
                assert limits.guaranteed[index] == tree.kept(name, flavor, unit)


def told(document):
    """The document as a fact in the log."""
    quota = [
        FlavorQuota(
            flavor=name,
            nominal=resources(one.nominal),
            borrowing_limit=one.borrowing_limit and resources(one.borrowing_limit),
            lending_limit=one.lending_limit and resources(one.lending_limit),
        )
        for name, one in document.flavors.items()
    ]
    fact = QuotaChanged(
        name=document.name, kind=document.kind, parent=document.parent, flavors=tuple(quota)
    )
    return msgspec.to_builtins(fact)


def resources(units):
    return Resources(**dict(zip(FIELDS, units, strict=True)))
