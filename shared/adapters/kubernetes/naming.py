"""The labels and annotations by which a pod is known as one of ours, and what it says of itself.

Labels are what is searched by; all that is only read stands in annotations, which take any text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PREFIX: Final = "muster.dev"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MUSTER: Final = "muster"
TRUE: Final = "true"
INSTANCE: Final = f"{PREFIX}/instance"
"""Which Muster of the cluster made it."""
WORKLOAD: Final = f"{PREFIX}/workload"
ATTEMPT: Final = f"{PREFIX}/attempt"
RANK: Final = f"{PREFIX}/rank"
SIZE: Final = f"{PREFIX}/size"
EPOCH: Final = f"{PREFIX}/epoch"
TEAM: Final = f"{PREFIX}/team"
ADOPTED: Final = f"{PREFIX}/adopted"
"""Label of a pod that others made and that is one of ours for an attempt."""
POD_GROUP: Final = f"{PREFIX}/pod-group"
"""Annotation of an adopted pod: NAMESPACE/KEY of its group."""
BY_CLAIM: Final = f"{PREFIX}/by-claim"
"""Annotation of an adopted pod with GPUs by a claim that is to be made for it."""
SHARES: Final = f"{PREFIX}/shares"
DEVICES: Final = f"{PREFIX}/devices"
"""The devices that the ledger has chosen, parted by commas."""
SHARED: Final = f"{PREFIX}/shared-gpu"
"""Of a claim that several pods use: the index of its GPU."""
DURATION: Final = f"{PREFIX}/duration-seconds"
"""How long the owner expects it to run; a simulated node ends it then."""


def pod_name(workload_id: str, attempt: int, rank: int) -> str:
    """The one name of a pod of an attempt."""
    return f"{workload_id}-{attempt}-{rank}"


def selector(instance: str) -> str:
    """The label selector of all pods of one Muster; `is_ours` says which of them really are."""
    return f"{INSTANCE}={instance}"


def is_ours(labels: Mapping[str, str], instance: str) -> bool:
    """Whether the labels of an object say that this Muster made it, or has adopted it."""
    mine = labels.get(MANAGED_BY) == MUSTER or labels.get(ADOPTED) == TRUE
    return mine and labels.get(INSTANCE) == instance


def is_made_by_muster(labels: Mapping[str, str]) -> bool:
    """Whether some Muster of the cluster made it, and did not adopt it."""
    return labels.get(MANAGED_BY) == MUSTER and INSTANCE in labels and ADOPTED not in labels


def service_name(workload_id: str, attempt: int) -> str:
    """The headless service of a gang, below which each of its pods has a name."""
    return f"{workload_id}-{attempt}"
