"""Requests by which a pod of others becomes one of ours for an attempt, and theirs again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from shared.adapters.kubernetes import naming
from shared.adapters.kubernetes.manifest import Making, annotations_of, labels_of
from shared.ports.cluster import Pod

DISRUPTION: Final = "DisruptionTarget"
PREEMPTED: Final = "PreemptionByScheduler"
"""As kube-scheduler says it: a Job with `podFailurePolicy` need not count such a pod."""


def adoption(pod: Pod, uid: str, making: Making, *, by_claim: bool) -> dict[str, Any]:
    """The merge patch that adopts a pod with this uid; its own labels stay as they are."""
    labels = {
        key: value
        for key, value in labels_of(pod, making).items()
        if key.startswith(f"{naming.PREFIX}/")
    }
    notes: dict[str, str | None] = {
        **annotations_of(pod),
        naming.POD_GROUP: pod.group,
        naming.BY_CLAIM: naming.TRUE if by_claim else None,
    }
    return {
        "metadata": {
            "uid": uid,
            "labels": {**labels, naming.ADOPTED: naming.TRUE},
            "annotations": notes,
        }
    }


def release(uid: str) -> dict[str, Any]:
    """The merge patch after which no attempt has the pod; which one had it stays to be read."""
    gone: Mapping[str, None] = {naming.INSTANCE: None, naming.ADOPTED: None}
    return {"metadata": {"uid": uid, "labels": gone}}


def disruption(uid: str, message: str, now_ms: int) -> dict[str, Any]:
    """The patch of its status that says that it did not fail but was taken away, as of now.

    A condition older than two minutes is set back by the disruption controller.
    """
    now = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {
        "type": DISRUPTION,
        "status": "True",
        "reason": PREEMPTED,
        "message": message,
        "lastTransitionTime": now,
    }
    return {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}
