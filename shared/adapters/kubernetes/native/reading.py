"""From the API's objects to what `core/native` reads."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from shared.adapters.kubernetes import naming
from shared.adapters.kubernetes.native.apart import read_apart
from shared.adapters.kubernetes.native.node_affinity import read_node_affinity
from shared.adapters.kubernetes.native.objects import (
    JobObject,
    NativeContainer,
    NativePodObject,
    NativeSpec,
    Toleration,
)
from shared.core.kubernetes.requests import InitContainer, TakenResources, taken_by
from shared.core.model.decision import FieldError
from shared.core.native import READ_ANNOTATIONS, ContainerGpus, GroupObject, NativePod
from shared.ports.cluster import ENDED

READ_AFFINITY: Final = frozenset(("nodeAffinity", "podAffinity", "podAntiAffinity"))
NVIDIA: Final = "nvidia.com/"
INDEXED: Final = "Indexed"
OVER: Final = frozenset(("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"))
"""Conditions of a Job that makes no more pods."""
ALWAYS: Final = "Always"
GRACE_SECONDS: Final = 30


def read_native_pod(found: NativePodObject) -> NativePod | None:
    """The pod; None of one that a Muster itself made. An amount that is none is its problem."""
    metadata, spec = found.metadata, found.spec
    if naming.is_made_by_muster(metadata.labels):
        return None
    owner = next((one for one in metadata.owner_references if one.controller), None)
    taken, problem = _taken(spec)
    chosen = read_node_affinity(spec.affinity)
    apart, refused = read_apart(spec, metadata.labels, metadata.namespace)
    grace = spec.termination_grace_period_seconds
    return NativePod(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        labels=metadata.labels,
        annotations={
            key: text for key, text in metadata.annotations.items() if key in READ_ANNOTATIONS
        },
        created_ms=_ms(metadata.creation_timestamp),
        owner_kind=owner.kind if owner is not None else "",
        owner_name=owner.name if owner is not None else "",
        owner_uid=owner.uid if owner is not None else "",
        scheduling_group=spec.scheduling_group.pod_group_name if spec.scheduling_group else "",
        gates=tuple(one.name for one in spec.scheduling_gates),
        node=spec.node_name,
        claimed=naming.ADOPTED in metadata.labels,
        deleting=bool(metadata.deletion_timestamp),
        ended=found.status.phase in ENDED,
        taken=taken,
        problem=problem,
        gpus=tuple(_gpus(spec.containers)),
        init_gpus=any(_gpus(spec.init_containers)),
        image=spec.containers[0].image if spec.containers else "",
        tolerations=tuple(text for one in spec.tolerations if (text := _toleration(one))),
        node_selector=spec.node_selector or {},
        node_values=chosen.required,
        node_weights=chosen.preferred,
        priority_class=spec.priority_class_name,
        grace_seconds=GRACE_SECONDS if grace is None else grace,
        apart=apart,
        volume_claims=tuple(_claims(spec, metadata.name)),
        not_honoured=(*chosen.refused, *refused, *_not_honoured(spec)),
    )


def read_job(found: JobObject) -> GroupObject | None:
    """An Indexed Job; None of others, whose pods run each alone."""
    spec = found.spec
    if spec.completion_mode != INDEXED:
        return None
    over = any(one.type in OVER and one.status == "True" for one in found.status.conditions)
    parallelism, completions = _one(spec.parallelism), _one(spec.completions)
    if parallelism == completions:
        return GroupObject(size=parallelism, over=over)
    return GroupObject(refused=_no_gang(parallelism, completions), over=over)


def _no_gang(parallelism: int, completions: int) -> FieldError:
    return FieldError(
        field="spec.parallelism",
        value=str(parallelism),
        rule=f"must equal completions ({completions}): pods of an Indexed Job are a gang",
        remedy="make them equal, or leave completionMode out so that each pod runs alone",
    )


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000) if text else 0


def _one(number: int | None) -> int:
    return 1 if number is None else number


def _taken(spec: NativeSpec) -> tuple[TakenResources, str]:
    whole = spec.resources.requests if spec.resources is not None else None
    try:
        taken = taken_by(
            map(_requests, spec.containers),
            (
                InitContainer(requests=_requests(one), restarts=one.restart_policy == ALWAYS)
                for one in spec.init_containers
            ),
            overhead=spec.overhead or {},
            whole_pod=whole or {},
        )
    except ValueError as error:
        return TakenResources(), str(error)
    return taken, ""


def _requests(container: NativeContainer) -> dict[str, str]:
    """What is not requested is what it is limited to, as the API server fills it in."""
    return {**(container.resources.limits or {}), **(container.resources.requests or {})}


def _gpus(containers: tuple[NativeContainer, ...]) -> Iterator[ContainerGpus]:
    for one in containers:
        amounts = {
            name: amount
            for name, amount in _requests(one).items()
            if name.startswith(NVIDIA) and amount != "0"
        }
        if amounts:
            yield ContainerGpus(container=one.name, amounts=amounts)


def _claims(spec: NativeSpec, pod: str) -> Iterator[str]:
    for one in spec.volumes:
        if one.persistent_volume_claim is not None:
            yield one.persistent_volume_claim.claim_name
        elif one.ephemeral is not None:
            yield f"{pod}-{one.name}"


def _toleration(one: Toleration) -> str:
    """As Muster writes it; that of no key tolerates everything and is not passed on."""
    if not one.key:
        return ""
    body = one.key if one.operator == "Exists" or not one.value else f"{one.key}={one.value}"
    return f"{body}:{one.effect}" if one.effect else body


def _not_honoured(spec: NativeSpec) -> Iterator[str]:
    """Fields that decide a place, by their path."""
    for kind in (spec.affinity or {}).keys() - READ_AFFINITY:
        yield f"spec.affinity.{kind}"
    if spec.resource_claims:
        yield "spec.resourceClaims"
    for one in (*spec.containers, *spec.init_containers):
        if any(port.host_port for port in one.ports):
            yield f"spec.containers[{one.name}].ports[].hostPort"
