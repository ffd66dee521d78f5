"""Documents of the organisation become the quota tree; its limits in force become facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from shared.core.nomination.flavor_choice import FlavorKind
from shared.core.nomination.nominator import Nominator
from shared.core.quota.tree import QuotaNode
from shared.events.organisation import CohortApplied, FlavorApplied, QueueApplied
from shared.events.quota_documents import document_of
from shared.events.quotas import QuotaChanged
from shared.ports.reader import Reader
from shared.ports.store import Write

_UPSERT_NODES: Final = (
    "INSERT INTO quota.quota_node (name, kind, version, revision, body, epoch)"
    " SELECT n, k, v, r, b, {epoch} FROM unnest({0}::text[], {1}::text[], {2}::bigint[],"
    " {3}::bigint[], {4}::text[]) AS rows(n, k, v, r, b) ON CONFLICT (name) DO UPDATE SET"
    " version = excluded.version, revision = excluded.revision, body = excluded.body,"
    " epoch = excluded.epoch RETURNING 1"
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
        self._fresh_nodes: dict[str, None] = {}
        self._fresh_flavors: dict[str, None] = {}

    async def load(self, reader: Reader) -> None:
        """Rebuild from the rows. Any order will do: together they made sense before."""
        for row in await reader.fetch("SELECT body FROM quota.flavor ORDER BY name"):
            flavor = msgspec.json.decode(row["body"], type=FlavorApplied)
            self._flavors[flavor.name] = flavor
            self._core.apply_flavor(flavor.name, kind_of(flavor))
        rows = await reader.fetch(
            "SELECT kind, revision, body FROM quota.quota_node ORDER BY name"
        )
        for row in rows:
            applied = msgspec.json.decode(row["body"], type=_PAYLOADS[row["kind"]])
            self._applied[applied.name] = applied
            self._revisions[applied.name] = row["revision"]
            self._core.apply(document_of(applied))

    def apply_flavor(self, flavor: FlavorApplied) -> str:
        """Put a flavor into force; what is wrong with it, or ""."""
        known = self._flavors.get(flavor.name)
        if known is not None and known.version >= flavor.version:
            return ""
        if flavor.price_microdollars_per_gpu_hour < 0:
            return f"{flavor.name}: its price is negative"
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
        self._applied[applied.name] = applied
        self._revisions[node.name] = self._revisions.get(node.name, 0) + 1
        self._fresh_nodes[node.name] = None
        return node, ""

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
                [self._revisions[one.name] for one in nodes],
                [msgspec.json.encode(one).decode() for one in nodes],
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
