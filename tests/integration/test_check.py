"""The checker finds what is planted: each violation, by the invariant that forbids it."""

import asyncio
import dataclasses
import json
import os
import subprocess
import sys

import pytest

from operations.check.database import read_rows
from operations.check.model import CannotCheck, Record
from operations.check.runner import INVARIANTS, judge
from shared.adapters.kafka.topics import create_topics
from shared.events.topics import TOPICS
from shared.ports.kafka_access import KafkaAccess
from tests.fixtures.servers import Database
from tests.support.checker import produce, read, violated
from tests.unit.operations import world as w
from tests.unit.operations.world import ONE, TWO, World, healthy

UNGUARDED = (
    "ALTER TABLE placement.allocation DISABLE TRIGGER ALL",
    *(
        f"ALTER TABLE placement.{table} DROP CONSTRAINT {name}"
        for table, name in (
            ("gpu", "gpu_slices"),
            ("gpu", "gpu_milli"),
            ("gpu", "gpu_memory"),
            ("gpu", "gpu_mode"),
            ("usage", "usage_gpu"),
            ("node", "node_cpu"),
        )
    ),
)


def test_a_healthy_world_has_no_violation_and_every_invariant_looked_at_something(
    database: Database,
):
    results = judge(read(database, healthy()))

    assert {} == {one.id: one.violations for one in results if not one.ok}
    assert [] == [one.id for one in results if one.checked == 0]
    assert [one.id for one in INVARIANTS] == [one.id for one in results]


