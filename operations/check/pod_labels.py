"""What the labels of a pod or a claim say: whether it is ours, and which pod of the ledger."""

from __future__ import annotations

from collections.abc import Mapping

from operations.check.api_pods import ApiPod

MANAGED_BY, INSTANCE = "app.kubernetes.io/managed-by", "muster.dev/instance"
ADOPTED = "muster.dev/adopted"
WORKLOAD, ATTEMPT, RANK = "muster.dev/workload", "muster.dev/attempt", "muster.dev/rank"
DEVICES = "muster.dev/devices"
"""An annotation: the devices of the pod, with commas between them."""
Key = tuple[str, int, int]
"""Workload, attempt and rank."""


def is_ours(labels: Mapping[str, str], instance: str) -> bool:
    """Whether the labels of an object say that this Muster made it, or has adopted it."""
    mine = labels.get(MANAGED_BY) == "muster" or labels.get(ADOPTED) == "true"
    return mine and labels.get(INSTANCE) == instance


def key_of(labels: Mapping[str, str]) -> Key:
    """Which pod of the ledger it is, or belongs to."""
    attempt, rank = _number(labels.get(ATTEMPT, "")), _number(labels.get(RANK, ""))
    return labels.get(WORKLOAD, ""), attempt, rank


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else -1


def place_of(pod: ApiPod) -> str:
    """Its namespace and name."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
