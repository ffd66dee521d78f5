"""What admission judges by, from facts: teams, quota and classes, and the shape of the fleet.

The latest fact of each name is kept as a row, so that a restart needs no old messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from shared.core.admission.fleet_shape import FleetShape, NodeOutline, summary_of
from shared.core.admission.pods import CPU_MILLI_MAX, MEMORY_MIB_MAX
from shared.core.admission.rules import AdmissionRules, TeamPolicy
from shared.core.model.priority_classes import PRIORITY_MAX, PriorityClass
from shared.core.model.units import Resources
from shared.events.nodes import NodeInventoryReported, NodeRemoved
from shared.events.organisation import (
    CohortApplied,
    DocumentDeleted,
    PriorityClassApplied,
    QueueApplied,
    TeamApplied,
    emptied,
)
from shared.events.quota_documents import document_of
from shared.ports.reader import Reader
from shared.ports.store import Write

Document = TeamApplied | QueueApplied | CohortApplied | PriorityClassApplied
KINDS: Final[dict[str, type[Document]]] = {
    "team": TeamApplied,
    "queue": QueueApplied,
    "cohort": CohortApplied,
    "priority_class": PriorityClassApplied,
}
_KIND_OF: Final = {payload: kind for kind, payload in KINDS.items()}
"""As in Kubernetes; a key of the order must fit 64 bits."""
_DOCUMENTS: Final = "SELECT kind, name, version, body FROM admission.document ORDER BY name"
"""A deleted document has no body."""
_UPSERT_DOCUMENTS: Final = (
    "INSERT INTO admission.document (kind, name, version, body, epoch)"
    " SELECT k, n, v, b, {epoch} FROM unnest({0}::text[], {1}::text[], {2}::bigint[],"
    " {3}::text[]) AS r(k, n, v, b) ON CONFLICT (kind, name) DO UPDATE SET"
    " version = excluded.version, body = excluded.body, epoch = excluded.epoch RETURNING 1"
)
_UPSERT_NODES: Final = (
    "INSERT INTO admission.node (name, generation, present, grown_at_ms, body, epoch)"
    " SELECT n, g, p, {4}::bigint, b, {epoch} FROM unnest({0}::text[], {1}::bigint[],"
    " {2}::boolean[], {3}::text[]) AS r(n, g, p, b) ON CONFLICT (name) DO UPDATE SET"
    " generation = excluded.generation, present = excluded.present,"
    " grown_at_ms = excluded.grown_at_ms, body = excluded.body, epoch = excluded.epoch RETURNING 1"
)
_summary: Final = msgspec.json.Decoder(NodeOutline)


class Rulebook:
    """`rules` for the core, and the rows behind them; `fleet` is empty and becomes theirs."""

    def __init__(self, fleet: FleetShape) -> None:
        self.rules = AdmissionRules(fleet=fleet)
        self.kafka_teams: dict[str, None] = {}
        """Teams that submit on a topic of their own, in the order of their creation."""
        self.changed_at_ms = 0
        """When a node or document last changed what could fit."""
        self._versions: dict[tuple[str, str], int] = {}
        self._generations: dict[str, int] = {}
        self._fresh_documents: dict[tuple[str, str], Document | DocumentDeleted] = {}
        self._fresh_nodes: dict[str, NodeOutline | None] = {}

    async def load(self, reader: Reader) -> None:
        """Rebuild from the rows; `self` must be new."""
        for row in await reader.fetch(_DOCUMENTS):
            key = (row["kind"], row["name"])
            if row["body"]:
                self._take(msgspec.json.decode(row["body"], type=KINDS[row["kind"]]))
            else:
                self._forget(DocumentDeleted(kind=key[0], name=key[1], version=row["version"]))
        rows = await reader.fetch(
            "SELECT name, generation, present, grown_at_ms, body FROM admission.node"
        )
        for row in rows:
            self._generations[row["name"]] = row["generation"]
            self.changed_at_ms = max(self.changed_at_ms, row["grown_at_ms"])
            if row["present"]:
                self.rules.fleet.put(row["name"], _summary.decode(row["body"]))
        self._fresh_documents.clear()

    def apply(self, document: Document, now_ms: int) -> bool:
        """A document of the organisation; whether it is news."""
        key = (_KIND_OF[type(document)], document.name)
        if self._versions.get(key, -1) >= document.version:
            return False
        self._take(document)
        self.changed_at_ms = now_ms
        return True

    def delete(self, deleted: DocumentDeleted, now_ms: int) -> bool:
        """A document is no more; whether it is news, and of a kind that counts here."""
        key = (deleted.kind, deleted.name)
        if deleted.kind not in KINDS or self._versions.get(key, -1) >= deleted.version:
            return False
        self._forget(deleted)
        self.changed_at_ms = now_ms
        return True

    def _forget(self, deleted: DocumentDeleted) -> None:
        rules, name = self.rules, deleted.name
        empty = emptied(deleted)
        match empty:
            case TeamApplied():
                rules.forget_team(name)
                self.kafka_teams.pop(name, None)
            case QueueApplied():
                rules.forget_queue(document_of(empty))
            case CohortApplied():
                rules.apply_quota(document_of(empty))
            case _:
                rules.forget_class(name)
        key = (deleted.kind, name)
        self._versions[key] = deleted.version
        self._fresh_documents[key] = deleted

    def _take(self, document: Document) -> None:
        rules = self.rules
        match document:
            case TeamApplied():
                rules.teams[document.name] = TeamPolicy(
                    name=document.name,
                    default_queue=document.default_queue,
                    priority_classes=document.priority_classes,
                    default_pod=_bounded(document.default_pod),
                    max_pod=document.max_pod,
                    max_pending=document.max_pending,
                    namespace=document.namespace,
                    service_account=document.service_account,
                )
                if document.kafka:
                    self.kafka_teams[document.name] = None
                else:
                    self.kafka_teams.pop(document.name, None)
            case QueueApplied() | CohortApplied():
                rules.apply_quota(document_of(document))
            case PriorityClassApplied():
                rules.classes[document.name] = PriorityClass(
                    name=document.name,
                    value=min(max(document.value, -PRIORITY_MAX), PRIORITY_MAX),
                    protected=document.protected,
                    kinds=document.kinds,
                )
        key = (_KIND_OF[type(document)], document.name)
        self._versions[key] = document.version
        self._fresh_documents[key] = document

    def report(self, fact: NodeInventoryReported, now_ms: int) -> bool:
        """A node as its agent reports it; whether the shape of the fleet changed."""
        name = fact.node.name
        if self._generations.get(name, -1) > fact.generation:
            return False
        self._generations[name] = fact.generation
        summary = summary_of(fact.node)
        if not self.rules.fleet.put(name, summary):
            return False
        self._fresh_nodes[name] = summary
        self.changed_at_ms = now_ms
        return True

    def remove(self, fact: NodeRemoved) -> bool:
        """A node has left; whether it was known."""
        if self._generations.get(fact.node, -1) > fact.generation:
            return False
        self._generations[fact.node] = fact.generation
        if not self.rules.fleet.remove(fact.node):
            return False
        self._fresh_nodes[fact.node] = None
        return True

    def writes(self) -> Sequence[Write]:
        """Rows of what is new since the last call."""
        writes = []
        if self._fresh_documents:
            writes.append(_document_rows(self._fresh_documents))
            self._fresh_documents = {}
        if self._fresh_nodes:
            writes.append(self._node_rows())
            self._fresh_nodes = {}
        return writes

    def _node_rows(self) -> Write:
        nodes = self._fresh_nodes
        bodies = [msgspec.json.encode(one).decode() if one else "" for one in nodes.values()]
        generations = [self._generations[name] for name in nodes]
        present = [one is not None for one in nodes.values()]
        columns = (list(nodes), generations, present, bodies, self.changed_at_ms)
        return Write(_UPSERT_NODES, columns, len(nodes))


def _bounded(default: Resources) -> Resources:
    """A default that no submission could ask for would poison each submission that takes it."""
    return Resources(
        cpu_milli=min(max(default.cpu_milli, 0), CPU_MILLI_MAX),
        memory_mib=min(max(default.memory_mib, 0), MEMORY_MIB_MAX),
    )


def _document_rows(documents: dict[tuple[str, str], Document | DocumentDeleted]) -> Write:
    columns = (
        [kind for kind, _ in documents],
        [name for _, name in documents],
        [one.version for one in documents.values()],
        [_body(one) for one in documents.values()],
    )
    return Write(_UPSERT_DOCUMENTS, columns, len(documents))


def _body(document: Document | DocumentDeleted) -> str:
    deleted = isinstance(document, DocumentDeleted)
    return "" if deleted else msgspec.json.encode(document).decode()
