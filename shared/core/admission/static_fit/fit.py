"""Could this ever run? A workload against the empty fleet (mission A5, M5, M6, M7).

Only necessary conditions are checked, one pod set at a time and then their sum, so nothing that
could be placed is ever refused; what is refused here would wait for ever. A refusal says what is
missing and the nearest thing that would fit. A gang runs in one flavor.
"""

from __future__ import annotations

from shared.core.admission.fleet_shape import Composition, FleetShape, NodeShape
from shared.core.admission.static_fit.capacity import capacity, holds, pods_per_node
from shared.core.admission.static_fit.refusals import (
    for_gpu_work,
    no_node,
    not_aligned,
    slice_too_large,
    too_large,
    too_many_slices,
    too_wide,
    unmet,
)
from shared.core.admission.static_fit.sliced import sliced_capacity
from shared.core.admission.static_fit.wishes import Wish, takes_cpu_work, wishes
from shared.core.model.charges import gpu_milli as pod_gpu_milli
from shared.core.model.charges import least_count
from shared.core.model.decision import FieldError
from shared.core.model.nouns import PodSet, WorkloadSpec


def fitting_flavors(
    spec: WorkloadSpec, fleet: FleetShape
) -> tuple[frozenset[str], FieldError | None]:
    """Flavors in which the whole gang fits on an empty fleet, or what stands in the way.

    O(different shapes x pod sets), plus O(different domains) with a required level. The spec is
    well formed and its defaults are filled. An empty fleet refuses nothing, and says nothing.
    """
    if not fleet.shapes:
        return frozenset(), None
    flavors = None
    for index, pod_set in enumerate(spec.pod_sets):
        usable, error = _usable(f"pod_sets[{index}]", pod_set, spec, fleet.shapes)
        if error is not None:
            return frozenset(), error
        here = {shape.flavor for shape in usable}
        flavors = here if flavors is None else flavors & here
    if not flavors:
        return frozenset(), FieldError(
            field="pod_sets",
            value="",
            rule="all pod sets must fit one flavor of nodes; no flavor holds every one of them",
            remedy="ask for pod sets that nodes of one flavor hold, or submit them apart",
        )
    whole = {one for one in flavors if holds(spec, one, fleet.shapes)}
    if not whole:
        return frozenset(), too_large(spec, flavors, fleet.shapes)
    level = spec.topology.required
    if level is not None:
        domains = fleet.compositions(level)
        whole = {one for one in whole if any(holds(spec, one, domain) for domain in domains)}
        if not whole:
            return frozenset(), too_wide(spec, flavors, domains)
    return _with_slices(spec, whole, fleet)


def _with_slices(
    spec: WorkloadSpec, flavors: set[str], fleet: FleetShape
) -> tuple[frozenset[str], FieldError | None]:
    """Those of `flavors` with domains for all slices of each set, or what stands in the way."""
    for index, pod_set in enumerate(spec.pod_sets):
        path = f"pod_sets[{index}]"
        for at, each in enumerate(pod_set.slices):
            domains = fleet.compositions(each.level)
            most = {
                one: max(capacity(pod_set, spec, one, domain) for domain in domains)
                for one in flavors
            }
            flavors = {one for one in flavors if most[one] >= each.pods}
            if not flavors:
                path = f"{path}.slices[{at}].pods"
                return frozenset(), slice_too_large(path, each, max(most.values()))
        if pod_set.slices:
            whole = {one: sliced_capacity(pod_set, spec, one, fleet.alike()) for one in flavors}
            flavors = {one for one in flavors if whole[one] >= least_count(pod_set)}
            if not flavors:
                return frozenset(), too_many_slices(path, pod_set, spec, max(whole.values()))
    return frozenset(flavors), None


def _usable(
    path: str, pod_set: PodSet, spec: WorkloadSpec, shapes: Composition
) -> tuple[list[NodeShape], FieldError | None]:
    left, met = list(shapes), list[Wish]()
    for wish in wishes(pod_set, spec.gpu_choice):
        kept = [shape for shape in left if wish[2](shape)]
        if not kept:
            return [], unmet(wish, met, left, shapes)
        left = kept
        met.append(wish)
    if not pod_gpu_milli(pod_set.gpu):
        left = [shape for shape in left if takes_cpu_work(shape)]
        if not left:
            return [], for_gpu_work(path)
    fitting = [shape for shape in left if pods_per_node(pod_set, shape)]
    if not fitting:
        return [], no_node(path, pod_set, left)
    if not spec.topology.numa_aligned:
        return fitting, None
    aligned = [shape for shape in fitting if pods_per_node(pod_set, shape, aligned=True)]
    if aligned:
        return aligned, None
    return [], not_aligned(path, pod_set, fitting)
