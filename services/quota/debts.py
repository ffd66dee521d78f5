"""What each node of the quota tree had beyond its part, or short of it (core/quota/deficits.py).

Looked at once a minute while work waits or a debt is not forgotten, at the time of a recorded
message, so the same messages give the same debts. A row for each node that ever had one; rows
come with the review that changes them, in one unit of work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from shared.core.queueing.nomination import Nominator
from shared.core.quota.deficits import HALF_LIFE_MS, FairShareDeficits
from shared.core.quota.usage_history import Account
from shared.events.quotas import DebtsTold
from shared.ports.reader import Reader
from shared.ports.store import Write

REVIEW_MS: Final = 60_000
TOLD_LEAST: Final = 500
"""A debt that has moved by less, in parts per million, is not told again."""
TOLD_TOGETHER: Final = 1_000
"""Nodes in one message."""
_UPSERT: Final = (
    "INSERT INTO quota.node_debt (node, half_life_ms, origin, weighted, rate, epoch)"
    " SELECT n, {1}::bigint, o, w::numeric, r, {epoch} FROM unnest({0}::text[],"
    " {2}::bigint[], {3}::text[], {4}::bigint[]) AS rows(n, o, w, r) ON CONFLICT (node) DO UPDATE"
    " SET half_life_ms = excluded.half_life_ms, origin = excluded.origin,"
    " weighted = excluded.weighted, rate = excluded.rate, epoch = excluded.epoch RETURNING 1"
)
_SELECT: Final = "SELECT node, origin, weighted::text AS weighted, rate FROM quota.node_debt"


class NodeDebts:
    """The debts of one cell, what of them is unwritten, and what was told."""

    def __init__(self, core: Nominator) -> None:
        self._core = core
        self._debts = FairShareDeficits()
        self._told: dict[str, int] = {}
        """The last word; of nothing after a restart, so all is told again."""
        self._fresh: dict[str, None] = {}
        self._reviewed_at_ms = 0
        self._moving = False
        """Whether debts were being made at the last review."""

    async def load(self, reader: Reader) -> None:
        """Rebuild from the rows."""
        for row in await reader.fetch(_SELECT):
            self._restore(row)
        self._moving = bool(self._debts.history.accounts)

    def _restore(self, row: Mapping[str, Any]) -> None:
        account = Account(rate=row["rate"], weighted=int(row["weighted"]), origin=row["origin"])
        self._debts.history.restore(row["node"], account)

    def due_ms(self, *, alive: bool) -> int | None:
        """When the next review is due: while any work is `alive`, and once more after it."""
        return self._reviewed_at_ms + REVIEW_MS if alive or self._moving else None

    def review(self, now_ms: int, cell: int) -> list[DebtsTold]:
        """Count on from what is used and asked for now; what the others are to be told."""
        waiting = self._core.gpu_milli_waiting()
        self._fresh.update(dict.fromkeys(self._debts.review(self._core.tree, waiting, now_ms)))
        self._reviewed_at_ms, self._moving = now_ms, self._debts.moving
        news = self._news(now_ms)
        self._core.set_debts(news)
        self._told |= news
        told = list(news.items())
        return [
            DebtsTold(debts=dict(told[at : at + TOLD_TOGETHER]), at_ms=now_ms, cell=cell)
            for at in range(0, len(told), TOLD_TOGETHER)
        ]

    def _news(self, now_ms: int) -> dict[str, int]:
        tree, found = self._core.tree, {}
        for name in self._debts.history.accounts:
            debt = self._debts.of(tree.node(name), now_ms)
            known = self._told.get(name)
            if known is None or abs(debt - known) >= TOLD_LEAST:
                found[name] = debt
        return found

    def writes(self) -> Sequence[Write]:
        """Rows of the accounts that changed since the last call."""
        if not self._fresh:
            return ()
        names, self._fresh = list(self._fresh), {}
        accounts = [self._debts.history.accounts[name] for name in names]
        columns = (
            names,
            HALF_LIFE_MS,
            [one.origin for one in accounts],
            [str(one.weighted) for one in accounts],
            [one.rate for one in accounts],
        )
        return (Write(_UPSERT, columns, len(names)),)
