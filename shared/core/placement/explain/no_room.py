"""Not even one pod finds room: the nearest miss, by what the pod asks for."""

from __future__ import annotations

from dataclasses import replace

from shared.core.cluster.node_state import NodeState
from shared.core.model.decision import Reason, Refusal
from shared.core.model.demand import Gang, PodDemand
from shared.core.model.wording import count, has, pod_needs
from shared.core.placement.explain.free import (
    FreeByNuma,
    FreeGpus,
    FreeSlices,
    best_beside,
    free_by_numa,
    free_gpus,
    free_slices,
)
from shared.core.placement.explain.miss import evidence_of, gpus_together, short_of
from shared.core.placement.explain.no_share import no_share
from shared.core.placement.explain.survey import Survey, room_for
from shared.core.scoring import Cluster


def no_room(cluster: Cluster, found: Survey, gang: Gang, demand: PodDemand) -> Refusal | None:
    """A refusal if no node has room for one pod of `demand`."""
    if room_for(cluster, found.node_classes, demand, gang.team, 1, distinct=False):
        return None
    needs = pod_needs(demand, gang)
    if demand.profile:
        return _no_slices(found, needs, free_slices(found.node_classes, demand))
    whole = free_gpus(found.node_classes, demand)
    if demand.milli:
        return no_share(found, gang.team, demand, needs, whole)
    head = f"One node must have {needs}"
    if demand.aligned and whole.with_gpus:
        return _not_aligned(
            found, demand, head, whole, free_by_numa(cluster, found.node_classes, demand)
        )
    return _no_whole(found, demand, head, whole)


# ── whole GPUs ───────────────────────────────────────────────────────────────


def _no_whole(found: Survey, demand: PodDemand, head: str, free: FreeGpus) -> Refusal:
    evidence = _whole_evidence(found, free)
    if demand.gpus and not free.with_gpus:
        message = (
            f"{head}; the best of {found.open}, {free.best_node}, has {free.best_free} free "
            f"({free.free} in all{free.more})."
        )
        help_ = "Wait for GPUs to come free, or ask for fewer on one node."
    else:
        best = best_beside(found.node_classes, demand, demand.gpus)
        assert best is not None, "there are nodes with the GPUs"
        message = f"{head}; {_lacking(found, demand, free, best)}."
        evidence |= evidence_of(best, replace(demand, gpus=0), "best_node")
        help_ = "Ask for less CPU or memory, or wait for pods to end."
    return _refusal(message, help_, evidence)


def _lacking(found: Survey, demand: PodDemand, free: FreeGpus, best: NodeState) -> str:
    """Nodes with the GPUs lack CPU or memory: how many, and what the best of them has."""
    nodes = f"of {count(found.open, 'node')}"
    if demand.gpus:
        nodes += f" {free.with_gpus} {has(free.with_gpus)} the GPUs,"
    if not free.with_cpu:
        none = f"{nodes} but none has the CPU" if demand.gpus else f"{nodes} none has the CPU"
        return f"{none}: the best, {best.name}, has {short_of(best, demand)}"
    also = " the CPU too," if demand.gpus else " the CPU,"
    return (
        f"{nodes} {free.with_cpu} {has(free.with_cpu)}{also} but none of these the memory: the "
        f"best, {best.name}, has {short_of(best, demand)}"
    )


def _not_aligned(
    found: Survey, demand: PodDemand, head: str, free: FreeGpus, by_numa: FreeByNuma
) -> Refusal:
    best, gpus = by_numa.best, gpus_together(by_numa.best, demand)
    many = by_numa.nodes or free.with_gpus
    of = "them" if many <= by_numa.looked_at else f"{by_numa.looked_at} looked at"
    if by_numa.nodes:
        near = f", {by_numa.nodes} in one NUMA domain, but the nearest of {of}, {best.name}, has "
        near += short_of(best, demand)
        help_ = "Ask for less CPU or memory, or wait for pods to end."
    else:
        near = f", but the best of {of}, {best.name}, has {gpus} in one NUMA domain"
        help_ = "Wait for GPUs to come free, or leave topology.numa_aligned out."
    return _refusal(
        f"{head}; {count(free.with_gpus, 'node')} of {found.open} {has(free.with_gpus)} "
        f"{demand.gpus} GPUs free{near}.",
        help_,
        _whole_evidence(found, free)
        | {"best_numa_domain_gpus_free": gpus, "nodes_with_numa_domain_free": by_numa.nodes},
    )


def _whole_evidence(found: Survey, free: FreeGpus) -> dict[str, int]:
    return found.evidence() | {
        "nodes_with_free_gpus": free.with_gpus,
        "nodes_short_of_cpu": free.with_gpus - free.with_cpu,
        "nodes_short_of_memory": free.with_cpu,
        "best_node_gpus_free": free.best_free,
        **free.evidence,
    }


# ── MIG ──────────────────────────────────────────────────────────────────────


def _no_slices(found: Survey, needs: str, slices: FreeSlices) -> Refusal:
    room = (
        f"{count(slices.gpus, 'GPU')} in MIG mode {has(slices.gpus)} "
        f"{count(slices.free_slices, 'free eighth')}, at most {slices.best_free_slices} on one"
    )
    reason = Reason.NO_CAPACITY
    help_ = "Wait for instances to end, or choose a smaller profile."
    message = f"A pod needs {needs} ({count(slices.size, 'eighth')} of a GPU); {room}."
    if not slices.gpus:
        reason = Reason.NO_MIG_POSITION
        message = f"A pod needs {needs}, but no healthy GPU that matches is in MIG mode."
        help_ = "Ask for a whole GPU or a share, or ask an operator to switch GPUs to MIG."
    elif slices.positions:
        message = (
            f"One node must have {needs}; {room}, "
            f"with {count(slices.positions, 'legal position')}, but on no node enough of them "
            "together with the CPU and memory."
        )
        help_ = "Ask for fewer instances, less CPU or memory, or wait for pods to end."
    elif slices.media_taken:
        reason = Reason.NO_MIG_POSITION
        message = (
            f"{message[:-1]}, but no GPU has more than one instance with media engines, and "
            f"{slices.media_taken} with room for it {has(slices.media_taken)} one."
        )
        help_ = "Wait for one of those to end, or choose the profile without +me."
    elif slices.best_free_slices >= slices.size:
        reason = Reason.NO_MIG_POSITION
        message = f"{message[:-1]}, but at no legal start."
    return _refusal(message, help_, found.evidence() | _mig_evidence(slices), reason)


def _mig_evidence(slices: FreeSlices) -> dict[str, int]:
    media = {"mig_gpus_with_media_taken": slices.media_taken} if slices.media_taken else {}
    return media | {
        "mig_gpus": slices.gpus,
        "mig_slices_free": slices.free_slices,
        "mig_best_slices_free": slices.best_free_slices,
        "mig_positions_free": slices.positions,
        "mig_slices_needed": slices.size,
    }


def _refusal(
    message: str, help_: str, evidence: dict[str, int], reason: Reason = Reason.NO_CAPACITY
) -> Refusal:
    return Refusal(reason=reason, message=message, next_step=help_, evidence=evidence)
