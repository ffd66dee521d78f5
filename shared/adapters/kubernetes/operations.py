"""One operation of the port as one or more requests, and the answer as the port words it.

| verb | requests |
|---|---|
| create | POST the pod; 409: GET the pod that has the name |
| adopt | PATCH labels and annotations of the pod of others, with the uid |
| release | PATCH our labels away, with the uid |
| pin | POST its claim, PATCH the allocation of it (see `pins`) |
|  | of devices without a claim: GET, then PATCH the annotation of them, at that version |
| bind | of a gang's rank 0 POST its service (see `gang_service`) |
|  | POST the binding with the uid; 409: GET where it is |
| delete | with `disruption` PATCH the condition that says so; |
|  | DELETE with the uid and a grace of at least a second |
| force_delete | GET the pod: it is being deleted there; GET the node: it is not ready; DELETE |
|  | with the uid, at the version that was read, with grace 0 |
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from shared.adapters.clock import SystemClock
from shared.adapters.kubernetes import naming
from shared.adapters.kubernetes.connection import (
    ADDING_PATCH,
    MERGE_PATCH,
    Answer,
    Connection,
    NoAnswer,
)
from shared.adapters.kubernetes.gang_service import NameTaken, create_service
from shared.adapters.kubernetes.manifest import Making, manifest
from shared.adapters.kubernetes.native.adoptable import AdoptablePods
from shared.adapters.kubernetes.native.adopting import adoption, disruption, release
from shared.adapters.kubernetes.node_readiness import is_ready
from shared.adapters.kubernetes.objects import ApiStatus, PodObject, decoder
from shared.adapters.kubernetes.pins.pinning import PinWriter
from shared.adapters.kubernetes.pins.store import ApiRefusal, NotPinned
from shared.adapters.kubernetes.reading import read_pod
from shared.adapters.kubernetes.references import missing_in
from shared.core.admission.pods import is_name, is_reference
from shared.core.model.decision import FieldError
from shared.ports.cluster import (
    INVALID,
    NODE_READY,
    NOT_DELETING,
    UNKNOWN,
    Pod,
    PodOperation,
    PodResult,
    refused_by_port,
)
from shared.ports.errors import Transient

OK: Final = 200
CREATED: Final = 201
NOT_FOUND: Final = 404
CONFLICT: Final = 409
_REFUSED: Final = 400
_INVALID_VALUE: Final = re.compile(
    r'^(?:Invalid value|Unsupported value): ("(?:[^"\\]|\\.)*"|\S+): (.*)$', re.DOTALL
)


class Operations:
    """Carries operations out; each by itself."""

    def __init__(
        self,
        connection: Connection,
        making: Making,
        pins: PinWriter,
        adoptable: AdoptablePods,
    ) -> None:
        self._pins = pins
        self._adoptable = adoptable
        self._clock = SystemClock()
        self._connection = connection
        self._making = making
        self._pods = decoder(PodObject)
        self._statuses = decoder(ApiStatus)
        self._verbs: dict[str, Callable[[PodOperation], Awaitable[PodResult]]] = {
            "create": self._create,
            "adopt": self._adopt,
            "release": self._release,
            "pin": self._pin,
            "bind": self._bind,
            "delete": self._delete,
            "force_delete": self._force_delete,
        }

    async def carry_out(self, operation: PodOperation) -> PodResult:
        """The result; `UNKNOWN` where an answer was lost. Never raises."""
        refused = refused_by_port(operation) or _misnamed(operation)
        if refused is not None:
            return refused
        try:
            return await self._verbs[operation.verb](operation)
        except NotPinned as error:
            return error.result
        except ApiRefusal as error:
            return self._refusal(error.answer)
        except Transient as error:
            return PodResult(status=UNKNOWN, reason="NoAnswer", message=str(error))
        except msgspec.DecodeError as error:
            return PodResult(status=UNKNOWN, reason="Unreadable", message=str(error))

    async def _create(self, operation: PodOperation) -> PodResult:
        pod = operation.pod
        if pod is None:
            raise ValueError(f"create {operation.name} without a pod")
        body = manifest(pod, self._making, await self._pins.claim_name(pod))
        answer = await self._connection.request("POST", _pods(operation.namespace), body)
        if answer.status == CREATED:
            return PodResult(status=CREATED, pod=self._read(answer))
        if answer.status == CONFLICT and self._status(answer).reason == "AlreadyExists":
            found = await self._get(operation)
            return PodResult(status=CONFLICT, reason="AlreadyExists", pod=found)
        return self._refused_create(operation, answer)

    async def _adopt(self, operation: PodOperation) -> PodResult:
        """404 while the group is not whole, which passes."""
        pod = operation.pod
        if pod is None:
            raise ValueError(f"adopt {operation.name} without a pod")
        found = await self._adoptable.member(pod.group, pod.rank, pod.size, pod.device_count)
        if isinstance(found, int):
            message = f"{found} of {pod.size} pods of group {pod.group} are there and unbound"
            return PodResult(status=NOT_FOUND, reason="WaitingForPods", message=message)
        by_claim = await self._pins.needs_claim(pod)
        body = adoption(pod, found.uid, self._making, by_claim=by_claim)
        path = f"{_pods(found.namespace)}/{found.name}"
        answer = await self._connection.request("PATCH", path, body, content_type=MERGE_PATCH)
        if answer.status == OK:
            return PodResult(status=CREATED, pod=self._read(answer))
        return self._refusal(_as_conflict(answer))

    async def _release(self, operation: PodOperation) -> PodResult:
        answer = await self._connection.request(
            "PATCH", _path(operation), release(operation.uid), content_type=MERGE_PATCH
        )
        if answer.status == OK:
            return PodResult(status=OK)
        return await self._with_pod(operation, _as_conflict(answer))

    async def rehearse(self, operation: PodOperation) -> PodResult | None:
        """How the server would refuse a create; None where it would not, or does not answer."""
        if operation.pod is None:
            return None
        body = manifest(operation.pod, self._making)
        path, query = _pods(operation.namespace), {"dryRun": "All"}
        try:
            answer = await self._connection.request("POST", path, body, query=query)
        except Transient:
            return None
        if answer.status in (CREATED, CONFLICT):
            return None
        return self._refused_create(operation, answer)

    def _refused_create(self, operation: PodOperation, answer: Answer) -> PodResult:
        missing = missing_in(self._status(answer), operation.namespace)
        return msgspec.structs.replace(self._refusal(answer), missing=missing)

    async def _pin(self, operation: PodOperation) -> PodResult:
        if operation.pod is not None:
            return await self._pins.pin(operation, operation.pod)
        return await self._annotate(operation)

    async def _annotate(self, operation: PodOperation) -> PodResult:
        """Note devices on a pod with a kubelet that chooses them."""
        found = await self._get(operation)
        if found is None:
            return PodResult(status=NOT_FOUND, reason="NotFound")
        if found.uid != operation.uid:
            message = f"the pod has the uid {found.uid}, not {operation.uid}"
            return PodResult(status=CONFLICT, reason="Conflict", message=message, pod=found)
        if found.devices == operation.devices:
            return PodResult(status=OK, pod=found)
        if found.node or found.devices:
            has = f"is on {found.node}" if found.node else f"has {', '.join(found.devices)}"
            return PodResult(status=CONFLICT, reason="Conflict", message=f"it {has}", pod=found)
        devices = {naming.DEVICES: ",".join(operation.devices)}
        body = {
            "metadata": {
                "uid": operation.uid,
                "resourceVersion": str(found.resource_version),
                "annotations": devices,
            }
        }
        answer = await self._connection.request(
            "PATCH", _path(operation), body, content_type=MERGE_PATCH
        )
        if answer.status == OK:
            return PodResult(status=OK, pod=self._read(answer))
        return self._refusal(answer)

    async def _bind(self, operation: PodOperation) -> PodResult:
        pod = operation.pod
        if pod is not None:
            refused = await self._create_service(pod, operation.uid)
            if refused is not None:
                return refused
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": operation.name, "uid": operation.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": operation.node},
        }
        answer = await self._connection.request("POST", f"{_path(operation)}/binding", body)
        if answer.status == CREATED:
            return PodResult(status=CREATED)
        return await self._with_pod(operation, answer)

    async def _create_service(self, pod: Pod, uid: str) -> PodResult | None:
        """The refusal, or None when the gang has its Service."""
        try:
            refused = await create_service(self._connection, pod, uid, self._making)
        except NameTaken as error:
            return PodResult(status=INVALID, reason="NameTaken", message=str(error))
        return None if refused is None else self._refusal(refused)

    async def _delete(self, operation: PodOperation) -> PodResult:
        preconditions = {"uid": operation.uid} if operation.uid else {}
        if operation.disruption:
            refused = await self._say_disrupted(operation)
            if refused is not None:
                return refused
        return await self._delete_if(operation, preconditions, operation.grace_seconds)

    async def _say_disrupted(self, operation: PodOperation) -> PodResult | None:
        """The refusal, or None when its controller can see why the pod goes."""
        why = "Muster stops this attempt of the workload"
        body = disruption(operation.uid, why, self._clock.now_ms())
        answer = await self._connection.request(
            "PATCH", f"{_path(operation)}/status", body, content_type=ADDING_PATCH
        )
        if answer.status == OK:
            return None
        return await self._with_pod(operation, _as_conflict(answer))

    async def _force_delete(self, operation: PodOperation) -> PodResult:
        found = await self._get(operation)
        if found is None:
            return PodResult(status=NOT_FOUND, reason="NotFound")
        if found.uid != operation.uid:
            return PodResult(status=CONFLICT, reason="Conflict", pod=found)
        if not found.deleting or found.node != operation.node:
            return PodResult(status=CONFLICT, reason=NOT_DELETING, pod=found)
        if await is_ready(self._connection, operation.node):
            return PodResult(status=CONFLICT, reason=NODE_READY, pod=found)
        at_version = {"uid": operation.uid, "resourceVersion": str(found.resource_version)}
        return await self._delete_if(operation, at_version, 0)

    async def _delete_if(
        self, operation: PodOperation, preconditions: Mapping[str, str], grace_seconds: int
    ) -> PodResult:
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": grace_seconds,
            "preconditions": preconditions,
        }
        answer = await self._connection.request("DELETE", _path(operation), body)
        if answer.status < _REFUSED:
            return PodResult(status=OK)
        return await self._with_pod(operation, answer)

    async def _with_pod(self, operation: PodOperation, answer: Answer) -> PodResult:
        """A refusal; of a conflict with the pod as it is now."""
        result = self._refusal(answer)
        if answer.status != CONFLICT:
            return result
        found = await self._get(operation)
        if found is None:
            return PodResult(status=NOT_FOUND, reason="NotFound")
        return msgspec.structs.replace(result, pod=found)

    async def _get(self, operation: PodOperation) -> Pod | None:
        """The pod that has the name now; None when there is none.

        Raises:
            NoAnswer: it could not be asked for.
        """
        answer = await self._connection.request("GET", _path(operation))
        if answer.status == NOT_FOUND:
            return None
        if answer.status != OK:
            raise NoAnswer(f"GET {operation.name}: HTTP {answer.status}")
        return self._read(answer)

    def _read(self, answer: Answer) -> Pod:
        return read_pod(self._pods.decode(answer.body), self._making.instance)

    def _status(self, answer: Answer) -> ApiStatus:
        try:
            status: ApiStatus = self._statuses.decode(answer.body)
        except msgspec.DecodeError:
            return ApiStatus(message=answer.body[:200].decode(errors="replace"))
        return status

    def _refusal(self, answer: Answer) -> PodResult:
        status = self._status(answer)
        causes = status.details.causes if status.details else ()
        errors = tuple(_field_error(one.field, one.message) for one in causes if one.field)
        return PodResult(
            status=answer.status,
            reason=status.reason,
            message=status.message,
            errors=errors,
        )


def _as_conflict(answer: Answer) -> Answer:
    """A patch with the uid of another object is answered 422 (of the uid); elsewhere it is 409."""
    of_uid = answer.status == INVALID and b"metadata.uid" in answer.body
    return Answer(CONFLICT, answer.body) if of_uid else answer


def _misnamed(operation: PodOperation) -> PodResult | None:
    """The answer to a name that cannot be part of a path; None to all others.

    What is created is named in the body alone, so that the server judges it.
    """
    if not is_name(operation.namespace):
        rule = "must be the name of a namespace: a-z, 0-9 and '-', at most 63 characters"
        error = FieldError(field="metadata.namespace", value=operation.namespace, rule=rule)
        return PodResult(status=INVALID, reason="Invalid", message=rule, errors=(error,))
    if operation.verb not in ("create", "adopt") and not is_reference(operation.name):
        return PodResult(status=NOT_FOUND, reason="NotFound", message="no pod can have this name")
    return None


def _field_error(field: str, message: str) -> FieldError:
    """Of `Invalid value: "x": must be ...` the value and the rule."""
    found = _INVALID_VALUE.match(message)
    if found is None:
        return FieldError(field=field, value="", rule=message)
    return FieldError(field=field, value=found[1].strip('"'), rule=found[2])


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def _path(operation: PodOperation) -> str:
    return f"{_pods(operation.namespace)}/{operation.name}"
