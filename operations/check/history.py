"""I8: versions and states of every workload; I9: one writer at a time, by epochs.

The audit rows of all services together are the history of a workload: admission writes version
1, placement the rest. The same history told by the log must agree with it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

from operations.check.model import Evidence, Findings, Record, Row
from operations.check.states import ALLOWED, STATES, TERMINAL

WORKLOAD: Final = re.compile(r"w[a-z2-7]{26}")


def check_states(evidence: Evidence) -> Findings:
    """I8 over the audit rows, the current rows and the facts."""
    findings = Findings()
    histories = _histories(evidence)
    for subject, rows in histories.items():
        _check_history(findings, subject, rows)
    _check_current(findings, evidence, histories)
    _check_facts(findings, evidence, histories)
    return findings


def _histories(evidence: Evidence) -> dict[str, list[Row]]:
    histories: dict[str, list[Row]] = defaultdict(list)
    for row in evidence.rows["audit"]:
        if WORKLOAD.fullmatch(row["subject"]) and row["after"] in STATES:
            histories[row["subject"]].append(row)
    for rows in histories.values():
        rows.sort(key=lambda row: row["version"])
    return histories


def _check_history(findings: Findings, subject: str, rows: list[Row]) -> None:
    rows = [row for row in rows if row["version"] > 0]
    before, version = "received", 0
    for row in rows:
        findings.checked += 1
        if row["version"] == version:
            findings.add(subject, f"version {version} is written twice in the audit")
            continue
        if row["version"] != version + 1:
            findings.add(subject, f"version {row['version']} follows version {version}")
        if row["before"] != before:
            findings.add(
                subject,
                f"version {row['version']} starts from {row['before']}, but was {before}",
            )
        if (row["before"], row["after"]) not in ALLOWED:
            findings.add(subject, f"{row['before']} -> {row['after']} is not allowed")
        before, version = row["after"], row["version"]


def _check_current(
    findings: Findings, evidence: Evidence, histories: dict[str, list[Row]]
) -> None:
    for row in evidence.rows["placement_workload"]:
        findings.checked += 1
        history = histories.get(row["id"])
        if not history:
            findings.add(row["id"], f"is {row['state']} but has no audit row")
            continue
        last = history[-1]
        if (last["after"], last["version"]) != (row["state"], row["version"]):
            findings.add(
                row["id"],
                f"is {row['state']} at version {row['version']}, the audit ends with "
                f"{last['after']} at version {last['version']}",
            )


def _check_facts(findings: Findings, evidence: Evidence, histories: dict[str, list[Row]]) -> None:
    audited = {
        (subject, row["version"]): row["after"]
        for subject, rows in histories.items()
        for row in rows
    }
    last: dict[str, Record] = {}
    for record in evidence.log.on("workload.facts.v1"):
        if "version" not in record.payload:
            continue
        findings.checked += 1
        workload = record.payload["workload_id"]
        _check_fact(findings, evidence, audited, record, last.get(workload))
        last[workload] = record


def _check_fact(
    findings: Findings,
    evidence: Evidence,
    audited: dict[tuple[str, int], str],
    record: Record,
    before: Record | None,
) -> None:
    payload = record.payload
    workload, version, state = payload["workload_id"], payload["version"], payload["state"]
    if before is not None:
        _check_successor(findings, before, record)
    written = audited.get((workload, version))
    if written is None and evidence.log.covered(record):
        findings.add(workload, f"the log says {state} at version {version}, the audit nothing")
    if written is not None and written != state:
        findings.add(workload, f"version {version} is {state} in the log, {written} in the audit")


def _check_successor(findings: Findings, before: Record, record: Record) -> None:
    workload = record.payload["workload_id"]
    old, new = before.payload, record.payload
    if old["state"] in TERMINAL:
        findings.add(workload, f"{new['state']} is told after {old['state']}")
    elif new["version"] <= old["version"]:
        findings.add(workload, f"version {new['version']} is told after {old['version']}")
    elif new["version"] == old["version"] + 1 and (old["state"], new["state"]) not in ALLOWED:
        findings.add(workload, f"the log goes {old['state']} -> {new['state']}")


def check_epochs(evidence: Evidence) -> Findings:
    """I9: along the order of commits no epoch falls, and each was given out once."""
    findings = Findings(checked=sum(row["rows"] for row in evidence.rows["epoch_counts"]))
    for row in evidence.rows["epoch_falls"]:
        findings.add(
            f"{row['schema']}/{row['shard']}",
            f"{row['what']} {row['place']} was written at epoch {row['epoch']} after "
            f"epoch {row['before']}: a writer that had lost its lease",
        )
    for row in evidence.rows["epoch_unknown"]:
        findings.add(
            f"{row['schema']}/{row['shard']}",
            f"{row['rows']} rows of {row['what']} carry epoch {row['epoch']}, which no lease "
            f"gave out",
        )
    _check_commands(findings, evidence)
    return findings


def _check_commands(findings: Findings, evidence: Evidence) -> None:
    highest: dict[int, int] = {}
    for record in evidence.log.on("pod.commands.v1"):
        epoch = record.payload.get("epoch")
        if epoch is None:
            continue
        findings.checked += 1
        if epoch < highest.get(record.partition, 0):
            findings.add(
                record.payload.get("workload_id", f"cell-{record.partition}"),
                f"a command of epoch {epoch} follows one of epoch {highest[record.partition]}",
            )
        highest[record.partition] = max(epoch, highest.get(record.partition, 0))
