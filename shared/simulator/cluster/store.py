"""The durable store of the simulated cluster: one SQLite file, one row for each pod.

The state lives in memory; the store exists so that `kill -9` loses nothing that was answered. WAL
without a sync on each commit survives the death of the process, which is what is simulated here;
a power cut is not. One thread writes, each call is one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from shared.ports.cluster import Pod
from shared.simulator.pods import PodRecord, Snapshot

TABLES = """
CREATE TABLE IF NOT EXISTS pod (
    serial INTEGER PRIMARY KEY,
    body BLOB NOT NULL,
    start_at_ms INTEGER NOT NULL,
    end_at_ms INTEGER NOT NULL,
    gone_at_ms INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS progress (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL,
    serial INTEGER NOT NULL,
    starts INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS node_unheard (name TEXT PRIMARY KEY, fenced INTEGER NOT NULL);
INSERT OR IGNORE INTO progress VALUES (1, 0, 0, 0);
"""

PodRow = tuple[int, bytes, int, int, int]


class StoreBatch(NamedTuple):
    """Everything that one commit makes durable."""

    upserts: Sequence[PodRow]
    removed: Sequence[tuple[int]]
    version: int
    serial: int
    unheard: Sequence[tuple[str, bool]] | None
    """Nodes that are not heard of and whether they are fenced; None when that did not change."""


class PodStore:
    """Opened by one process at a time; raises sqlite3.OperationalError when another has it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(
            folder / "pods.sqlite", check_same_thread=False, isolation_level=None, timeout=5
        )
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = NORMAL"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.executescript(TABLES)

    def load(self) -> tuple[Snapshot, int]:
        """What was committed last, and how often the store was opened before."""
        execute = self._connection.execute
        execute("UPDATE progress SET starts = starts + 1")
        version, serial, starts = execute(
            "SELECT version, serial, starts FROM progress"
        ).fetchone()
        decoder = msgspec.json.Decoder(Pod)
        records = [
            PodRecord(
                serial=row[0],
                pod=decoder.decode(row[1]),
                start_at_ms=row[2],
                end_at_ms=row[3],
                gone_at_ms=row[4],
            )
            for row in execute("SELECT * FROM pod ORDER BY serial")
        ]
        unheard = execute("SELECT name, fenced FROM node_unheard").fetchall()
        snapshot = Snapshot(
            records=records,
            version=version,
            serial=serial,
            nodes_down={name for name, _ in unheard},
            nodes_gone={name for name, fenced in unheard if fenced},
        )
        return snapshot, starts

    def write(self, batch: StoreBatch) -> None:
        """Commit one batch; all of it or nothing."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany("REPLACE INTO pod VALUES (?, ?, ?, ?, ?)", batch.upserts)
            connection.executemany("DELETE FROM pod WHERE serial = ?", batch.removed)
            connection.execute(
                "UPDATE progress SET version = ?, serial = ?", (batch.version, batch.serial)
            )
            if batch.unheard is not None:
                connection.execute("DELETE FROM node_unheard")
                connection.executemany("INSERT INTO node_unheard VALUES (?, ?)", batch.unheard)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def close(self) -> None:
        """Write the log back into the file and let go of it."""
        self._connection.close()
