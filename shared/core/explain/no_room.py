"""Not even one pod finds room: the nearest miss, by what the pod asks for."""

from __future__ import annotations

from shared.core.cluster import Cluster
from shared.core.decision import Reason, Refusal
from shared.core.demand import Gang, PodDemand
from shared.core.explain.free import (
    FreeByNuma,
    FreeGpus,
    FreeShares,
    FreeSlices,
    free_by_numa,
    free_gpus,
    free_shares,
    free_slices,
)
from shared.core.explain.miss import gpus_together, short_of
from shared.core.explain.survey import Survey, room_for
from shared.core.wording import count, has, pod_needs


def no_room(cluster: Cluster, found: Survey, gang: Gang, demand: PodDemand) -> Refusal | None:
    """A refusal if no node has room for one pod of `demand`."""
    if room_for(cluster, found.kinds, demand, gang.team, 1, distinct=False):
        return None
    needs = pod_needs(demand, gang)
    if demand.profile:
        return _no_slices(found, needs, free_slices(found.kinds, demand))
    whole = free_gpus(found.kinds, demand)
    if demand.milli:
        return _no_share(found, gang.team, demand, needs, whole)
    head = f"One node must have {needs}"
    if demand.aligned and whole.with_gpus:
        return _not_aligned(found, demand, head, whole, free_by_numa(cluster, found.kinds, demand))
    return _no_whole(found, demand, head, whole)


# ── whole GPUs ───────────────────────────────────────────────────────────────


def _no_whole(found: Survey, demand: PodDemand, head: str, free: FreeGpus) -> Refusal:
    if demand.gpus and not free.with_gpus:
        message = (
            f"{head}; the best of {found.open}, {free.best_node}, has {free.best_free} free "
            f"({free.free} in all{free.more})."
        )
        help_ = "Wait for GPUs to come free, or ask for fewer on one node."
    else:
        of = f"of {count(found.open, 'node')}"
        have = f"{of} {free.with_gpus} have the GPUs, but" if demand.gpus else of
        short_cpu = free.with_gpus - free.with_cpu
        message = f"{head}; {have} {short_cpu} lack CPU and {free.with_cpu} memory."
        help_ = "Ask for less CPU or memory, or wait for pods to end."
    return _refusal(message, help_, _whole_evidence(found, free))


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


# ── shares ───────────────────────────────────────────────────────────────────


def _no_share(found: Survey, team: str, demand: PodDemand, needs: str, whole: FreeGpus) -> Refusal:
    shares = free_shares(found.kinds, team)
    return _refusal(
        f"One GPU must have {needs}; team {team} shares "
        f"{count(shares.team_gpus, 'GPU')} with at most {shares.best_milli} milli-GPU free, "
        f"{count(whole.free, 'GPU')} are free, and "
        f"{_why_no_share(demand, whole, shares)}{whole.more}.",
        "Wait for shares to end, or ask for less of a GPU, CPU or memory.",
        found.evidence()
        | whole.evidence
        | {
            "gpus_shared_by_team": shares.team_gpus,
            "best_shared_milli_free": shares.best_milli,
        },
    )


def _why_no_share(demand: PodDemand, whole: FreeGpus, shares: FreeShares) -> str:
    if whole.free or shares.best_milli >= demand.milli:
        return "those with enough milli-GPU lack GPU memory, or their nodes lack CPU or memory"
    return "no GPU is free to be opened"


# ── MIG ──────────────────────────────────────────────────────────────────────


def _no_slices(found: Survey, needs: str, slices: FreeSlices) -> Refusal:
    have = (
        f"{count(slices.gpus, 'GPU')} in MIG mode have {slices.free_slices} free eighths, "
        f"at most {slices.best_free_slices} on one"
    )
    reason = Reason.NO_CAPACITY
    help_ = "Wait for instances to end, or choose a smaller profile."
    message = f"A pod needs {needs} ({slices.size} eighths of a GPU); {have}."
    if not slices.gpus:
        reason = Reason.NO_MIG_POSITION
        message = f"A pod needs {needs}, but no healthy GPU that matches is in MIG mode."
        help_ = "Ask for a whole GPU or a share, or ask an operator to switch GPUs to MIG."
    elif slices.positions:
        message = (
            f"One node must have {needs}; {have}, with {slices.positions} legal positions, "
            "but on no node enough of them together with the CPU and memory."
        )
        help_ = "Ask for fewer instances, less CPU or memory, or wait for pods to end."
    elif slices.best_free_slices >= slices.size:
        reason = Reason.NO_MIG_POSITION
        message = f"{message[:-1]}, but at no legal start."
    return _refusal(message, help_, found.evidence() | _mig_evidence(slices), reason)


def _mig_evidence(slices: FreeSlices) -> dict[str, int]:
    return {
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
