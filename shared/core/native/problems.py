"""What keeps a pod from being placed as it is: the field, its value, and what to do.

Nothing that decides a place is ignored: a pod that asks for more than Muster honours waits with
an event that says so, and every other pod goes on.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from shared.core.admission.pods import REFERENCE_RULE, is_reference
from shared.core.kubernetes.requests import GPU, MIG, mig_profile
from shared.core.model.decision import FieldError
from shared.core.model.mig.profiles import is_profile_name
from shared.core.native.pod import ContainerGpus, NativePod
from shared.core.native.sources import KAI_GROUP, OWN_GROUP, VOLCANO_GROUPS

PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
MIG_SEED: Final = "nvidia.com/gpu.mig-"
"""A spelling that no device plugin has; `nvidia.com/mig-1g.10gb` is right."""

YUNIKORN_GROUP: Final = "yunikorn.apache.org/task-group-name"
SHARES: Final = (
    "gpu-fraction",
    "gpu-memory",
    "gpu-fraction-num-devices",
    "muster.dev/gpu-milli",
    "muster.dev/gpu-memory-mib",
)
"""Annotations that ask for a part of a GPU, of KAI and as one may guess them of Muster."""
"""Of a group that an annotation names, which is an object: a DNS-1123 subdomain."""
_REMEDY_GROUP: Final = (
    "label the pods muster.dev/group and annotate muster.dev/group-size with their number"
)


def problem_of_pod(pod: NativePod, pool_labels: Collection[str]) -> FieldError | None:
    """The first thing that cannot be honoured; None if there is none.

    `pool_labels`: label keys by which nodes tell their pool.
    """
    return (
        _unreadable(pod)
        or _group_of_others(pod)
        or _misnamed_group(pod)
        or _of_gpus(pod)
        or _not_honoured(pod)
        or _of_selector(pod, pool_labels)
        or _of_affinity(pod, pool_labels)
    )


def _unreadable(pod: NativePod) -> FieldError | None:
    if not pod.problem:
        return None
    return _error(
        "spec.containers[].resources.requests", "", pod.problem, "write quantities as Kubernetes"
    )


def _group_of_others(pod: NativePod) -> FieldError | None:
    if OWN_GROUP in pod.labels or YUNIKORN_GROUP not in pod.annotations:
        return None
    field = f"metadata.annotations[{YUNIKORN_GROUP}]"
    rule = "groups of YuniKorn are not read, so its size is not known"
    return _error(field, pod.annotations[YUNIKORN_GROUP], rule, _REMEDY_GROUP)


def _misnamed_group(pod: NativePod) -> FieldError | None:
    for key in (*VOLCANO_GROUPS, KAI_GROUP):
        name = pod.annotations.get(key)
        if name is not None and not is_reference(name):
            field = f"metadata.annotations[{key}]"
            return _error(field, name, REFERENCE_RULE, "name the PodGroup")
    return None


def _of_gpus(pod: NativePod) -> FieldError | None:
    for key in SHARES:
        if key in pod.annotations:
            rule = "shares of a GPU are not given to pods that others make"
            return _error(f"metadata.annotations[{key}]", pod.annotations[key], rule, _PART)
    wrong = next(filter(None, map(_of_container, pod.gpus)), None)
    if wrong is not None:
        return wrong
    if pod.init_gpus:
        field = "spec.initContainers[].resources.limits"
        return _error(field, GPU, "init containers get no GPU", "ask for it in a container")
    if len(pod.gpus) > 1:
        names = ", ".join(one.container for one in pod.gpus)
        rule = "one container of a pod may ask for GPUs"
        return _error("spec.containers[].resources.limits", names, rule, "use one container")
    return None


def _of_container(one: ContainerGpus) -> FieldError | None:
    for name, amount in one.amounts.items():
        field = f"spec.containers[{one.container}].resources.limits[{name}]"
        if name.startswith(MIG_SEED):
            right = MIG + name.removeprefix(MIG_SEED)
            return _error(field, amount, f"the resource is named {right}", f"ask for {right}")
        if name != GPU and not _is_mig(name):
            rule = f"only whole GPUs ({GPU}) and MIG ({MIG}1g.10gb) are given to pods"
            return _error(field, amount, rule, _SUBMIT)
    if len(one.amounts) > 1:
        field = f"spec.containers[{one.container}].resources.limits"
        return _error(
            field, ", ".join(one.amounts), "one form of GPU for a pod", "ask for one of them"
        )
    return None


def _is_mig(resource: str) -> bool:
    return resource.startswith(MIG) and is_profile_name(mig_profile(resource))


def _not_honoured(pod: NativePod) -> FieldError | None:
    if not pod.not_honoured:
        return None
    rule = "decides a place and is not honoured"
    return _error(pod.not_honoured[0], "", rule, "leave it out, or use another scheduler")


def _of_selector(pod: NativePod, pool_labels: Collection[str]) -> FieldError | None:
    for key, value in pod.node_selector.items():
        if key != PRODUCT_LABEL and key not in pool_labels:
            known = ", ".join((PRODUCT_LABEL, *pool_labels))
            rule = f"is not a label that nodes are chosen by ({known})"
            return _error(f"spec.nodeSelector[{key}]", value, rule, "choose by one of these")
    return None


def _of_affinity(pod: NativePod, pool_labels: Collection[str]) -> FieldError | None:
    known = ", ".join((PRODUCT_LABEL, *pool_labels))
    for key, values in pod.node_values.items():
        field, text = f"spec.affinity.nodeAffinity[{key}]", ", ".join(values)
        if key != PRODUCT_LABEL and key not in pool_labels:
            rule = f"is not a label that nodes are chosen by ({known})"
            return _error(field, text, rule, "choose by one of these")
        if key != PRODUCT_LABEL and len(values) > 1:
            return _error(field, text, "work runs in one pool", "name one")
        if pod.node_selector.get(key, values[0]) not in values:
            rule = f"spec.nodeSelector[{key}] is {pod.node_selector[key]}: no node has both"
            return _error(field, text, rule, "leave one of both out")
    for key in pod.node_weights:
        if key != PRODUCT_LABEL:
            field = f"spec.affinity.nodeAffinity[{key}]"
            rule = f"only products are preferred ({PRODUCT_LABEL})"
            return _error(field, "", rule, "prefer by this label, or leave it out")
    return None


def _error(field: str, value: str, rule: str, remedy: str) -> FieldError:
    return FieldError(field=field, value=value[:64], rule=rule, remedy=remedy)


_PART: Final = (
    "ask for a MIG instance (nvidia.com/mig-1g.10gb) or a whole GPU, or submit the work to Muster"
    " with gpu.milli (muster submit), which makes its pods with a claim of the shared GPU"
)
_SUBMIT: Final = "submit the work to Muster (muster submit), or ask for whole GPUs"
