"""Quota over random histories, against sums that are counted anew each time."""

from hypothesis import given
from hypothesis import strategies as st

from shared.core.model.amounts import fits
from shared.core.queueing.nomination.decision import Nominate
from shared.core.queueing.nomination.pending import Phase
from shared.core.queueing.nomination.room_by_eviction import Hope
from shared.core.quota.limits import plus
from shared.core.quota.tree import NOTHING
from tests.unit.quota.builders import Desk, a_cohort, a_pending, a_queue

FLAVORS = ("h100", "a100")
QUEUES = ("q", "r")
OPEN = (Phase.OFFERED, Phase.REFUSED)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.integers(1, 4), st.integers(0, 2), st.sampled_from(QUEUES)),
        st.tuples(
            st.sampled_from(
                ["place", "place_other", "refuse", "release", "requeue", "leave", "raise"]
            ),
            st.integers(0, 50),
        ),
        st.tuples(st.just("burst"), st.integers(1, 2), st.integers(0, 1), st.just("q")),
        st.tuples(
            st.just("limits"),
            st.sampled_from(QUEUES),
            st.integers(0, 6),
            st.integers(0, 6),
            st.booleans(),
            st.booleans(),
        ),
    ),
    max_size=40,
)


class History:
    """Plays steps on a desk and checks everything after each."""

    def __init__(self, documents, *, may_shrink, **options):
        self.desk = Desk(*documents, **options)
        self.all = []
        self.may_shrink = may_shrink
        self.exact = True
        self.version = 1

    def play(self, step):
        getattr(self, step[0])(*step[1:])
        self.desk.core.settle()
        for one in self.desk.core.take():
            if isinstance(one, Nominate) and not one.next_of_own:
                self.check_order(one.pending)
        while self.desk.core.unsettled:
            self.desk.settle()
        self.check()

    def one(self, number, *phases):
        found = [one for one in self.all if one.phase in phases]
        return found[number % len(found)] if found else None

    def enter(self, count, priority, queue):
        number = len(self.all)
        pending = a_pending(f"w{number:04}", count, at=number // 3, priority=priority, queue=queue)
        self.all.append(pending)
        self.desk.core.enter(pending)

    def burst(self, count, priority, queue):
        for _ in range(4):
            self.enter(count, priority, queue)

    def place(self, number):
        one = self.one(number, Phase.OFFERED)
        if one is not None:
            self.desk.core.placed(one, one.flavor, one.request, one.attempt + 1)

    def place_other(self, number):
        """Placement charges only what the queue still has in the flavor."""
        one = self.one(number, *OPEN)
        if one is None:
            return
        node = self.desk.core.tree.node(one.queue)
        for flavor in reversed(one.offered):
            if all(fits_beside(one.request, above, flavor) for above in node.path()):
                self.exact = False  # what is promised in that flavor is now promised too much
                self.desk.core.placed(one, flavor, one.request, one.attempt + 1)
                return

    def refuse(self, number):
        one = self.one(number, Phase.OFFERED)
        if one is not None:
            self.desk.core.refused(one, one.nomination)

    def release(self, number):
        one = self.one(number, Phase.PLACED)
        if one is not None:
            self.desk.core.released(one)

    def requeue(self, number):
        one = self.one(number, Phase.PLACED, Phase.IDLE)
        if one is not None:
            self.desk.core.released(one)
            self.desk.core.enter(one)

    def leave(self, number):
        one = self.one(number, Phase.WAITING, *OPEN)
        if one is not None:
            self.desk.core.leave(one)

    def raise_(self, number):
        one = self.one(number, *Phase)
        if one is not None:
            self.desk.core.reprioritise(one, one.priority + number % 3 - 1)

    def __getattr__(self, name):
        if name == "raise":
            return self.raise_
        raise AttributeError(name)

    def limits(self, queue, first, second, strict, held):
        self.version += 1
        document = a_queue(
            queue,
            version=self.version,
            parent="c",
            flavors={"h100": first, "a100": second},
            strict=strict,
            held=held,
        )
        if self.may_shrink:
            self.exact = False
            assert self.desk.core.apply(document)[1] == ""

    def check_order(self, nominated):
        """Nobody with an equal request who still waits was before it."""
        for other in self.all:
            equal = (other.queue, other.request) == (nominated.queue, nominated.request)
            if equal and other.phase is Phase.WAITING:
                assert (nominated.key, nominated.id) < (other.key, other.id)

    def check(self):
        self.check_sums()
        for queue in QUEUES:
            self.check_line(self.desk.core.line(queue))

    def check_sums(self):
        tree = self.desk.core.tree
        for name in (*QUEUES, "c"):
            members = [one for one in self.all if name in (one.queue, "c")]
            node = tree.node(name)
            for flavor in FLAVORS:
                used = total(members, flavor, Phase.PLACED)
                promised = total(members, flavor, Phase.OFFERED)
                assert tuple(node.used.get(flavor, (0, 0, 0))) == used
                assert tuple(node.promised.get(flavor, (0, 0, 0))) == promised
                if self.exact:  # what is owed may be promised while others hold it
                    taken = used[0] + (promised[0] if node.is_queue else 0)
                    assert taken <= node.limits_in(flavor).ceiling[0]
        assert self.desk.core.open == sum(one.phase in OPEN for one in self.all)

    def check_line(self, line):
        waiting = [
            one for one in self.all if one.phase is Phase.WAITING and one.queue == line.name
        ]
        assert line.waiting() == len(waiting)
        self.check_use(line)
        if line.held:
            assert not line.open
            assert all(one.told is not None for one in waiting)
            return
        first = min(waiting, key=lambda one: (one.key, one.id), default=None)
        assert line.head() is first
        for one in waiting:
            assert one.told is not None
            if one.id not in line.announced:
                equal = [each for each in line.announced.values() if each.request == one.request]
                assert all((each.key, each.id) < (one.key, one.id) for each in equal)
            if one is first or not line.strict:
                assert not self.could_go(line, one)

    def check_use(self, line):
        """What is charged by priority and what hopes, counted anew."""
        use: dict = {}
        hoped: dict = {}
        for one in (one for one in self.all if one.queue == line.name):
            if one.phase is Phase.PLACED:
                place = (one.flavor, one.priority)
                use[place] = plus(use.get(place, NOTHING), one.charge)
            if one.hopes_in:
                assert one.phase in OPEN
                assert not one.flavor
                hoped[one.hopes_in] = plus(hoped.get(one.hopes_in, NOTHING), one.request)
        assert (line.use, line.hoped) == (use, hoped)

    def could_go(self, line, one):
        core = self.desk.core
        if core.open >= core.window.open_max and len(line.open) >= core.window.open_each:
            return False
        flavors = line.node.document.flavors
        if any(core.tree.blocked_by(line.node, name, one.request) is None for name in flavors):
            return True
        # Shares move with every promise; whoever may hope is seen when the answer is there.
        settled = all(other.phase is not Phase.OFFERED for other in self.all)
        hope = Hope(core.tree, lambda _: None)
        return settled and any(hope.of(line, name, one.request, one.priority) for name in flavors)


def fits_beside(request, node, flavor):
    """Whether it fits beside what is used at one level; placement does not know of promises."""
    gpu, cpu, memory = node.used.get(flavor, [0, 0, 0])
    return fits(request, (gpu, cpu, memory), node.limits_in(flavor).ceiling)


def total(members, flavor, phase):
    amounts = [
        one.charge if phase is Phase.PLACED else one.request
        for one in members
        if one.phase is phase and one.flavor == flavor
    ]
    return tuple(sum(amount[unit] for amount in amounts) for unit in range(3))


def documents(first=5, second=3):
    quota = {"h100": first, "a100": second}
    return (
        a_cohort("c"),
        a_queue("q", parent="c", flavors=quota),
        a_queue("r", parent="c", flavors=quota, strict=True),
    )


@given(steps)
def test_nominations_never_exceed_quota_and_nobody_waits_who_could_go(history):
    played = History(documents(), may_shrink=False)
    for step in history:
        played.play(step)


@given(steps)
def test_sums_and_turns_hold_while_limits_come_and_go(history):
    played = History(documents(), may_shrink=True)
    for step in history:
        played.play(step)


@given(steps)
def test_sums_and_turns_hold_in_a_narrow_window(history):
    played = History(documents(50, 50), may_shrink=False, open_max=2, open_each=1)
    for step in history:
        played.play(step)


@given(steps)
def test_the_same_history_gives_the_same_decisions(history):
    said = []
    for _ in range(2):
        played = History(documents(), may_shrink=True)
        decisions = []
        for step in history:
            getattr(played, step[0])(*step[1:])
            decisions += played.desk.settle()
        said.append(decisions)

    assert said[0] == said[1]
