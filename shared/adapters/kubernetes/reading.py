"""From a pod as the API server shows it to a pod of Muster.

A pod that does not carry the label of this Muster is foreign: it has no workload, so no attempt
can take it for its own, whatever its name is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from shared.adapters.kubernetes import naming
from shared.adapters.kubernetes.objects import ContainerStatus, PodObject
from shared.core.kubernetes.requests import GPU
from shared.core.model.nouns import GpuShare
from shared.ports.cluster import Pod

DISRUPTION: Final = "DisruptionTarget"
PULLING: Final = frozenset(("ContainerCreating", "PodInitializing"))
"""Waiting for these is a start that goes on; its longest part is the image."""
OF_CLAIM: Final = "claim:"
"""Of a claim the kubelet tells names that are no UUIDs."""
Claimed = Callable[[str, str], tuple[str, ...]]
_shares = msgspec.json.Decoder(tuple[GpuShare, ...])


def _nobody_knows(_key: str, _uid: str) -> tuple[str, ...]:
    return ()


def read_pod(
    found: PodObject, instance: str, claimed: Claimed = _nobody_knows, *, ours: bool = False
) -> Pod:
    """The pod; a foreign one has neither workload nor size.

    `ours`: it was, whatever its labels say now; `claimed`: the devices that a claim, by its
    namespace and name, holds for a pod, by its uid.
    """
    metadata, status = found.metadata, found.status
    common: dict[str, Any] = {
        "name": metadata.name,
        "namespace": metadata.namespace,
        "uid": metadata.uid,
        "resource_version": int(metadata.resource_version),
        "node": found.spec.node_name,
        "phase": status.phase,
        "deleting": bool(metadata.deletion_timestamp),
        "finalizers": metadata.finalizers,
    }
    if not (ours or is_ours(found, instance)):
        return Pod(workload_id="", attempt=0, rank=0, size=0, epoch=0, **common)
    labels, notes = metadata.labels, metadata.annotations
    waiting, waiting_message = _waiting(found)
    reason, message, exit_code = _failure(found)
    claims = list(_claims(found))
    held = tuple(
        one for name in claims for one in claimed(f"{metadata.namespace}/{name}", metadata.uid)
    )
    return Pod(
        workload_id=labels.get(naming.WORKLOAD, ""),
        attempt=_number(labels.get(naming.ATTEMPT)),
        rank=_number(labels.get(naming.RANK)),
        size=_number(notes.get(naming.SIZE)),
        epoch=_number(notes.get(naming.EPOCH)),
        team=notes.get(naming.TEAM, ""),
        shares=decoded_shares(notes.get(naming.SHARES, "")),
        duration_seconds=_seconds(notes.get(naming.DURATION)),
        devices=held or tuple(_devices(found)),
        allocated=given(status.container_statuses),
        unpinned=(bool(claims) and not held) or (naming.BY_CLAIM in notes and not claims),
        group=notes.get(naming.POD_GROUP, "") if naming.ADOPTED in labels else "",
        reason=reason,
        message=message or waiting_message,
        exit_code=exit_code,
        waiting="" if waiting in PULLING else waiting,
        pulling=waiting in PULLING,
        ready=_ready(found),
        **common,
    )


def is_ours(found: PodObject, instance: str) -> bool:
    """Whether this Muster made it."""
    return naming.is_ours(found.metadata.labels, instance)


def _claims(found: PodObject) -> Iterator[str]:
    """Those that it names, and the one that stands for the GPUs that it counts (KEP-5004)."""
    yield from (one.resource_claim_name for one in found.spec.resource_claims)
    extended = found.status.extended_resource_claim_status
    if extended is not None:
        yield extended.resource_claim_name


def _containers(found: PodObject) -> Iterator[ContainerStatus]:
    yield from found.status.init_container_statuses
    yield from found.status.container_statuses


def _waiting(found: PodObject) -> tuple[str, str]:
    """The reason and the kubelet's words of the first container that waits."""
    for container in _containers(found):
        state = container.state.waiting
        if state is not None and state.reason:
            return state.reason, state.message
    return "", ""


def _failure(found: PodObject) -> tuple[str, str, int]:
    """Why it failed, and with which exit code, if a container of it did.

    The reason is that of the pod itself, of what took it away, or of the container.
    """
    status = found.status
    if status.reason:
        return status.reason, status.message, 0
    taken = next((one for one in status.conditions if one.type == DISRUPTION), None)
    if taken is not None and taken.status == "True":
        return taken.reason or DISRUPTION, taken.message, 0
    if status.phase != "Failed":
        return "", "", 0
    for container in _containers(found):
        state = container.state.terminated
        if state is not None and state.exit_code:
            words = state.message or f"exit code {state.exit_code}"
            return state.reason or "Error", words, state.exit_code
    return "", status.message, 0


def _devices(found: PodObject) -> Iterable[str]:
    """Those that the kubelet says it has; until then those that the ledger has chosen."""
    told = list(_told(found.status.container_statuses, _is_of_a_plugin))
    chosen = found.metadata.annotations.get(naming.DEVICES, "")
    return told or filter(None, chosen.split(","))


def given(statuses: Iterable[ContainerStatus]) -> tuple[str, ...]:
    """UUIDs of the whole GPUs that the kubelet says it gave, of those that are counted."""
    return tuple(_told(statuses, lambda name: name == GPU))


def _is_of_a_plugin(name: str) -> bool:
    return not name.startswith(OF_CLAIM)


def _told(statuses: Iterable[ContainerStatus], of: Callable[[str], bool]) -> Iterator[str]:
    """What the kubelet says that it gave of the resources with such names."""
    for container in statuses:
        for resource in container.allocated_resources_status:
            if of(resource.name):
                yield from (one.resource_id for one in resource.resources)


def _ready(found: PodObject) -> bool:
    return any(one.type == "Ready" and one.status == "True" for one in found.status.conditions)


def _number(text: str | None) -> int:
    """The number of a label that may have been changed by others; -1 is no rank or attempt."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else -1


def _seconds(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def decoded_shares(text: str) -> tuple[GpuShare, ...]:
    """The annotation of what the ledger gave to a pod; nothing where it was spoilt."""
    try:
        return _shares.decode(text) if text else ()
    except msgspec.DecodeError:
        return ()
