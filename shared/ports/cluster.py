"""The cluster that pods run in: Kubernetes, or the simulated cluster, behind one port.

Semantics are those of the Kubernetes API (tests/contract/test_cluster.py holds every cluster to
them): create answers 409 when the name exists; pin, bind and delete take the uid as a
precondition; 403 and 422 say in `errors` which field breaks which rule; a pod that is not bound
is deleted at once, a bound one when its kubelet says so, or by force, which takes the word of
an operator that knows that its machine is off; a watch starts at a resource version.
Operations come in batches; each has its own result, and order between them is not promised.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Final, Literal, Protocol

import msgspec

from shared.core.model.decision import FieldError
from shared.core.model.nouns import GpuShare, PodSet

UNKNOWN: Final = 0
"""Status of an operation with a lost answer: it may or may not have happened."""
INVALID: Final = 422
GRACE_SECONDS_MIN: Final = 1
"""Grace 0 is a force delete: the object goes while its containers may still run."""
NODE_READY: Final = "NodeReady"
"""Reason of a refused `force_delete`: a kubelet is there, which says when the pod has stopped."""
NOT_DELETING: Final = "NotDeleting"
"""Reason of a refused `force_delete`: the pod is not being deleted on that node."""
ENDED: Final = frozenset({"Succeeded", "Failed"})
"""Phases in which no container runs any more: the devices of the pod are free."""


class PodTemplate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the pods of a pod set are made from; a cluster need not show it again."""

    pod_set: PodSet = PodSet()
    service_account: str = ""
    """Empty: the namespace's default, without a token."""
    grace_seconds: int = 30
    """Between the signal to stop and the stop itself, when nothing else is said."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """Labels of the workload, beside those that Muster sets."""


class Pod(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pod as the cluster knows it. `phase`: Pending | Running | Succeeded | Failed."""

    name: str
    namespace: str = "default"
    uid: str = ""
    resource_version: int = 0
    workload_id: str
    attempt: int
    rank: int
    size: int
    """Pods of the attempt; an observer can tell when it has seen all."""
    epoch: int
    team: str = ""
    node: str = ""
    shares: tuple[GpuShare, ...] = ()
    devices: tuple[str, ...] = ()
    """UUIDs of the devices that it is known to have; empty: not known, or none."""
    allocated: tuple[str, ...] = ()
    """UUIDs of the whole GPUs that its kubelet chose, if no other could; empty: not told."""
    unpinned: bool = False
    """It names devices of its own that are not chosen yet: before it is bound it is pinned."""
    template: PodTemplate = PodTemplate()
    """Of a pod to be created."""
    duration_seconds: float | None = None
    """Only read by the simulated cluster: how long the pod runs; None is for ever."""
    phase: str = "Pending"
    reason: str = ""
    """Why it failed, as the kubelet or a controller names it; of a container if that says more."""
    message: str = ""
    """In their words: why it failed, or why it waits."""
    exit_code: int = 0
    """Of the container because of which it failed, 1 to 255; 0: none failed, or none is known."""
    waiting: str = ""
    """Why a container of it does not start, as the kubelet names it, such as ErrImagePull."""
    pulling: bool = False
    """An image of it is being pulled now."""
    ready: bool = False
    """All containers run and say that they serve."""
    deleting: bool = False
    group: str = ""
    """NAMESPACE/KEY of the group of a pod that others made (`core/native`); Muster binds it."""
    finalizers: tuple[str, ...] = ()
    """While there are any, the object stays, though it is deleted and no container runs."""

    @property
    def ended(self) -> bool:
        """Whether no container runs any more, whatever keeps the object."""
        return self.phase in ENDED

    @property
    def device_count(self) -> int:
        """How many devices its shares are: instances of a profile may lie in one share."""
        gpu = self.template.pod_set.gpu
        return max(gpu.mig_count, 1) if self.shares and gpu.mig_profile else len(self.shares)

    @property
    def in_gang(self) -> bool:
        """Whether others of its attempt are there, or may join it: they look for rank 0."""
        return self.size > 1 or self.template.pod_set.count > 1


class PodOperation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request about the pod `name` in `namespace`.

    `create` takes `pod`; `adopt` takes `pod` with its group: the pod of others that has its rank
    there is one of ours from then on (404 while the group is not whole); `release` uid: it is
    theirs again and stays as it is; `pin` uid, node, and `devices` or the `pod` with shares that
    say which: these devices of the node are its own before it is bound there; `bind` uid, node,
    and of a gang's rank 0 `pod`, by which others find it; `delete` uid, grace, which is at least
    1, and `disruption`, so that its controller sees that it was taken away and did not fail;
    `force_delete` uid, node: the object goes though no kubelet says so, if the pod is being
    deleted on that node (else 409 `NotDeleting`), which is not ready (else 409 `NodeReady`).
    """

    verb: Literal["create", "adopt", "release", "pin", "bind", "delete", "force_delete"]
    name: str
    namespace: str = "default"
    uid: str = ""
    node: str = ""
    devices: tuple[str, ...] = ()
    grace_seconds: int = GRACE_SECONDS_MIN
    disruption: bool = False
    pod: Pod | None = None


class MissingObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that a pod names and that is not there; kinds are those of Kubernetes."""

    kind: Literal[
        "Namespace", "ServiceAccount", "PriorityClass", "Secret", "PersistentVolumeClaim"
    ]
    name: str
    namespace: str = ""
    """Where it was looked for; empty for what is in no namespace."""


class PodResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one operation: an HTTP status or `UNKNOWN`, and the pod where there is one."""

    status: int
    reason: str = ""
    message: str = ""
    errors: tuple[FieldError, ...] = ()
    """Of 403 and 422: which field, with which value, breaks which rule, where that is told."""
    missing: MissingObject | None = None
    """Of a refused create: what has to be there first."""
    pod: Pod | None = None


class WatchEvent(msgspec.Struct, frozen=True, kw_only=True):
    """ADDED | MODIFIED | DELETED with the pod as it was then."""

    type: str
    pod: Pod


class PodCluster(Protocol):
    """What the binder needs of a cluster."""

    async def apply(self, operations: Sequence[PodOperation]) -> list[PodResult]:
        """Try all; results in the order of the operations.

        An operation with a lost answer has the status `UNKNOWN`, all others their own.
        """
        ...

    async def list_pods(self) -> tuple[list[Pod], int]:
        """All pods and the resource version to watch from.

        Raises:
            Transient: no whole list came.
        """
        ...

    def watch(self, resource_version: int) -> AsyncIterator[list[WatchEvent]]:
        """Events after `resource_version`, in batches; of a future version silence until then.

        Raises:
            ResourceVersionExpired: the events are no longer kept; list again.
            Transient: the connection broke; watch again from the last version seen.
        """
        ...


def refused_by_port(operation: PodOperation) -> PodResult | None:
    """The answer to what no cluster is asked to do; None to all else."""
    if operation.verb == "delete" and operation.grace_seconds < GRACE_SECONDS_MIN:
        error = FieldError(
            field="grace_seconds",
            value=str(operation.grace_seconds),
            rule=f"must be at least {GRACE_SECONDS_MIN}: 0 is a force delete, after which the"
            " containers of the pod may still run",
        )
        return PodResult(status=INVALID, reason="Invalid", message=error.rule, errors=(error,))
    if operation.verb == "force_delete" and not (operation.uid and operation.node):
        field = "node" if operation.uid else "uid"
        error = FieldError(field=field, value="", rule="must be given for a force delete")
        return PodResult(status=INVALID, reason="Invalid", message=error.rule, errors=(error,))
    return None
