"""Equal workloads that wait for the same: looked for at once, as if they were one gang.

An elastic gang that gives up its surplus for one after the other would begin anew from a
checkpoint each time, and each would wait for the grace of those before. So it is asked once.
"""

from __future__ import annotations

from collections.abc import Iterator

from shared.core.model.charges import least_count
from shared.core.model.nouns import Placement, Spread, Workload
from shared.core.model.value import replace
from shared.core.placement.resize import charge_of


def may_crowd(workload: Workload) -> bool:
    """Whether several of it fit exactly where one gang of all their pods would.

    Not where pods differ, or have to lie near each other or apart.
    """
    spec = workload.spec
    one = spec.pod_sets[0]
    apart = spec.spread is not Spread.NONE or spec.topology.required is not None
    like = len(spec.pod_sets) == 1 and not one.slices and least_count(one) == one.count
    return like and not apart


def crowd_of(workload: Workload, count: int) -> Workload:
    """`count` of the workload as one gang, which `may_crowd` allows."""
    spec = workload.spec
    (one,) = spec.pod_sets
    pods = replace(one, count=one.count * count, min_count=None)
    topology = replace(spec.topology, preferred=None)
    return replace(workload, spec=replace(spec, pod_sets=(pods,), topology=topology))


def parts_of(workload: Workload, placement: Placement) -> Iterator[Placement]:
    """What each of the crowd holds of the `placement` of all. O(pods)."""
    pods = sorted(placement.pods, key=lambda pod: pod.rank)
    size = workload.pods
    for first in range(0, len(pods), size):
        own = tuple(replace(pod, rank=rank) for rank, pod in enumerate(pods[first : first + size]))
        yield Placement(flavor=placement.flavor, pods=own, charge=charge_of(workload, own))
