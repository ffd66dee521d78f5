"""I17: the ResourceClaims of the API server give the devices of the ledger, each to one pod.

The API server accepts one device in two claims, and devices that do not exist: no other check
sees that. As for pods (I16), a difference counts only if it stays.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from operations.check.api_pods import ApiClaim, ApiPod, read_api_claims, read_api_pods
from operations.check.database import read_queries
from operations.check.model import Findings, Result, Row
from operations.check.pod_labels import Key, is_ours, key_of
from operations.check.pods import settled

WHOLE: Final = 255
QUERIES: Final = {
    "devices": """
        SELECT workload_id, attempt, rank, node, gpu, mask
        FROM placement.allocation WHERE gpu >= 0""",
}
_DEVICE: Final = re.compile(r"gpu-(\d+)(?:-mig-.+-(\d+))?")

Place = tuple[str, int, int | None]
"""Node, index of the GPU, and the first memory slice; None: the whole GPU."""


async def check_claims(
    url: str, kubeconfig: Path, instance: str, *, settle_seconds: float | None = None
) -> Result:
    """The verdict on I17.

    Raises:
        CannotCheck: the database or the API server cannot be read.
    """

    async def compared() -> Findings:
        rows = await read_queries(url, QUERIES)
        claims = await read_api_claims(kubeconfig)
        return differences(rows["devices"], claims, await read_api_pods(kubeconfig), instance)

    findings = await settled(compared, settle_seconds)
    return findings.result("I17", "claims give the devices of the ledger")


def differences(
    rows: Sequence[Row], claims: Sequence[ApiClaim], pods: Sequence[ApiPod], instance: str
) -> Findings:
    """Every difference between the rows of the ledger and the claims."""
    ours = [one for one in claims if is_ours(one.metadata.labels, instance)]
    by_uid = {one.metadata.uid: one for one in pods}
    findings = Findings(checked=len(claims))
    _twice(findings, claims, ours)
    _without_pod(findings, ours, by_uid)
    _other_devices(findings, rows, ours, by_uid)
    _unclaimed(findings, claims, pods, instance)
    return findings


def _pods(claim: ApiClaim, by_uid: Mapping[str, ApiPod]) -> list[ApiPod]:
    """Those that own it: one, or all that share its GPU."""
    owners = (by_uid.get(one.uid) for one in claim.metadata.owner_references)
    return [pod for pod in owners if pod is not None]


def _twice(findings: Findings, claims: Iterable[ApiClaim], ours: Sequence[ApiClaim]) -> None:
    """A device that a claim of ours has is in no other, neither whole nor in part."""
    names = {one.name for one in ours}
    holders: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for claim in claims:
        for one in claim.held:
            gpu = one.device.partition("-mig-")[0]
            holders[one.driver, one.pool, gpu].append((one.device, claim.name))
    for (_, pool, gpu), held in holders.items():
        devices = [device for device, _ in held]
        clash = len(set(devices)) < len(devices) or (gpu in devices and len(devices) > 1)
        if clash and any(name in names for _, name in held):
            text = " and ".join(sorted(f"{name} ({device})" for device, name in held))
            findings.add(f"{pool}/{gpu}", f"is in two claims: {text}")


def _without_pod(
    findings: Findings, ours: Iterable[ApiClaim], by_uid: Mapping[str, ApiPod]
) -> None:
    for claim in ours:
        pods = _pods(claim, by_uid)
        if not pods:
            findings.add(claim.name, "its pod is gone, and the claim is not")
        elif claim.held and all(pod.ended for pod in pods):
            held = ", ".join(one.device for one in claim.held)
            findings.add(claim.name, f"its pod has ended, and it still has {held}")


def _other_devices(
    findings: Findings,
    rows: Iterable[Row],
    ours: Iterable[ApiClaim],
    by_uid: Mapping[str, ApiPod],
) -> None:
    """A claim has the very devices that the ledger gave to each of its pods."""
    given: dict[Key, set[Place]] = defaultdict(set)
    for row in rows:
        key = row["workload_id"], row["attempt"], row["rank"]
        given[key].add((row["node"], row["gpu"], _begin(row["mask"])))
    for claim in ours:
        held = {_place(one.pool, one.device) for one in claim.held}
        for pod in _pods(claim, by_uid) if held else ():
            expected = given.get(key_of(pod.metadata.labels), set())
            if held != expected and not pod.ended:
                findings.add(claim.name, f"has {_text(held)}, the ledger {_text(expected)}")


def _begin(mask: int) -> int | None:
    """None of a whole GPU, and of a share, which has no slices of its own."""
    return None if mask in (0, WHOLE) else (mask & -mask).bit_length() - 1


def _place(pool: str, device: str) -> Place:
    """A MIG instance that takes a whole GPU is the whole GPU of the ledger."""
    found = _DEVICE.fullmatch(device)
    if found is None:
        return pool, -1, None
    whole = found[2] is None or "-mig-7g" in device
    return pool, int(found[1]), None if whole else int(found[2])


def _text(places: Iterable[Place]) -> str:
    parts = [
        f"{node}/{gpu}" + ("" if begin is None else f" from slice {begin}")
        for node, gpu, begin in sorted(places, key=str)
    ]
    return ", ".join(parts) or "nothing"


def _unclaimed(
    findings: Findings, claims: Iterable[ApiClaim], pods: Iterable[ApiPod], instance: str
) -> None:
    """A bound pod of ours that names a claim has devices by it, and they are kept for it."""
    by_name = {one.name: one for one in claims}
    for pod in pods:
        if pod.ended or not pod.spec.node_name or not is_ours(pod.metadata.labels, instance):
            continue
        for named in pod.spec.resource_claims:
            name = f"{pod.metadata.namespace}/{named.resource_claim_name}"
            claim = by_name.get(name)
            if claim is None:
                findings.add(name, "is missing: a bound pod names this claim")
            elif not claim.held:
                findings.add(name, "has no devices, and its pod is bound")
            elif pod.metadata.uid not in {one.uid for one in claim.status.reserved_for}:
                findings.add(name, "is not reserved for its pod, which is bound")
