"""What a pod names, and whether it is there.

The API server looks for the namespace, the service account and the priority class of a pod when
it is created, and refuses it in words. Secrets and claims are looked for by the kubelet alone,
minutes later, once the image is pulled: so they are asked for before a pod is created, each once
for all operations that come together. Only the metadata of a secret is asked for.

Whatever is answered other than "not found" refuses nothing: the kubelet has the last word.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Final

from shared.adapters.kubernetes.connection import Connection, NoAnswer
from shared.adapters.kubernetes.objects import ApiStatus
from shared.core.admission.pods import is_name, is_reference
from shared.core.admission.volumes import mount_of
from shared.ports.cluster import MissingObject, Pod, PodOperation, PodResult

NOT_FOUND: Final = 404
METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_PLACES: Final = {"Secret": "secrets", "PersistentVolumeClaim": "persistentvolumeclaims"}
_ACCOUNT: Final = re.compile(r'looking up service account \S+: serviceaccount "([^"]+)" not found')
_PRIORITY: Final = re.compile(r"no PriorityClass with name (\S+) was found")
"""Admission tells these two in its message alone (Kubernetes 1.37, plugin/pkg/admission)."""


async def absent_of(
    connection: Connection, operations: Sequence[PodOperation]
) -> frozenset[MissingObject]:
    """The secrets and claims that pods to be created name and that do not exist."""
    pods = (one.pod for one in operations if one.verb == "create" and one.pod is not None)
    named = {reference for pod in pods for reference in _named_by(pod)}
    if not named:
        return frozenset()
    answers = await asyncio.gather(*(_is_absent(connection, one) for one in named))
    return frozenset(one for one, absent in zip(named, answers, strict=True) if absent)


def refused_for(operation: PodOperation, absent: frozenset[MissingObject]) -> PodResult | None:
    """The answer to the creation of a pod that names one of `absent`; None to all others."""
    if not absent or operation.verb != "create" or operation.pod is None:
        return None
    missing = next((one for one in _named_by(operation.pod) if one in absent), None)
    if missing is None:
        return None
    message = f"{missing.kind} {missing.name} not found in namespace {missing.namespace}"
    return PodResult(status=NOT_FOUND, reason="NotFound", message=message, missing=missing)


def missing_in(status: ApiStatus, namespace: str) -> MissingObject | None:
    """What the API server says is not there, when it refuses to create a pod."""
    details = status.details
    if status.code == NOT_FOUND and details is not None and details.kind == "namespaces":
        return MissingObject(kind="Namespace", name=details.name)
    account, priority = _ACCOUNT.search(status.message), _PRIORITY.search(status.message)
    if account is not None:
        return MissingObject(kind="ServiceAccount", name=account[1], namespace=namespace)
    return MissingObject(kind="PriorityClass", name=priority[1]) if priority is not None else None


def _named_by(pod: Pod) -> Iterator[MissingObject]:
    """What the kubelet would look for; names that cannot be one are left to the API server."""
    pod_set = pod.template.pod_set
    claims = (mount_of(volume).claim for volume in pod_set.volumes)
    named = [
        *(
            MissingObject(kind="Secret", name=name, namespace=pod.namespace)
            for name in pod_set.secrets
        ),
        *(
            MissingObject(kind="PersistentVolumeClaim", name=name, namespace=pod.namespace)
            for name in claims
        ),
    ]
    if is_name(pod.namespace):
        yield from (one for one in named if is_reference(one.name))


async def _is_absent(connection: Connection, named: MissingObject) -> bool:
    path = f"/api/v1/namespaces/{named.namespace}/{_PLACES[named.kind]}/{named.name}"
    try:
        answer = await connection.request("GET", path, accept=METADATA)
    except NoAnswer:
        return False
    return answer.status == NOT_FOUND
