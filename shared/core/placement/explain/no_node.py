"""No node comes in question: none passes the filters, or all that do are out of service."""

from __future__ import annotations

from collections.abc import Iterable

from shared.core.cluster.choice_filters import version
from shared.core.cluster.node_class import NodeClassKey
from shared.core.model.decision import Reason, Refusal
from shared.core.model.demand import Gang, PodDemand
from shared.core.model.nouns import GpuChoice
from shared.core.model.taints import is_for_gpu_work
from shared.core.model.wording import count, listing, pod_needs
from shared.core.placement.explain.survey import Survey
from shared.core.placement.feasibility import Filter

_WORDS = {
    Filter.FLAVOR: "of another flavor",
    Filter.POOL: "in another pool",
    Filter.TAINT: "tainted",
    Filter.NO_GPU: "without a GPU",
    Filter.PRODUCT: "of another product",
    Filter.GPU_MEMORY: "with too little GPU memory",
    Filter.DRIVER: "with too old a driver",
    Filter.CUDA: "with a driver too old for the CUDA version",
    Filter.MIG_PROFILE: "without the MIG profile",
    Filter.SHUNNED: "in quarantine, as nothing started there lately or no agent is heard",
    Filter.PINNED: "kept for gangs that begin before it would end, or for shorter work",
}
_HELP = {
    Filter.FLAVOR: "Wait for quota in another flavor, or for nodes of this one",
    Filter.POOL: "Name another node pool, or none",
    Filter.TAINT: "Name the pool whose nodes are tainted for it, or ask an operator",
    Filter.NO_GPU: "Wait for nodes with GPUs",
    Filter.PRODUCT: "Allow more products",
    Filter.GPU_MEMORY: "Ask for less GPU memory",
    Filter.DRIVER: "Accept an older driver, or ask an operator to upgrade",
    Filter.CUDA: "Use an image with an older CUDA, or ask an operator to upgrade",
    Filter.MIG_PROFILE: "Choose a profile that these GPUs have",
    Filter.SHUNNED: "Wait until they are tried again, which `muster nodes` tells",
    Filter.PINNED: "Wait for these gangs to begin, or for other nodes, or say that it is shorter",
}


def no_node(found: Survey, gang: Gang, demand: PodDemand) -> Refusal | None:
    """A refusal if no node passes the filters, or none that does takes new work."""
    if not found.matching:
        return _none_matches(found, gang, demand)
    if not found.open or (demand.wants_gpu and found.unhealthy_gpus == found.gpus):
        return _all_out(found)
    return None


def _none_matches(found: Survey, gang: Gang, demand: PodDemand) -> Refusal:
    parts = [
        f"{many} {_WORDS[each]}{_nearest(each, found.out[each], gang.choice)}"
        for each, many in found.excluded.items()
    ]
    why = f": {listing(parts)}" if parts else ""
    last = max(found.excluded, key=list(Filter).index, default=None)
    return Refusal(
        reason=_reason(found),
        message=f"None of {count(found.nodes, 'node')} matches {pod_needs(demand, gang)}{why}.",
        next_step=f"{_help(last, found, demand)}." if last else "Wait for nodes to register.",
        evidence=found.evidence(),
    )


def _help(last: Filter, found: Survey, demand: PodDemand) -> str:
    """No pool has work without a GPU on nodes that are for GPU work."""
    if (
        last is Filter.TAINT
        and not demand.wants_gpu
        and all(any(map(is_for_gpu_work, key.taints)) for key in found.out[last])
    ):
        return "Ask for a GPU, or an operator for nodes that take other work"
    return _HELP[last]


def _nearest(out: Filter, node_classes: Iterable[NodeClassKey], choice: GpuChoice) -> str:
    """What is asked for and the best there is, of that which nodes have more or less of."""
    if out is Filter.GPU_MEMORY:
        most = max(key.gpu_memory_mib for key in node_classes)
        return f" (needs {choice.min_memory_mib} MiB, the most is {most})"
    if out is Filter.DRIVER:
        newest = max((key.driver for key in node_classes), key=version)
        return f" (needs {choice.min_driver}, the newest is {newest or 'not known'})"
    if out is Filter.CUDA:
        newest = max((key.cuda for key in node_classes), key=version)
        return f" (needs {choice.cuda}, the newest is {newest or 'not known'})"
    return ""


def _reason(found: Survey) -> Reason:
    """What passes with time is not called a node that does not match."""
    if Filter.PINNED in found.excluded:
        return Reason.NO_CAPACITY
    shunned = Filter.SHUNNED in found.excluded
    return Reason.NODES_UNHEALTHY if shunned else Reason.NO_MATCHING_NODE


def _all_out(found: Survey) -> Refusal:
    alone = found.matching == 1
    who = "The only matching node is" if alone else f"All {found.matching} matching nodes are"
    return Refusal(
        reason=Reason.NODES_UNHEALTHY,
        message=f"{who} out: "
        f"{found.matching - found.open} cordoned, not ready or unhealthy, "
        f"{count(found.unhealthy_gpus, 'GPU')} unhealthy on the others.",
        next_step="It is tried again when a node returns; `muster nodes` shows their state.",
        evidence=found.evidence(),
    )
