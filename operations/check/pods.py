"""I16: the pods of the API server are those of the ledger.

Ledger and cluster are read one after the other while both move, so a difference counts only if
it stays: it is looked for again until it is gone or `settle_seconds` have passed. What stays
longer is nothing that the binder is about to do.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from operations.check.api_pods import ApiPod, read_api_pods
from operations.check.database import read_queries
from operations.check.model import Findings, Result, Row, Violation
from operations.check.pod_labels import Key, is_ours, key_of, place_of
from operations.check.released import ATTEMPTS_SQL, released_early
from operations.check.simulated_pods import read_simulated_pods

SETTLE_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = 2.0
QUERIES: Final = {
    "held": """
        SELECT workload_id, attempt, rank, min(node) AS node,
               count(DISTINCT (node, gpu)) FILTER (WHERE gpu >= 0) AS gpus,
               coalesce(bool_and(mask = 255) FILTER (WHERE gpu >= 0), true) AS whole
        FROM placement.allocation GROUP BY workload_id, attempt, rank""",
    "bound": """
        SELECT workload_id, attempt,
               json_array_elements(CASE json_typeof(pods) WHEN 'object' THEN pods->'pods'
                                   ELSE pods END)->>'namespace' AS namespace,
               state IN ('bound', 'running') AND NOT evicting AND resizing = 0 AS settled
        FROM binder.attempt WHERE active""",
    "attempts": ATTEMPTS_SQL,
}


async def check_pods(
    url: str, cluster: Path | str, instance: str, *, settle_seconds: float | None = None
) -> Result:
    """The verdict on I16; `cluster`: a kubeconfig, or the URL of the simulated cluster.

    Raises:
        CannotCheck: the database or the cluster cannot be read.
    """
    proved = Findings()

    async def compared() -> Findings:
        rows = await read_queries(url, QUERIES)
        pods = await _read_pods(cluster, instance)
        proved.merge(released_early(rows["attempts"], pods, instance))
        return differences(rows, pods, instance)

    findings = await settled(compared, settle_seconds)
    findings.violations += dict.fromkeys(proved.violations)  # each once
    return findings.result("I16", "pods are those of the ledger")


async def _read_pods(cluster: Path | str, instance: str) -> list[ApiPod]:
    if isinstance(cluster, Path):
        return await read_api_pods(cluster)
    return await read_simulated_pods(cluster, instance)


async def settled(
    compared: Callable[[], Awaitable[Findings]], settle_seconds: float | None
) -> Findings:
    """What is still found after so long, `SETTLE_SECONDS` by default."""
    settle_seconds = SETTLE_SECONDS if settle_seconds is None else settle_seconds
    deadline = time.monotonic() + settle_seconds
    findings = await compared()
    while findings.violations and time.monotonic() < deadline:
        await asyncio.sleep(min(PAUSE_SECONDS, max(0.0, deadline - time.monotonic())))
        findings = _still(findings, await compared())
    return findings


def _still(before: Findings, now: Findings) -> Findings:
    """What was found both times."""
    known = set(before.violations)
    left: list[Violation] = [one for one in now.violations if one in known]
    return Findings(checked=now.checked, violations=left)


def differences(
    rows: Mapping[str, Sequence[Row]], pods: Iterable[ApiPod], instance: str
) -> Findings:
    """Every difference between the rows of the ledger and the pods."""
    found = list(pods)
    held = {(row["workload_id"], row["attempt"], row["rank"]): row for row in rows["held"]}
    ours: dict[Key, list[ApiPod]] = defaultdict(list)
    for pod in found:
        if is_ours(pod.metadata.labels, instance):
            ours[key_of(pod.metadata.labels)].append(pod)
    findings = Findings(checked=len(held) + sum(map(len, ours.values())))
    _missing(findings, rows["bound"], held, ours)
    _vanished(findings, rows["bound"], held, ours)
    _doubled(findings, ours)
    _elsewhere(findings, held, ours)
    _foreign(
        findings,
        rows["bound"],
        held,
        (one for one in found if not is_ours(one.metadata.labels, instance)),
    )
    _devices(findings, held, ours)
    return findings


def _live(pods: Iterable[ApiPod]) -> list[ApiPod]:
    return [pod for pod in pods if not pod.ended]


def _missing(
    findings: Findings,
    bound: Sequence[Row],
    held: Mapping[Key, Row],
    ours: Mapping[Key, list[ApiPod]],
) -> None:
    """A rank of an attempt that is bound has a pod; one that has ended is one too."""
    settled = {(row["workload_id"], row["attempt"]) for row in bound if row["settled"]}
    for key, row in held.items():
        if key[:2] in settled and not ours.get(key):
            findings.add(
                _name(key), f"is missing: the ledger has it on {row['node']}, no pod is there"
            )


def _vanished(
    findings: Findings,
    bound: Sequence[Row],
    held: Mapping[Key, Row],
    ours: Mapping[Key, list[ApiPod]],
) -> None:
    """Devices are held for an attempt as long as it has a live pod, or the binder makes some."""
    active = {(row["workload_id"], row["attempt"]): bool(row["settled"]) for row in bound}
    pods: dict[tuple[str, int], list[ApiPod]] = defaultdict(list)
    for key in held:
        pods[key[:2]] += ours.get(key, ())
    for (workload, attempt), found in pods.items():
        settled = active.get((workload, attempt))
        if _live(found) or settled is False or (settled and not found):
            continue  # a rank without a pod is told for itself
        what = (
            "all its pods have ended"
            if found
            else "it has no pod, and the binder does not know it"
        )
        findings.add(workload, f"attempt {attempt} holds devices, but {what}")


def _doubled(findings: Findings, ours: Mapping[Key, list[ApiPod]]) -> None:
    """One live pod for a rank, and live pods of one attempt only."""
    attempts: dict[str, set[int]] = defaultdict(set)
    for key, pods in ours.items():
        live = _live(pods)
        if live:
            attempts[key[0]].add(key[1])
        if len(live) > 1:
            names = " and ".join(sorted(map(place_of, live)))
            findings.add(_name(key), f"is doubled: {len(live)} live pods, {names}")
    for workload, numbers in attempts.items():
        if len(numbers) > 1:
            text = " and ".join(map(str, sorted(numbers)))
            findings.add(workload, f"is doubled: live pods of attempts {text}")


def _elsewhere(
    findings: Findings, held: Mapping[Key, Row], ours: Mapping[Key, list[ApiPod]]
) -> None:
    """A live pod is in the ledger, on the node that the ledger says."""
    for key, pods in ours.items():
        row = held.get(key)
        for pod in _live(pods):
            node = pod.spec.node_name
            if row is None:
                place = f"on {node}" if node else "not bound"
                findings.add(place_of(pod), f"is {place}, but the ledger has no row for it")
            elif node and node != row["node"]:
                findings.add(place_of(pod), f"is on {node}, the ledger has it on {row['node']}")


def _foreign(
    findings: Findings,
    bound: Sequence[Row],
    held: Mapping[Key, Row],
    others: Iterable[ApiPod],
) -> None:
    """The name of a pod of the ledger is not taken by a pod without our labels."""
    spaces = {(row["workload_id"], row["attempt"]): row["namespace"] or "default" for row in bound}
    names = {(spaces[key[:2]], _name(key)) for key in held if key[:2] in spaces}
    for pod in others:
        if (pod.metadata.namespace, pod.metadata.name) in names:
            findings.add(
                place_of(pod),
                f"is not ours: it has the name of a pod of the ledger and not its labels (uid "
                f"{pod.metadata.uid})",
            )


def _devices(
    findings: Findings, held: Mapping[Key, Row], ours: Mapping[Key, list[ApiPod]]
) -> None:
    """Where devices are known: whole GPUs are as many as the ledger says, each in one pod."""
    holders: dict[tuple[str, str], list[str]] = defaultdict(list)
    for key, row in held.items():
        for pod in _live(ours.get(key, ())):
            if not row["whole"] or not pod.devices:
                continue
            if len(set(pod.devices)) != row["gpus"]:
                findings.add(
                    place_of(pod), f"has {len(set(pod.devices))} devices, the ledger {row['gpus']}"
                )
            for device in set(pod.devices):
                holders[pod.spec.node_name, device].append(place_of(pod))
    for (node, device), pods in holders.items():
        if len(pods) > 1:
            findings.add(f"{node}/{device}", f"is held by {' and '.join(sorted(pods))}")


def _name(key: Key) -> str:
    return "-".join(map(str, key))
