"""The placement service against the reference: whose turn it is, in which flavor, and whole."""

from types import SimpleNamespace
from unittest.mock import patch

from shared.core.model.charges import least_amount
from shared.events import nodes, pods, quotas, workloads
from tests.support.placement_driver import Driver, pod_fact
from tests.support.queue_asked import key
from tests.support.queue_history import FIRST_MS, HALF_LIFE_MS, NODES
from tests.support.reference_queue import ReferenceQueue


class Placed:
    """A handler and its reference; of the nodes of a flavor the free GPUs count.

    On which of them the pods of a gang go is placement's choice; that all of them find room, the
    reference says. Pods do at once what they are told: `answers` is what the binder would say
    next. Promised starts and quota that is kept are left out: they have properties of their own.
    """

    def __init__(self):
        self.driver = Driver()
        self.driver.now_ms = FIRST_MS
        self.reference = ReferenceQueue(HALF_LIFE_MS)
        self.told, self.newest_ms = {}, 0
        self.sizes, self.cordoned = {}, set()
        # Fails when there is no such question any more.
        patch.object(
            self.driver.handler.state.promises._heads, "may_be", return_value=False
        ).start()
        patch.object(self.driver.handler.state.quota_heads, "tried").start()
        self.states, self.running = {}, {}
        self.answers = []

    def decide(self, messages):
        """One batch, and the facts about workloads that came out."""
        self.driver.take(messages)
        later = (workloads.WorkloadPlaced, workloads.PlacementRefused)
        emits = self.driver.outcome.emits
        for message in messages:
            self.hear(message.event.payload)
            for one in emits:
                if one.cause is message and not isinstance(one.payload, later):
                    self.said(one.payload)
        for one in emits:
            if isinstance(one.payload, workloads.WorkloadPlaced):
                self.placed(one.payload)
            elif isinstance(one.payload, workloads.PlacementRefused):
                refused = self.reference.works.get(one.payload.workload_id)
                if refused is not None:  # from then on it waits as any other
                    refused.next_of_own = False
        assert self.next() is None, "somebody could be placed"
        return [one.payload for one in emits]

    def hear(self, payload):
        works = self.reference.works
        self.reference.debts |= getattr(payload, "debts", {})
        match payload:
            case quotas.QuotaChanged():
                self.reference.apply(payload.document())
            case quotas.QueueUsageTold():
                self.told[payload.queue] = payload
                self.newest_ms = max(self.newest_ms, payload.at_ms)
            case quotas.WorkloadNominated(workload=one):
                if self.states[one.id] == "queued":
                    works[one.id] = nomination_of(payload)
            case quotas.NominationWithdrawn():
                known = works.get(payload.workload_id)
                if known is not None and known.nomination == payload.nomination:
                    del works[payload.workload_id]
            case nodes.NodeInventoryReported():
                self.sizes[payload.node.name] = len(payload.node.gpus)
            case nodes.CordonNode():
                self.cordoned.add(payload.node)
            case nodes.UncordonNode():
                self.cordoned.discard(payload.node)
            case _:
                pass

    def said(self, fact):
        match fact:
            case pods.EvictPods():
                self.answers.append(pod_fact(pods.PodsGone, fact.workload_id, fact.attempt))
            case workloads.WorkloadReprioritised():
                known = self.reference.works.get(fact.workload_id)
                if known is not None and known.priority != fact.priority:
                    del self.reference.works[fact.workload_id]
            case workloads.WorkloadEvicted() | workloads.WorkloadCancelling():
                self.states[fact.workload_id] = "stopping"
            case workloads.WorkloadReleasedDevices() | workloads.WorkloadReleased():
                self.states[fact.workload_id] = fact.state.value
                self.reference.works.pop(fact.workload_id, None)
                if fact.workload_id in self.running:
                    work, flavor, _ = self.running.pop(fact.workload_id)
                    self.reference.charge(work.queue, flavor, work.request, -1)
            case _:
                pass

    def placed(self, fact):
        flavor = fact.placement.flavor
        assert self.next() == (fact.workload_id, flavor)
        work = self.reference.works.pop(fact.workload_id)
        self.reference.charge(work.queue, flavor, work.request)
        assert len(fact.placement.pods) == work.pods, "a gang is placed in part"
        held = [pod.node for pod in fact.placement.pods for _ in pod.shares]
        self.running[work.id] = (work, flavor, held)
        assert all(self.free(one) >= 0 for one in held), "more is given than there is"
        self.states[work.id] = "running"
        self.answers.append(pod_fact(pods.PodsRunning, work.id, fact.attempt))

    def next(self):
        """Whoever is first of those that find a place, and in which flavor."""
        works, found = self.reference.works.values(), []
        for work in works:
            before = [one for one in works if one.queue == work.queue and key(one) < key(work)]
            flavor = self.place_for(work)
            if flavor and not (work.strict and any(one.strict for one in before)):
                used = self.used_as_told(work.queue)
                found.append((self.reference.order(work, work.flavors, used), flavor))
        order, flavor = min(found, default=((None,), None))
        return (order[-1], flavor) if flavor else None

    def place_for(self, work):
        document = self.reference.documents.get(work.queue)
        if document is None or document.held or document.draining:
            return ""
        owned = [
            one
            for one in work.flavors
            if self.reference.within_nominal(work.queue, one, work.request)
        ]
        if work.next_of_own and not owned:
            return ""
        named = [one for one in work.flavors if one in document.flavors]
        for flavor in self.reference.to_try(work, named, only_nominal=work.only_nominal):
            quota = self.reference.fits_all(work.queue, flavor, work.request)
            if quota and self.pods_that_fit(work, flavor) >= work.pods:
                return flavor
        return ""

    def pods_that_fit(self, work, flavor):
        open_nodes = [one for one in self.sizes.keys() - self.cordoned if NODES[one] == flavor]
        if not work.gpus:
            return work.pods if open_nodes else 0
        return sum(self.free(one) // work.gpus for one in open_nodes)

    def free(self, node):
        return self.sizes[node] - sum(held.count(node) for _, _, held in self.running.values())

    def used_as_told(self, queue):
        if queue not in self.told:
            return 0
        told = self.told[queue]
        return int(told.gpu_seconds * 2 ** ((told.at_ms - self.newest_ms) / HALF_LIFE_MS))


def nomination_of(fact):
    one = fact.workload
    return SimpleNamespace(
        id=one.id,
        queue=one.queue,
        priority=-fact.order_key[0],
        at_ms=one.submitted_at_ms,
        request=least_amount(one.spec),
        pods=one.pods,
        gpus=one.spec.pod_sets[0].gpu.count,
        flavors=tuple(each.flavor for each in fact.flavors),
        strict=fact.strict,
        only_nominal=fact.within_nominal,
        nomination=fact.nomination,
        next_of_own=fact.next_of_own,
    )
