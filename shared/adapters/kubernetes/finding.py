"""Finds one pod by the labels of this Muster.

Nothing that a caller writes becomes part of a path, and no pod of others can be reached.
"""

from __future__ import annotations

from typing import Final

import msgspec

from shared.adapters.kubernetes import naming
from shared.adapters.kubernetes.connection import Connection
from shared.adapters.kubernetes.objects import ApiStatus, Object, PodObject, Spec, decoder
from shared.ports.errors import Transient

PODS: Final = "/api/v1/pods"
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
"""Annotation of a pod."""
OK: Final = 200


class NamedContainer(Object, frozen=True, kw_only=True):
    """A container of a pod."""

    name: str = ""


class FoundSpec(Spec, frozen=True, kw_only=True):
    """What readers of a pod need besides; those that watch all pods keep less."""

    containers: tuple[NamedContainer, ...] = ()


class FoundPod(PodObject, frozen=True, kw_only=True):
    """The pod of a rank."""

    spec: FoundSpec = FoundSpec()

    @property
    def container(self) -> str:
        """The name of the container that is meant where none is said, as kubectl understands it.

        Ours have one; a pod that others made may have several, and may name one of them.
        """
        names = [one.name for one in self.spec.containers]
        named = self.metadata.annotations.get(DEFAULT_CONTAINER, "")
        return named if named in names else names[0]


class FoundPods(Object, frozen=True, kw_only=True):
    """A list of them."""

    items: tuple[FoundPod, ...] = ()


_lists = decoder(FoundPods)
_statuses = decoder(ApiStatus)


async def find_pod(
    connection: Connection, instance: str, workload_id: str, attempt: int, rank: int
) -> FoundPod | None:
    """The pod, or None where there is none; raises Transient."""
    labels = (
        naming.selector(instance),
        f"{naming.WORKLOAD}={workload_id}",
        f"{naming.ATTEMPT}={attempt}",
        f"{naming.RANK}={rank}",
    )
    query = {"labelSelector": ",".join(labels), "resourceVersion": "0"}
    answer = await connection.request("GET", PODS, query=query)
    if answer.status != OK:
        raise Transient(f"pods of {workload_id}: {told(answer.body)}")
    found = _lists.decode(answer.body).items
    ours = (one for one in found if naming.is_ours(one.metadata.labels, instance))
    return next(ours, None)


def path_of(pod: PodObject, what: str) -> str:
    """The address of a subresource of a pod."""
    return f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}/{what}"


def told(body: bytes) -> str:
    """The words of the server, on one line."""
    try:
        text = _statuses.decode(body).message
    except msgspec.DecodeError:
        text = body.decode(errors="replace")
    return " ".join(text.split())[:500]
