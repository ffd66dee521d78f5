"""Quota and placement together as their loops drive them, each held against its reference."""

from shared.core.model.value import replace
from shared.core.quota.queue_policy import QueuePolicy
from shared.events import nodes, organisation, pods, quotas, workloads
from shared.events.topics import ORGANISATION_FACTS
from tests.support.placement_driver import a_node, a_workload, command, pod_fact
from tests.support.queue_asked import Asked
from tests.support.queue_history import (
    COHORTS,
    FLAVORS,
    KINDS,
    NODES,
    PRICE,
    QUEUES,
    TEAMS,
    limits_of,
)
from tests.support.queue_placed import Placed
from tests.unit.admission.support import received

TO_PLACEMENT = (
    quotas.WorkloadNominated,
    quotas.NominationWithdrawn,
    quotas.QuotaChanged,
    quotas.QueueUsageTold,
    quotas.DebtsTold,
)
ROUNDS_MAX = 1_000


class System:
    """Both services, and what is on its way between them; `window` is (in all, for each queue)."""

    def __init__(self, *, window=None, placement_first=False, single=True):
        self.asked, self.placed = Asked(window), Placed()
        self.to_quota, self.to_placement = [], []
        self.placement_first, self.single = placement_first, single
        self.offset, self.version = 0, 1
        for flavor in FLAVORS:
            self.play(("flavor", flavor, False))
        for name in NODES:
            self.play(("grow", name))
        for name, parent in (("top", ""), ("left", "top"), ("right", "top")):
            self.play(("document", name, parent, {}, 1, {}, QueuePolicy()))
        for name, parent in zip(QUEUES, ("left", "left", "right", "top"), strict=True):
            quota = {"h100": (1, None, None)} | ({"l40s": (1, 1, 0)} if name == "a" else {})
            self.play(("document", name, parent, quota, 1, {}, QueuePolicy()))

    @property
    def now_ms(self):
        return self.placed.driver.now_ms

    def play(self, step):
        """One step, and all that follows from it until both are quiet."""
        getattr(self, step[0])(*step[1:])
        turns = (self.turn_of_quota, self.turn_of_placement)
        for _ in range(ROUNDS_MAX):
            moved = [turn() for turn in (turns[::-1] if self.placement_first else turns)]
            if not any(moved):
                return self.asked.check_quiet()
        raise AssertionError("they never come to an end")

    def turn_of_quota(self):
        count = 1 if self.single else len(self.to_quota)
        batch, self.to_quota = self.to_quota[:count], self.to_quota[count:]
        messages = [self.received(one) for one in batch]
        messages = messages or list(self.asked.handler.due(self.now_ms))
        if messages:
            said = self.asked.decide(messages, self.now_ms)
            self.to_placement += [one for one in said if isinstance(one, TO_PLACEMENT)]
        return bool(messages)

    def received(self, payload):
        self.offset += 1
        return received(payload, ORGANISATION_FACTS.name, self.offset, self.now_ms)

    def turn_of_placement(self):
        placed, batch = self.placed, self.to_placement
        self.to_placement = []
        messages = [placed.driver.message(one) for one in batch]
        messages = messages or list(placed.driver.handler.due(self.now_ms))
        if messages:
            known = self.asked.handler.reads()
            self.to_quota += [one for one in placed.decide(messages) if type(one) in known]
            self.to_placement, placed.answers = placed.answers, []
        return bool(messages)

    # ── steps ──

    def submit(self, queue, pod_count, gpus, cpu_milli, priority, choice):  # noqa: PLR0917
        name = f"w{len(self.placed.states):04}"
        self.placed.states[name] = "queued"
        size = {"pod_count": pod_count, "gpus": gpus, "cpu_milli": cpu_milli, "memory_mib": 0}
        work = a_workload(
            name, queue=queue, team=TEAMS[queue], priority=priority, **size, **choice
        )
        work = replace(work, submitted_at_ms=self.now_ms)
        self.tell_both(workloads.WorkloadQueued(workload=work, body_hash=""))

    def tell_both(self, payload):
        self.to_quota.append(payload)
        self.to_placement.append(payload)

    def pick(self, number, *states):
        found = [name for name, state in self.placed.states.items() if state in states]
        return found[number % len(found)] if found else None

    def finish(self, number):
        name = self.pick(number, "running")
        if name is not None:
            attempt = self.placed.driver.record(name).attempt
            self.to_placement.append(pod_fact(pods.PodsFinished, name, attempt, succeeded=True))

    def evict(self, number):
        name = self.pick(number, "running")
        if name is not None:
            self.to_placement.append(command(workloads.RequestEviction, name))

    def cancel(self, number):
        self.command(number, workloads.CancelWorkload)

    def hold(self, number):
        self.command(number, workloads.HoldWorkload)

    def release(self, number):
        self.command(number, workloads.ReleaseWorkload)

    def reprioritise(self, number, priority):
        kind = workloads.ReprioritiseWorkload
        self.command(number, kind, priority_class="any", priority=priority)

    def command(self, number, kind, **more):
        name = self.pick(number, "queued", "running", "held")
        if name is not None:
            self.tell_both(command(kind, name, **more))

    def document(self, name, parent, flavors, weight, switches, policy):  # noqa: PLR0917
        self.version += 1
        common = {"name": name, "version": self.version, "weight": weight}
        common["flavors"] = limits_of(flavors)
        if name in COHORTS:
            self.to_quota.append(organisation.CohortApplied(**common, parent=parent))
        else:
            rest = {"team": TEAMS[name], "policy": policy, **switches}
            self.to_quota.append(organisation.QueueApplied(**common, cohort=parent, **rest))

    def budget(self, team, budget):
        self.version += 1
        policy = {"version": self.version, "default_queue": "a", "budget": budget}
        self.to_quota.append(organisation.TeamApplied(name=team, **policy))

    def flavor(self, name, spot):
        self.version += 1
        kind = KINDS[name]
        self.to_quota.append(
            organisation.FlavorApplied(
                name=name,
                version=self.version,
                products=kind.products,
                spot=spot or kind.spot,
                price_microdollars_per_gpu_hour=PRICE,
            )
        )

    def wait(self, ms):
        self.placed.driver.now_ms += ms

    def grow(self, name):
        """One more GPU than before, two or three at first."""
        gpus, flavor = self.placed.sizes.get(name, 1 + int(name[-1])) + 1, NODES[name]
        node = a_node(name, gpus=gpus, flavor=flavor, product=KINDS[flavor].products[0])
        self.version += 1
        self.to_placement.append(nodes.NodeInventoryReported(node=node, generation=self.version))

    def cordon(self, name):
        self.to_placement.append(nodes.CordonNode(node=name, actor="alice"))

    def uncordon(self, name):
        self.to_placement.append(nodes.UncordonNode(node=name, actor="alice"))
