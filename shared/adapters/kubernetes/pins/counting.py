"""Pods of others that ask for GPUs by count, on nodes whose GPUs are had by claims.

The scheduler makes a claim that stands for the count and names it in the pod's status; the kubelet
gives the pod what the claim holds. Source: KEP-5004, kube-scheduler's plugin DynamicResources.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

from shared.adapters.kubernetes.connection import MERGE_PATCH, Connection, NoAnswer
from shared.adapters.kubernetes.native.objects import NativePodObject
from shared.adapters.kubernetes.objects import decoder
from shared.adapters.kubernetes.pins.claims import REQUEST
from shared.adapters.kubernetes.pins.store import ApiRefusal, later
from shared.core.kubernetes.requests import GPU, MIG
from shared.ports.cluster import PodOperation

OK: Final = 200
NAME_MAX: Final = 200


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """By which claim and request of it a pod has its GPUs."""

    claim: str
    request: str = REQUEST


class CountedGpus(msgspec.Struct, frozen=True, kw_only=True):
    """The container of a pod that asks for GPUs."""

    container: str
    resource: str
    """`nvidia.com/gpu`, or that of a MIG profile."""
    request: str
    """`container-<index>-request-0`, as kube-scheduler names it."""


def claim_of_pod(name: str, uid: str) -> str:
    """The one name of the claim of a pod. O(1)."""
    digest = sha256(uid.encode()).hexdigest()[:10]
    return f"{name[:NAME_MAX]}-extended-resources-{digest}"


class CountingPods:
    """Reads which container asks, and writes which claim stands for it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pods = decoder(NativePodObject)

    async def read(self, namespace: str, name: str) -> CountedGpus:
        """The container that asks for GPUs.

        Raises:
            NotPinned: no container of it does, or it is not there.
            NoAnswer: it could not be asked for.
        """
        answer = await self._connection.request("GET", _path(namespace, name))
        if answer.status != OK:
            raise NoAnswer(f"GET {name}: HTTP {answer.status}")
        pod = self._pods.decode(answer.body)
        for index, one in enumerate(pod.spec.containers):
            amounts = {**(one.resources.requests or {}), **(one.resources.limits or {})}
            found = next((key for key in amounts if key == GPU or key.startswith(MIG)), "")
            if found:
                request = f"container-{index}-request-0"
                return CountedGpus(container=one.name, resource=found, request=request)
        raise later(f"no container of {name} asks for {GPU} or MIG")

    async def tell(self, operation: PodOperation, claim: str, found: CountedGpus) -> None:
        """Write into the status of the pod which claim stands for its GPUs. Raises ApiRefusal."""
        mapping = {
            "containerName": found.container,
            "resourceName": found.resource,
            "requestName": found.request,
        }
        told = {"resourceClaimName": claim, "requestMappings": [mapping]}
        body = {
            "metadata": {"uid": operation.uid},
            "status": {"extendedResourceClaimStatus": told},
        }
        path = f"{_path(operation.namespace, operation.name)}/status"
        answer = await self._connection.request("PATCH", path, body, content_type=MERGE_PATCH)
        if answer.status != OK:
            raise ApiRefusal(answer)


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
