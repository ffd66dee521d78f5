"""Runs all checks over one reading of database and log."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from operations.check.audit import check_chain, check_seals
from operations.check.causes import check_causes, check_outcomes
from operations.check.charges import check_charges
from operations.check.claims import check_claims
from operations.check.database import read_rows
from operations.check.dead_letters import check_dead_letters
from operations.check.device_health import check_device_health
from operations.check.gpu_states import check_gpu_states
from operations.check.history import check_epochs, check_states
from operations.check.idle import check_idle
from operations.check.ledger import check_capacity, check_ledger, check_pods_gone
from operations.check.log import LogReader
from operations.check.model import Evidence, Findings, Result
from operations.check.order import check_equality, check_order
from operations.check.pods import check_pods
from operations.check.preemption import check_liveness, check_preemption
from operations.check.quota_rows import check_quota_rows
from operations.check.replay import check_devices, check_gangs, check_quota
from operations.check.reserved_room import check_reserved_room
from operations.check.unreadable import check_unreadable
from operations.check.waiting import check_waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One promise, and the functions that look for its violations."""

    id: str
    what: str
    checks: tuple[Callable[[Evidence], Findings], ...]


def _sql(identifier: str) -> Callable[[Evidence], Findings]:
    return lambda evidence: check_ledger(evidence, identifier)


INVARIANTS: Final = (
    Invariant(id="I1", what="no GPU is given twice", checks=(_sql("I1"), check_devices)),
    Invariant(
        id="I2",
        what="use never exceeds quota",
        checks=(_sql("I2"), check_quota, check_quota_rows, check_charges),
    ),
    Invariant(id="I3", what="a gang is whole or absent", checks=(_sql("I3"), check_gangs)),
    Invariant(id="I4", what="accepted work has one outcome", checks=(check_outcomes,)),
    Invariant(id="I5", what="nothing is held for nobody", checks=(_sql("I5"), check_pods_gone)),
    Invariant(
        id="I6",
        what="evictions follow the rules",
        checks=(check_preemption, check_idle, check_reserved_room),
    ),
    Invariant(id="I7", what="the audit is whole and unchanged", checks=(check_chain, check_seals)),
    Invariant(id="I8", what="states follow the table", checks=(check_states,)),
    Invariant(id="I9", what="one writer at a time", checks=(check_epochs,)),
    Invariant(id="I10", what="the order of every producer holds", checks=(check_order,)),
    Invariant(id="I11", what="outboxes and log agree", checks=(check_equality,)),
    Invariant(id="I12", what="no effect without a cause", checks=(check_causes,)),
    Invariant(id="I13", what="capacity = free + held", checks=(_sql("I13"), check_capacity)),
    Invariant(
        id="I15",
        what="what is begun comes to its end",
        checks=(check_liveness, check_dead_letters),
    ),
    Invariant(id="I18", what="no work on a GPU out of service", checks=(check_device_health,)),
    Invariant(id="I19", what="used + unused + unmeasured = charged", checks=(_sql("I19"),)),
    Invariant(id="I21", what="what cannot be read is set aside", checks=(check_unreadable,)),
)


def by_wish(
    url: str,
    kubeconfig: Path | None,
    cluster: str | None,
    instance: str,
    monitoring: str | None = None,
    *,
    at_rest: bool,
) -> list[Callable[[], Coroutine[Any, Any, Result]]]:
    """The checks that look at more than one reading of database and log, those asked for.

    Args:
        url: of the database.
        kubeconfig: of an API server: its pods (I16) and claims (I17) are compared.
        cluster: in its place, the URL of the simulated cluster.
        instance: the label of this Muster's pods.
        monitoring: the address of its metrics: states of GPUs are compared (I22).
        at_rest: nothing is submitted, so what fits must not wait (I20).
    """
    wanted = list[Callable[[], Coroutine[Any, Any, Result]]]()
    if at_rest:
        wanted.append(partial(check_waiting, url))
    pods_of = kubeconfig or cluster
    if pods_of is not None:
        wanted.append(partial(check_pods, url, pods_of, instance))
    if kubeconfig is not None:
        wanted.append(partial(check_claims, url, kubeconfig, instance))
    if monitoring is not None:
        wanted.append(partial(check_gpu_states, url, monitoring))
    return wanted


async def gather(url: str, reader: LogReader, acknowledged: frozenset[str]) -> Evidence:
    """One reading: ends of the log, then the database in one snapshot, then the log."""
    ends = await reader.ends()
    rows = await read_rows(url)
    log = await reader.extend(ends)
    return Evidence(rows=rows, log=log, acknowledged=acknowledged)


def judge(evidence: Evidence) -> list[Result]:
    """The verdict on every invariant, in their order."""
    results = []
    for invariant in INVARIANTS:
        findings = Findings()
        for check in invariant.checks:
            findings.merge(check(evidence))
        results.append(findings.result(invariant.id, invariant.what))
    return results
