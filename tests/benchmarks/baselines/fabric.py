"""How others place jobs of whole GPUs on a fabric: written from their papers and documents.

- random: any host that fits.
- blind: best fit by free GPUs, whole hosts in a fixed arbitrary order (kube-scheduler's
  MostAllocated, and what Arnold's authors call GPU-packing: nothing knows the fabric).
- hierarchical: gangs as Kueue's topology-aware scheduling (BestFit: the lowest domain that holds
  all; inside it the largest domains first, the last one tight); small jobs blind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

from tests.benchmarks.clos import GPUS, Host, Job


class Hosts:
    """Free GPUs of every host, and the hosts by leaf and by pod, in a fixed arbitrary order."""

    def __init__(self, hosts: Sequence[Host], seed: int) -> None:
        """`seed` decides the order."""
        self.order = list(range(len(hosts)))
        Random(seed).shuffle(self.order)
        self.free = [GPUS] * len(hosts)
        self.pods: dict[str, dict[str, list[int]]] = {}
        """Hosts by pod and leaf."""
        for at in self.order:
            pod = self.pods.setdefault(hosts[at].pod, {})
            pod.setdefault(hosts[at].leaf, []).append(at)

    def whole(self, among: Iterable[int]) -> list[int]:
        """Those of `among` that are wholly free."""
        return [at for at in among if self.free[at] == GPUS]


Rule = Callable[[Hosts, Job], list[int] | None]


class Arrays:
    """A policy of two rules: one for jobs inside a host, one for gangs."""

    def __init__(self, hosts: Sequence[Host], seed: int, small: Rule, gang: Rule) -> None:
        self._hosts = Hosts(hosts, seed)
        self._small = small
        self._gang = gang

    def place(self, job: Job) -> list[int] | None:
        """The host of each pod by rank, charged; or None."""
        found = (self._gang if job.hosts > 1 else self._small)(self._hosts, job)
        for at in found or ():
            self._hosts.free[at] -= job.gpus
            assert self._hosts.free[at] >= 0
        return found

    def release(self, job: Job, held: Sequence[int]) -> None:
        """Give back what `place` gave."""
        for at in held:
            self._hosts.free[at] += job.gpus


def best_fit(hosts: Hosts, job: Job) -> list[int] | None:
    """The host with the fewest free GPUs that suffice."""
    best = None
    for at in hosts.order:
        if hosts.free[at] == job.gpus:
            return [at]
        if hosts.free[at] > job.gpus and (best is None or hosts.free[at] < hosts.free[best]):
            best = at
    return None if best is None else [best]


def any_whole(hosts: Hosts, job: Job) -> list[int] | None:
    """The first wholly free hosts."""
    whole = hosts.whole(hosts.order)
    return whole[: job.hosts] if len(whole) >= job.hosts else None


def random_rules(seed: int) -> tuple[Rule, Rule]:
    """Both rules of `random`."""
    draw = Random(seed)

    def small(hosts: Hosts, job: Job) -> list[int] | None:
        fitting = [at for at in hosts.order if hosts.free[at] >= job.gpus]
        return [draw.choice(fitting)] if fitting else None

    def gang(hosts: Hosts, job: Job) -> list[int] | None:
        whole = hosts.whole(hosts.order)
        return draw.sample(whole, job.hosts) if len(whole) >= job.hosts else None

    return small, gang


def hierarchical(hosts: Hosts, job: Job) -> list[int] | None:
    """The tightest leaf, else the tightest pod, else the pods with most room."""
    free = {pod: [hosts.whole(leaf) for leaf in of.values()] for pod, of in hosts.pods.items()}
    leaves = [leaf for pod in free.values() for leaf in pod if len(leaf) >= job.hosts]
    if leaves:
        return min(leaves, key=len)[: job.hosts]
    pods = sorted(free.values(), key=_size)
    holding = [pod for pod in pods if _size(pod) >= job.hosts]
    found: list[int] = []
    for pod in holding[:1] or reversed(pods):
        found += _from_leaves(pod, job.hosts - len(found))
    return found if len(found) == job.hosts else None


def _size(pod: list[list[int]]) -> int:
    return sum(map(len, pod))


def _from_leaves(leaves: list[list[int]], hosts: int) -> list[int]:
    """Largest leaves first; the last is the smallest that holds what is left."""
    found: list[int] = []
    left = sorted(leaves, key=len)
    while left and len(found) < hosts:
        missing = hosts - len(found)
        at = next((at for at, leaf in enumerate(left) if len(leaf) >= missing), len(left) - 1)
        found += left.pop(at)[:missing]
    return found