SQL_PLANTS = {
    "a GPU is given whole twice": ("I1", w.allocation_row(TWO, rank=1)),
    "a slice is given twice": (
        "I1",
        w.allocation_row(TWO, gpu=1, mask=3, milli=250),
        w.allocation_row(ONE, rank=1, gpu=1, mask=2, milli=125),
    ),
    "shares of a GPU sum to more than the whole": (
        "I1",
        w.allocation_row(TWO, gpu=1, mask=0, milli=600, gpu_memory_mib=10),
        w.allocation_row(TWO, rank=1, gpu=1, mask=0, milli=600, gpu_memory_mib=10),
    ),
    "shares of a GPU hold more memory than it has": (
        "I1",
        w.allocation_row(TWO, gpu=1, mask=0, milli=500, gpu_memory_mib=50_000),
        w.allocation_row(TWO, rank=1, gpu=1, mask=0, milli=500, gpu_memory_mib=50_000),
    ),
    "a share lies beside a slice": (
        "I1",
        w.allocation_row(TWO, gpu=1, mask=1, milli=125),
        w.allocation_row(TWO, rank=1, gpu=1, mask=0, milli=100, gpu_memory_mib=10),
    ),
    "two teams share a GPU by time": (
        "I1",
        w.allocation_row(TWO, gpu=1, mask=0, milli=100, gpu_memory_mib=10),
        w.allocation_row(ONE, rank=1, gpu=1, mask=0, milli=100, gpu_memory_mib=10, team="b"),
    ),
    "usage is not the sum of the allocations": (
        "I2",
        "UPDATE placement.usage SET gpu_milli = 0",
    ),
    "use is above the ceiling": ("I2", "UPDATE placement.usage SET gpu_milli_ceiling = 999"),
    "a ceiling stayed above a lowered limit": (
        "I2",
        "UPDATE placement.usage SET gpu_milli_limit = 500, gpu_milli_ceiling = 2000",
    ),
    "a limit is not what the document says": (
        "I2",
        "UPDATE placement.usage SET cpu_milli_limit = 64001, cpu_milli_ceiling = 64001",
    ),
    "a part is guaranteed that may be lent": (
        "I2",
        "UPDATE placement.usage SET memory_mib_guaranteed = 1",
    ),
    "devices are held without quota": (
        "I2",
        "UPDATE placement.allocation SET queue = 'nobody'",
    ),
    "a part of a charge is forgotten everywhere in the ledger": (
        "I2",
        "UPDATE placement.allocation SET cpu_milli = cpu_milli - 1",
        "UPDATE placement.usage SET cpu_milli = cpu_milli - 1",
        "UPDATE placement.node SET cpu_milli_used = cpu_milli_used - 1",
    ),
    "a placed gang has a pod without devices": (
        "I3",
        "UPDATE placement.workload SET placement = '" + json.dumps(w.HALVES) + "'",
    ),
    "a running workload holds nothing": ("I3", "DELETE FROM placement.allocation"),
    "an accepted request was never submitted": (
        "I4",
        "INSERT INTO gateway.accepted_request VALUES ('wlost', 'vision', '', '', '', 0, 1)",
    ),
    "a queued workload is unknown to placement": (
        "I4",
        f"DELETE FROM placement.workload WHERE id = '{ONE}'",
    ),
    "devices are held for a workload that has ended": ("I5", w.allocation_row(TWO, gpu=1)),
    "devices are held for an earlier attempt": (
        "I5",
        "UPDATE placement.allocation SET attempt = 0",
    ),
    "devices are held for nobody": (
        "I5",
        "UPDATE placement.allocation SET workload_id = 'wghost'",
    ),
    "pods run for a workload that has ended": (
        "I5",
        f"UPDATE binder.attempt SET state = 'running', active = true WHERE workload_id = '{TWO}'",
    ),
    "pods run of an earlier attempt": ("I5", "UPDATE binder.attempt SET attempt = 0"),
    "the cluster has fewer pods of a gang than the ledger": (
        "I3",
        f"UPDATE binder.attempt SET size = 2 WHERE workload_id = '{ONE}'",
    ),
    "a verdict is not what was told": ("I4", "UPDATE admission.workload SET state = 'rejected'"),
    "a version is missing in the audit": (
        "I8",
        f"DELETE FROM placement.audit WHERE subject = '{ONE}' AND version = 2",
    ),
    "a version is written twice": (
        "I8",
        (
            "INSERT INTO placement.audit SELECT shard, seq + 500, event_id, subject, version,"
            f" kind, before, after, actor, at_ms, epoch, digest FROM placement.audit"
            f" WHERE subject = '{ONE}'"
        ),
    ),
    "a transition is not in the table": (
        "I8",
        f"UPDATE admission.audit SET after = 'running' WHERE subject = '{ONE}'",
    ),
    "one byte of an audit row was changed": (
        "I7",
        "UPDATE placement.audit SET actor = 'x' WHERE seq = 1",
    ),
    "an audit row was taken out": ("I7", "DELETE FROM placement.audit WHERE seq = 2"),
    "a state has no audit row": ("I8", f"DELETE FROM placement.audit WHERE subject = '{ONE}'"),
    "the row says another state than the audit": (
        "I8",
        f"UPDATE placement.workload SET state = 'bound' WHERE id = '{ONE}'",
    ),
    "something follows the end": (
        "I8",
        (
            "INSERT INTO placement.audit VALUES ('0', 900, '00000000-0000-0000-0000-000000000001',"
            f" '{TWO}', 5, '', 'succeeded', 'queued', '', 0, 1, '')"
        ),
    ),
    "a stale writer wrote to the outbox": (
        "I9",
        "UPDATE placement.outbox SET epoch = 2 WHERE seq = 2",
    ),
    "a stale writer wrote an audit row": (
        "I9",
        "UPDATE placement.audit SET epoch = 2 WHERE seq = 2",
    ),
    "the holder of a lost lease wrote once more": (
        "I9",
        "UPDATE placement.lease_history SET next_seq = 3 WHERE epoch = 2",
    ),
    "a row carries an epoch that no lease gave out": (
        "I9",
        "UPDATE binder.outbox SET epoch = 7",
    ),
    "a lease has another epoch than its history": ("I9", "UPDATE binder.lease SET epoch = 9"),
    "a sequence number is missing": ("I11", "DELETE FROM placement.outbox WHERE seq = 3"),
    "a workload appears that was never queued": (
        "I12",
        w.workload_row("wghost", "queued", 1, w.ON_GPU_0),
    ),
    "a GPU row says another use than the allocations": (
        "I13",
        "UPDATE placement.gpu SET milli_used = 10 WHERE gpu = 1",
    ),
    "a mask and its count differ": ("I13", "UPDATE placement.gpu SET slices_used = 3"),
    "a node says another use than the allocations": (
        "I13",
        "UPDATE placement.node SET cpu_milli_used = 1",
    ),
    "the ledger counts with CPUs that no agent reported": (
        "I13",
        "UPDATE placement.node SET cpu_milli = 65000",
    ),
    "a GPU that was reported is missing": ("I13", "DELETE FROM placement.gpu WHERE gpu = 1"),
    "an attempt used more than it is charged": (
        "I19",
        "UPDATE gateway.gpu_usage SET used = used + 1",
    ),
    "a day of an attempt is missing": ("I19", "DELETE FROM gateway.gpu_usage WHERE day = 20758"),
    "more is told of a day than fits": (
        "I19",
        "UPDATE gateway.gpu_usage SET unmeasured = 86400000001, ended = false",
    ),
    "a node is in the ledger that no agent reported": (
        "I13",
        "INSERT INTO placement.node VALUES ('ghost', 1, true, true, 1, 1, 0, 0, '')",
    ),
}


