"""The workload that a whole group of pods is.

Members need not be equal: in order of rank, each run of pods that ask for the same is a pod set.
So the ranks of placement, which go pod set by pod set, are those of the members.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Final

from shared.core.admission.form import POD_SETS_MAX
from shared.core.model.decision import FieldError
from shared.core.model.nouns import GpuChoice, PodSet, WorkloadKind, WorkloadSpec
from shared.core.native.apart import spread_of
from shared.core.native.groups import PodGroup
from shared.core.native.pod import NativePod
from shared.core.native.problems import PRODUCT_LABEL, SHARES, YUNIKORN_GROUP
from shared.core.native.sources import KAI_GROUP, SIZES, VOLCANO_GROUPS

QUEUE_LABELS: Final = ("muster.dev/queue", "kueue.x-k8s.io/queue-name")
CLASS_LABEL: Final = "muster.dev/priority-class"
KIND_LABEL: Final = "muster.dev/kind"
DURATION: Final = "muster.dev/expected-duration-seconds"
READ_ANNOTATIONS: Final = frozenset(
    (
        DURATION,
        *SHARES,
        *SIZES.values(),
        *VOLCANO_GROUPS,
        KAI_GROUP,
        YUNIKORN_GROUP,
    )
)
"""Annotations that say something here; others may be large and need not be kept."""
MIB: Final = 1 << 20
NAME_MAX: Final = 63
DIGITS_MAX: Final = 8
IMAGE: Final = re.compile(r"[^\s]{1,1024}")


def spec_of(
    group: PodGroup,
    members: Sequence[NativePod],
    pool_labels: Collection[str],
    classes: Collection[str] = (),
) -> WorkloadSpec | FieldError:
    """The specification; what is wrong where members differ. O(members).

    Args:
        group: the group, which is whole.
        members: its pods in order of rank, at least one, without a problem of their own.
        pool_labels: label keys by which nodes tell their pool.
        classes: priority classes that Muster knows; another one of a pod is Kubernetes' alone.

    A controller makes pods anew, so a failure is no retry of Muster's.
    """
    first = members[0]
    chosen = next((one for one in members if one.gpus), first)
    runs = [list(run) for _, run in groupby(members, key=_asks)]
    wrong = _different(chosen, members) or _too_many(runs) or _no_seconds(first)
    if wrong is not None:
        return wrong
    kind = first.labels.get(KIND_LABEL, _kind_by(chosen))
    if kind not in {one.value for one in WorkloadKind}:
        return FieldError(
            field=f"metadata.labels[{KIND_LABEL}]",
            value=kind[:64],
            rule="must be one of " + ", ".join(one.value for one in WorkloadKind),
            remedy="choose one of these, or leave it out",
        )
    named = first.labels.get(CLASS_LABEL, "") or first.priority_class
    return WorkloadSpec(
        name=_dns_label(group.name),
        kind=WorkloadKind(kind),
        pod_sets=_pod_sets(runs),
        queue=next((first.labels[one] for one in QUEUE_LABELS if one in first.labels), ""),
        priority_class=named if named in classes or CLASS_LABEL in first.labels else "",
        gpu_choice=_choice(chosen, pool_labels),
        spread=spread_of(members),
        expected_duration_seconds=_seconds(first),
        grace_seconds=max(1, *(one.grace_seconds for one in members)),
        max_retries=0,
    )


def _kind_by(pod: NativePod) -> str:
    """The kind of work that names none: training gets no MIG."""
    parts = bool(pod.asked.mig_profile)
    return (WorkloadKind.BATCH_INFERENCE if parts else WorkloadKind.TRAINING).value


def _different(chosen: NativePod, members: Sequence[NativePod]) -> FieldError | None:
    """A workload has one choice of nodes and one priority; a pod without GPUs may choose none."""
    for one in members:
        free = not one.gpus and not _chooses(one)
        for field, ours, theirs in (
            ("spec.nodeSelector", chosen.node_selector, one.node_selector),
            ("spec.affinity.nodeAffinity", _affinity(chosen), _affinity(one)),
            ("spec.priorityClassName", chosen.priority_class, one.priority_class),
        ):
            if ours != theirs and not (free and field != "spec.priorityClassName"):
                return FieldError(
                    field=field,
                    value=one.name,
                    rule=f"must be the same for all pods of a group; {one.name} differs from"
                    f" {chosen.name}",
                    remedy="give all pods of the group the same",
                )
    return None


def _affinity(pod: NativePod) -> tuple[object, ...]:
    return pod.node_values, pod.node_weights


def _chooses(pod: NativePod) -> bool:
    return bool(pod.node_selector or pod.node_values or pod.node_weights)


def _too_many(runs: Sequence[Sequence[NativePod]]) -> FieldError | None:
    if len(runs) <= POD_SETS_MAX:
        return None
    return FieldError(
        field="spec.containers[].resources",
        value=f"{len(runs)} runs of equal pods",
        rule=f"pods of a group in order of rank must be at most {POD_SETS_MAX} runs of equal ones",
        remedy="name or number the pods so that equal ones follow each other",
    )


def _pod_sets(runs: Sequence[Sequence[NativePod]]) -> tuple[PodSet, ...]:
    names = ["main"] if len(runs) == 1 else [f"main-{number}" for number in range(len(runs))]
    return tuple(_pod_set(run[0], name, len(run)) for name, run in zip(names, runs, strict=True))


def _pod_set(pod: NativePod, name: str, count: int) -> PodSet:
    return PodSet(
        name=name,
        count=count,
        gpu=pod.asked,
        cpu_milli=pod.taken.cpu_milli,
        memory_mib=-(-pod.taken.memory_bytes // MIB),
        image=pod.image if IMAGE.fullmatch(pod.image) else "",
        tolerations=pod.tolerations,
    )


def _choice(pod: NativePod, pool_labels: Collection[str]) -> GpuChoice:
    chosen = pod.node_values | {key: (value,) for key, value in pod.node_selector.items()}
    return GpuChoice(
        products=chosen.get(PRODUCT_LABEL, ()),
        preferred_products=pod.node_weights.get(PRODUCT_LABEL, {}),
        node_pool=next((chosen[one][0] for one in pool_labels if one in chosen), ""),
    )


def _asks(pod: NativePod) -> tuple[object, ...]:
    return pod.taken, pod.asked, pod.tolerations


def _dns_label(name: str) -> str:
    """A name for people that the rules of submissions take."""
    text = re.sub(r"[^a-z0-9-]+", "-", name.lower())[:NAME_MAX].strip("-")
    return text or "pods"


def _seconds(pod: NativePod) -> int | None:
    text = pod.annotations.get(DURATION, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX else None


def _no_seconds(pod: NativePod) -> FieldError | None:
    if DURATION not in pod.annotations or _seconds(pod) is not None:
        return None
    return FieldError(
        field=f"metadata.annotations[{DURATION}]",
        value=pod.annotations[DURATION][:64],
        rule=f"must be whole seconds, at most {DIGITS_MAX} digits",
        remedy="write it so, or leave it out",
    )
