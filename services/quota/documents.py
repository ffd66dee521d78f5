"""Documents of the organisation become the quota tree; its limits in force become facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from shared.core.queueing.nomination import FlavorKind, Nominator
from shared.core.quota.prices import price_problems
from shared.core.quota.tree import QuotaNode
from shared.events.organisation import (
    CohortApplied,
    DocumentDeleted,
    FlavorApplied,
    QueueApplied,
    emptied,
)
from shared.events.quota_documents import document_of
from shared.events.quotas import QuotaChanged
from shared.ports.reader import Reader
from shared.ports.store import Write

_UPSERT_NODES: Final = (
    "INSERT INTO quota.quota_node (name, kind, version, revision, body, closed_version, epoch)"
    " SELECT n, k, v, r, b, c, {epoch} FROM unnest({0}::text[], {1}::text[], {2}::bigint[],"
    " {3}::bigint[], {4}::text[], {5}::bigint[]) AS rows(n, k, v, r, b, c)"
    " ON CONFLICT (name) DO UPDATE SET version = excluded.version,"
    " revision = excluded.revision, body = excluded.body,"
    " closed_version = excluded.closed_version, epoch = excluded.epoch RETURNING 1"
)
_UPSERT_FLAVORS: Final = (
    "INSERT INTO quota.flavor (name, version, body, epoch) SELECT n, v, b, {epoch}"
    " FROM unnest({0}::text[], {1}::bigint[], {2}::text[]) AS rows(n, v, b)"
    " ON CONFLICT (name) DO UPDATE SET version = excluded.version, body = excluded.body,"
    " epoch = excluded.epoch RETURNING 1"
)
_PAYLOADS: Final = {"queue": QueueApplied, "cohort": CohortApplied}


class Documents:
    """What was applied, by name; `revisions` counts how often a node's limits were told."""

    def __init__(self, core: Nominator) -> None:
        self._core = core
        self._applied: dict[str, QueueApplied | CohortApplied] = {}
        self._revisions: dict[str, int] = {}
        self._flavors: dict[str, FlavorApplied] = {}
        self._closed: dict[str, int] = {}
        """Deleted, but still in use: the version of the deletion."""
        self._fresh_nodes: dict[str, None] = {}
        self._fresh_flavors: dict[str, None] = {}

    async def load(self, reader: Reader) -> None:
        """Rebuild from the rows. Any order will do: together they made sense before."""
        for row in await reader.fetch("SELECT body FROM quota.flavor ORDER BY name"):
            flavor = msgspec.json.decode(row["body"], type=FlavorApplied)
            self._flavors[flavor.name] = flavor
            self._core.apply_flavor(flavor.name, kind_of(flavor))
        rows = await reader.fetch(
            "SELECT kind, revision, body, closed_version FROM quota.quota_node ORDER BY name"
        )
        for row in rows:
            applied = msgspec.json.decode(row["body"], type=_PAYLOADS[row["kind"]])
            self._applied[applied.name] = applied
            self._revisions[applied.name] = row["revision"]
            if row["closed_version"] is not None:
                self._closed[applied.name] = row["closed_version"]
            self._core.apply(document_of(applied))

    def apply_flavor(self, flavor: FlavorApplied) -> str:
        """Put a flavor into force; what is wrong with it, or ""."""
        known = self._flavors.get(flavor.name)
        if known is not None and known.version >= flavor.version:
            return ""
        if flavor.price_microdollars_per_gpu_hour < 0:
            return f"{flavor.name}: its price is negative"
        problems = price_problems(flavor.purchase, flavor.prices, spot=flavor.spot)
        if problems:
            return f"{flavor.name}: {problems[0].field} {problems[0].rule}"
        self._flavors[flavor.name] = flavor
        self._fresh_flavors[flavor.name] = None
        self._core.apply_flavor(flavor.name, kind_of(flavor))
        return ""

    def apply(self, applied: QueueApplied | CohortApplied) -> tuple[QuotaNode | None, str]:
        """Put a queue or cohort into force: its node, or what is wrong with it."""
        flavors = [one.flavor for one in applied.flavors]
        if len(set(flavors)) < len(flavors):
            return None, f"{applied.name}: names a flavor twice"
        node, problem = self._core.apply(document_of(applied))
        if node is None:
            return None, problem
        if applied.version > self._closed.get(applied.name, applied.version):
            del self._closed[applied.name]  # it was made again before it was empty
        self._applied[applied.name] = applied
        self._revisions[node.name] = self._revisions.get(node.name, 0) + 1
        self._fresh_nodes[node.name] = None
        return node, ""

    def close(self, deleted: DocumentDeleted) -> None:
        """A queue or cohort is deleted; its limits hold until nothing uses it."""
        name, known = deleted.name, self._applied.get(deleted.name)
        if known is None:
            empty = emptied(deleted)
            assert isinstance(empty, QueueApplied | CohortApplied)
            known = self._applied[name] = msgspec.structs.replace(empty, version=0)
        if deleted.version > known.version:
            self._closed[name] = deleted.version
            self._fresh_nodes[name] = None

    def empty_unused(self, is_used: Callable[[str], bool]) -> list[QuotaNode]:
        """Take quota and place in the tree from what is deleted and not used any more.

        `is_used` says whether work is alive in a queue; a cohort is used by its members.
        """
        nodes = []
        while unused := [name for name in self._closed if not self._in_use(name, is_used)]:
            # A cohort may have been deleted before its members: it is looked at again after them.
            for name in unused:
                version = self._closed.pop(name)
                node, _ = self.apply(_without_quota(self._applied[name], version))
                nodes += [node] if node is not None else []
        return nodes

    def _in_use(self, name: str, is_used: Callable[[str], bool]) -> bool:
        found = self._core.tree.nodes.get(name)
        return is_used(name) or (found is not None and bool(found.children))

    def limits(self, node: QuotaNode, cell: int) -> QuotaChanged:
        """The document of a node in force; a cohort counts how often it was told."""
        document, applied = node.document, self._applied[node.name]
        assert document is not None
        queue = document.kind == "queue"
        return QuotaChanged(
            name=node.name,
            kind=document.kind,
            parent=document.parent,
            flavors=applied.flavors,
            strict=document.strict,
            held=document.held,
            weight=document.weight,
            version=document.version if queue else self._revisions[node.name],
            cell=cell,
            draining=document.draining,
            policy=document.policy,
            team=document.team,
        )

    def writes(self) -> Sequence[Write]:
        """Rows of what is new since the last call."""
        writes = []
        if self._fresh_nodes:
            nodes, self._fresh_nodes = [self._applied[one] for one in self._fresh_nodes], {}
            columns = (
                [one.name for one in nodes],
                ["queue" if isinstance(one, QueueApplied) else "cohort" for one in nodes],
                [one.version for one in nodes],
                [self._revisions.get(one.name, 0) for one in nodes],
                [msgspec.json.encode(one).decode() for one in nodes],
                [self._closed.get(one.name) for one in nodes],
            )
            writes.append(Write(_UPSERT_NODES, columns, len(nodes)))
        if self._fresh_flavors:
            flavors, self._fresh_flavors = [self._flavors[one] for one in self._fresh_flavors], {}
            bodies = [msgspec.json.encode(one).decode() for one in flavors]
            named = ([one.name for one in flavors], [one.version for one in flavors], bodies)
            writes.append(Write(_UPSERT_FLAVORS, named, len(flavors)))
        return writes


def kind_of(flavor: FlavorApplied) -> FlavorKind:
    """The core's noun for a flavor."""
    return FlavorKind(products=flavor.products, spot=flavor.spot)


def _without_quota(
    applied: QueueApplied | CohortApplied, version: int
) -> QueueApplied | CohortApplied:
    """What stays of a deleted document: its name, and its version."""
    if isinstance(applied, QueueApplied):
        return QueueApplied(name=applied.name, version=version, team=applied.team, held=True)
    return CohortApplied(name=applied.name, version=version)