@pytest.mark.parametrize("plant", SQL_PLANTS)
def test_what_is_planted_in_the_database_is_found(database: Database, plant: str):
    expected, *statements = SQL_PLANTS[plant]

    found = violated(read(database, healthy(), *UNGUARDED, *statements))

    assert expected in found, found


def test_what_is_not_yet_published_or_read_is_no_violation(database: Database):
    world = healthy()
    world.tell("gateway", "submission.commands.v1", "submit.workload", {"workload_id": "wnew"})
    world.tell(
        "placement", "workload.facts.v1", "workload.running", {"workload_id": "x"}, in_log=False
    )
    mark = "UPDATE placement.watermark SET acked_seq = 7"

    assert violated(read(database, world, mark)) == {}


def test_a_submission_whose_verdict_waits_for_facts_is_not_lost(database: Database):
    world = healthy()
    world.records = [one for one in world.records if one.type != "muster.workload.queued.v1"]
    park = [
        f"INSERT INTO admission.parked (id, due_ms, body, epoch) VALUES ('{one}', 0, '', 1)"
        for one in (ONE, TWO)
    ]

    found = violated(read(database, world, *park, "DELETE FROM admission.workload"))

    assert "I4" not in found


@pytest.mark.parametrize("kept", [True, False])
def test_a_report_of_an_agent_that_a_lost_log_took_is_known_by_the_inbox(
    database: Database, kept: bool
):
    """Its agent has no outbox, so a log that is made again does not have it."""
    world = healthy()
    node = {"node": {"name": w.NODE}, "generation": 1}
    report = world.tell(
        "fleet", "node.facts.v1", "node-inventory.reported", node, in_outbox=False, in_log=False
    )
    world.tell("placement", "workload.facts.v1", "nodes.kept", {"cell": 0}, cause=report)
    read_it = (
        "INSERT INTO placement.inbox VALUES"
        f" ('{report.id}', '0', 1, 0, 'node.facts.v1', 0, 7, {w.START_MS}, 1)"
    )

    found = violated(read(database, world, *([read_it] if kept else [])))

    assert ("I12" in found) is not kept, found


def test_a_database_without_tables_cannot_be_called_healthy(postgres):
    name = f"test_check_empty_{os.getpid()}"
    postgres.create_database(name)
    try:
        with pytest.raises(CannotCheck, match="migrated"):
            asyncio.run(read_rows(postgres.url(database=name)))
    finally:
        postgres.drop_database(name)


def test_the_command_reads_the_real_log_and_exits_with_one_on_a_violation(
    database: Database, kafka: str, topic_prefix: str
):
    world = healthy()
    database.execute("BEGIN", *world.sql, "COMMIT")
    asyncio.run(create_topics(KafkaAccess(bootstrap=kafka), topic_prefix, TOPICS))
    asyncio.run(produce(kafka, topic_prefix, world.records))

    clean = _command(database, kafka, topic_prefix)
    asyncio.run(produce(kafka, topic_prefix, [_forged(world)]))
    broken = _command(database, kafka, topic_prefix)

    assert (clean.returncode, broken.returncode) == (0, 1), clean.stdout + clean.stderr
    report = json.loads(broken.stdout)
    assert not report["ok"]
    assert report["records"] == len(world.records) + 1
    assert "I11" in {one["id"] for one in report["invariants"] if one["violations"]}


def _forged(world: World) -> Record:
    last = world.records[-1]
    return dataclasses.replace(last, id="00000000-0000-0000-0000-00000000beef", sequence=99)


def _command(database: Database, kafka: str, prefix: str) -> subprocess.CompletedProcess[str]:
    addresses = ["--database", database.url(), "--kafka", kafka, "--prefix", prefix]
    code = "from operations.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "check", "-o", "json", *addresses],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
