"""Room that is being vacated for a preemptor: what it is for, what of it is held, its row.

A row is a promise, not a charge: devices and quota of the ledger stay with the victims until
their pods are gone. In memory the rest of the placement is held at once (holds.py), and quota is
counted as if victims and preemptor had changed places already, so that no other is given
either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from services.placement.state.holds import Piece, hold, let_go, pieces_of
from services.placement.state.records import Record, Records
from services.placement.state.usage import Shift, Usage
from shared.core.model.amounts import amount
from shared.core.model.nouns import Placement
from shared.core.model.value import replace
from shared.core.placement.resize import charge_of, surplus
from shared.core.preemption.moves import Holder
from shared.core.scoring import Cluster
from shared.ports.reader import Reader
from shared.ports.store import Write

SAVE: Final = (
    "INSERT INTO placement.reservation AS r (workload_id, plan_id, queue, flavor, expires_at_ms,"
    " body, epoch) SELECT x.*, {epoch} FROM unnest({0}::text[], {1}::text[], {2}::text[],"
    " {3}::text[], {4}::bigint[], {5}::text[]) AS x"
    " ON CONFLICT (workload_id) DO UPDATE SET plan_id = excluded.plan_id, queue = excluded.queue,"
    " flavor = excluded.flavor, expires_at_ms = excluded.expires_at_ms, body = excluded.body,"
    " epoch = excluded.epoch RETURNING 1"
)
FORGET: Final = (
    "DELETE FROM placement.reservation WHERE workload_id = ANY ({0}::text[]) RETURNING 1"
)
READ: Final = "SELECT body FROM placement.reservation ORDER BY workload_id"


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """Room for one workload of an accepted plan.

    `victims` are (workload id, attempt, pods that it keeps), with the quota of which it is placed;
    what moves is its own. `movers` give devices alone: their quota goes with them.
    """

    plan_id: str
    workload_id: str
    queue: str
    rule: str
    placement: Placement
    victims: tuple[tuple[str, int, int], ...]
    expires_at_ms: int
    movers: tuple[tuple[str, int], ...] = ()

    @property
    def moves(self) -> bool:
        """Whether it is for a workload that goes on elsewhere."""
        return any(name == self.workload_id for name, *_ in self.victims)

    @property
    def leaving(self) -> frozenset[str]:
        """Workloads of which the pods must be gone."""
        gone = frozenset(name for name, _, _ in self.victims)
        return gone | {name for name, _ in self.movers}

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes of the placement."""
        return frozenset(pod.node for pod in self.placement.pods)


@dataclass(slots=True)
class _Held:
    reservation: Reservation
    pieces: list[Piece] = field(default_factory=list)
    quota: list[Shift] = field(default_factory=list)


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Reservation)


