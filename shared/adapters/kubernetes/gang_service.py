"""The headless Service of a gang, below which each of its pods has a name.

It belongs to the pod of rank 0, so that it goes when that goes. It comes with the binding:
whatever became of the answers before, a gang that is bound has it. What has its name and is not
the gang's is left alone, and the gang is refused: names below it would lead to the pods of others.
"""

from __future__ import annotations

from typing import Any, Final

from shared.adapters.kubernetes import naming
from shared.adapters.kubernetes.connection import Answer, Connection
from shared.adapters.kubernetes.manifest import Making
from shared.adapters.kubernetes.objects import OwnedObject, decoder
from shared.ports.cluster import Pod

CREATED: Final = 201
CONFLICT: Final = 409
OK: Final = 200
_owned = decoder(OwnedObject)


def service(pod: Pod, uid: str, making: Making) -> dict[str, Any]:
    """The Service of the gang of a pod, which goes when the pod `uid` goes."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": naming.service_name(pod.workload_id, pod.attempt),
            "namespace": pod.namespace,
            "labels": {
                naming.MANAGED_BY: naming.MUSTER,
                naming.INSTANCE: making.instance,
                naming.WORKLOAD: pod.workload_id,
            },
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": uid},
            ],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {
                naming.INSTANCE: making.instance,
                naming.WORKLOAD: pod.workload_id,
                naming.ATTEMPT: str(pod.attempt),
            },
        },
    }


class NameTaken(Exception):  # noqa: N818  # an answer
    """Another owner has a Service of this name."""


async def create_service(
    connection: Connection, pod: Pod, uid: str, making: Making
) -> Answer | None:
    """The refusal, or None when the gang has its Service.

    Raises:
        NameTaken: what has the name belongs to another owner, or to another pod.
        Transient: an answer was lost.
    """
    body = service(pod, uid, making)
    path = f"/api/v1/namespaces/{pod.namespace}/services"
    answer = await connection.request("POST", path, body)
    if answer.status == CREATED:
        return None
    if answer.status != CONFLICT:
        return answer
    name = body["metadata"]["name"]
    found = await connection.request("GET", f"{path}/{name}")
    if found.status != OK:
        return answer
    if not _is_of(found, uid, making):
        raise NameTaken(f"the Service {name} belongs to somebody else")
    return None


def _is_of(found: Answer, uid: str, making: Making) -> bool:
    """Whether it was made for the gang with the rank 0 pod `uid`."""
    metadata = _owned.decode(found.body).metadata
    owners = (owner.uid for owner in metadata.owner_references)
    return naming.is_ours(metadata.labels, making.instance) and uid in owners
