"""I2 of the limits themselves: the rows of the ledger say what the documents say.

A check on a row is worth what its limit is worth. So the ceiling and the guaranteed part of each
row are worked out again, from the facts with the versions that placement has taken up.
"""

from __future__ import annotations

from typing import Final

from operations.check.limits import UNITS, tree_of
from operations.check.model import Evidence, Findings, Payload

ROWS_SQL: Final = (
    "SELECT u.quota_node, u.flavor, q.kind, q.version,"
    " u.gpu_milli_limit, u.cpu_milli_limit, u.memory_mib_limit,"
    " u.gpu_milli_guaranteed, u.cpu_milli_guaranteed, u.memory_mib_guaranteed"
    " FROM placement.usage u JOIN placement.quota_node q ON q.name = u.quota_node"
)
NODES_SQL: Final = "SELECT name, kind, version FROM placement.quota_node"


def check_quota_rows(evidence: Evidence) -> Findings:
    """Every limit in the ledger against the documents in force there."""
    findings = Findings()
    documents = _documents(evidence)
    if documents is None:
        return findings
    tree = tree_of(documents)
    for row in evidence.rows["quota_rows"]:
        findings.checked += 1
        name, flavor = row["quota_node"], row["flavor"]
        for unit in UNITS:
            ceiling, kept = tree.ceiling(name, flavor, unit), tree.kept(name, flavor, unit)
            found = row[f"{unit}_limit"], row[f"{unit}_guaranteed"]
            if (ceiling, kept) != found:
                findings.add(
                    f"{name}/{flavor}",
                    f"the row says limit {found[0]} and guaranteed {found[1]} {unit}, "
                    f"the documents {ceiling} and {kept}",
                )
    return findings


def _documents(evidence: Evidence) -> list[Payload] | None:
    """The document of each node at the version in the ledger; None if the log lacks one."""
    told = {
        (record.payload["name"], record.payload.get("version", 1)): record.payload
        for record in evidence.log.of("muster.quota.changed.v1")
    }
    documents: list[Payload] = []
    for row in evidence.rows["quota_nodes"]:
        found = told.get((row["name"], row["version"]))
        if found is None and row["version"] > 0:
            return None
        documents.append(found or {"name": row["name"], "kind": row["kind"]})
    return documents