class Reservations:
    """All reservations of one cell, each held in `cluster` and `usage`."""

    def __init__(self, cluster: Cluster, usage: Usage, records: Records) -> None:
        self._cluster, self._usage, self._records = cluster, usage, records
        self._held: dict[str, _Held] = {}
        self._of_victim: dict[str, dict[str, None]] = {}
        """By what leaves: for what."""
        self._attempts: Counter[tuple[str, int]] = Counter()
        """How many name this attempt of a victim, also after it was released."""
        self._touched: dict[str, None] = {}
        self.ready: dict[str, None] = {}
        """Preemptors of which the last victim is gone."""
        self.left: dict[str, None] = {}
        """Preemptors that wait no more."""

    def __len__(self) -> int:
        return len(self._held)

    def of(self, workload_id: str) -> Reservation | None:
        """The reservation for a workload."""
        held = self._held.get(workload_id)
        return held.reservation if held is not None else None

    def name_victim(self, record: Record) -> bool:
        """Whether this attempt makes, or has made, room for one that is not placed yet."""
        return (record.workload.id, record.attempt) in self._attempts

    def on(self, node: str) -> list[Reservation]:
        """Those with a pod on `node`. O(reservations)."""
        return [one.reservation for one in self._held.values() if node in one.reservation.nodes]

    def add(self, reservation: Reservation) -> None:
        """Keep the room; the caller knows that it fits once the victims are gone."""
        self._restore(reservation)
        self._touched[reservation.workload_id] = None
        self._settled(self._held[reservation.workload_id])

    def drop(self, workload_id: str) -> Reservation:
        """Keep it no longer."""
        held = self._held.pop(workload_id)
        self._let_go(held)
        for name in held.reservation.leaving:
            self._forget(name, workload_id)
        for name, attempt, _ in held.reservation.victims:
            self._attempts[name, attempt] -= 1
            if not self._attempts[name, attempt]:
                del self._attempts[name, attempt]
        self.ready.pop(workload_id, None)
        self.left.pop(workload_id, None)
        self._touched[workload_id] = None
        return held.reservation

    def moves_until_ms(self, workload_id: str) -> int:
        """Until when room is kept for one that goes on elsewhere; 0 for any other."""
        reservation = self.of(workload_id)
        return reservation.expires_at_ms if reservation is not None and reservation.moves else 0

    def withdrawn(self, workload_id: str) -> None:
        """The workload may not be placed any more."""
        if workload_id in self._held:
            self.left[workload_id] = None

    def released(self, victim_id: str) -> None:
        """The ledger holds nothing, or less, for this workload: what it left is held now."""
        helds = [self._held[one] for one in self._of_victim.pop(victim_id, {})]
        for held in helds:
            self._let_go(held)
        for held in helds:
            self._hold(held)
            self._settled(held)

    def pieces(self) -> Iterator[Piece]:
        """Everything held in the cluster."""
        for held in self._held.values():
            yield from held.pieces

    def quota(self) -> Iterator[Sequence[Shift]]:
        """How each changes what is promised of the quota."""
        return (held.quota for held in self._held.values())

    # ── inside ──

    def _restore(self, reservation: Reservation) -> None:
        held = self._held[reservation.workload_id] = _Held(reservation)
        for name in reservation.leaving:
            self._of_victim.setdefault(name, {})[reservation.workload_id] = None
        self._attempts.update((name, attempt) for name, attempt, _ in reservation.victims)
        self._hold(held)

    def _forget(self, victim: str, workload_id: str) -> None:
        known = self._of_victim.get(victim, {})
        known.pop(workload_id, None)
        if not known:
            self._of_victim.pop(victim, None)

    def _settled(self, held: _Held) -> None:
        reservation = held.reservation
        if not self._leaving(reservation) and not self._moving(reservation):
            self.ready[held.reservation.workload_id] = None

    def _leaving(self, reservation: Reservation) -> list[Holder]:
        """What its victims still hold of what they are to give up."""
        found = []
        for name, attempt, pods_kept in reservation.victims:
            record = self._records.alive.get(name)
            if record is not None and record.attempt == attempt:
                part = given_up(record, pods_kept)
                if part is not None:
                    found.append((record.workload, part))
        return found

    def _moving(self, reservation: Reservation) -> list[Holder]:
        """What those that give devices alone still hold."""
        alive = self._records.alive
        return [
            (record.workload, record.placement)
            for name, attempt in reservation.movers
            if (record := alive.get(name)) and record.attempt == attempt and record.placement
        ]

    def _hold(self, held: _Held) -> None:
        reservation = held.reservation
        workload = self._records.alive[reservation.workload_id].workload
        leaving = [*self._leaving(reservation), *self._moving(reservation)]
        held.pieces = hold(self._cluster, pieces_of(workload, reservation.placement, leaving))
        held.quota = self._quota(reservation)
        self._usage.keep(held.quota, 1)

    def _let_go(self, held: _Held) -> None:
        let_go(self._cluster, held.pieces)
        self._usage.keep(held.quota, -1)
        held.pieces, held.quota = [], []

    def _quota(self, reservation: Reservation) -> list[Shift]:
        """The preemptor's charge comes, and what the victims that are left give up goes."""
        flavor, charge = reservation.placement.flavor, amount(reservation.placement.charge)
        shifts: list[Shift] = [(reservation.queue, flavor, charge, 1)]
        for workload, part in self._leaving(reservation):
            shifts.append((workload.queue, part.flavor, amount(part.charge), -1))
        return shifts

    # ── rows ──

    async def load(self, reader: Reader) -> None:
        """Hold everything again after a restart; records and quota are loaded already."""
        for row in await reader.fetch(READ):
            reservation = _decoder.decode(row["body"])
            self._restore(reservation)
            self._settled(self._held[reservation.workload_id])

    def writes(self) -> list[Write]:
        """The rows that changed since the last call."""
        touched, self._touched = self._touched, {}
        saved = [held.reservation for name in touched if (held := self._held.get(name))]
        gone = [name for name in touched if name not in self._held]
        writes = []
        if saved:
            columns = zip(*map(_row, saved), strict=True)
            writes.append(Write(SAVE, tuple(list(column) for column in columns), len(saved)))
        if gone:
            writes.append(Write(FORGET, (gone,)))
        return writes


def given_up(record: Record, pods_kept: int) -> Placement | None:
    """What a victim is still to give up; None if that is nothing."""
    placement = record.placement
    if placement is None or not pods_kept:
        return placement
    pods = surplus(placement, pods_kept)
    if not pods:
        return None
    return replace(placement, pods=pods, charge=charge_of(record.workload, pods))


def _row(one: Reservation) -> tuple[Any, ...]:
    body = _encoder.encode(one).decode()
    place = (one.workload_id, one.plan_id, one.queue, one.placement.flavor)
    return (*place, one.expires_at_ms, body)
