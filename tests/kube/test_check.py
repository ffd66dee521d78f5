"""`muster-ops check --kubeconfig`: each difference between ledger and API server is found."""

import asyncio
import itertools
import os
import re
import sys
from pathlib import Path

import pytest

from deploy.kube.nodes import node_name
from operations.check.model import CannotCheck, Evidence
from operations.check.pods import check_pods
from operations.cli import main
from services.binder.stored_pods import written
from shared.ports.cluster import Pod
from tests.fixtures.kube import make_namespace
from tests.support.commands import ended
from tests.unit.operations import world as w

WORK = "w" + "d" * 26
FIRST, SECOND, THIRD = node_name(0), node_name(3), node_name(6)
_numbers = itertools.count(1)


def bound_pod(rank, namespace):
    return Pod(
        name=f"{WORK}-1-{rank}", namespace=namespace, workload_id=WORK, attempt=1, rank=rank,
        size=2, epoch=1,
    )  # fmt: skip


class Planted:
    """A gang of two whole GPUs in the ledger, bound; pods are planted by an administrator."""

    def __init__(self, kube, database, namespace):
        self.kube, self.database, self.namespace = kube, database, namespace
        self.instance = f"check-{os.getpid()}-{next(_numbers)}"
        pods = written(tuple(bound_pod(rank, namespace) for rank in range(2)))
        database.execute(
            "ALTER TABLE placement.allocation DISABLE TRIGGER ALL",
            w.allocation_row(WORK, rank=0, node=FIRST),
            w.allocation_row(WORK, rank=1, node=SECOND),
            w.attempt_row(WORK, "running", size=2),
            f"UPDATE binder.attempt SET pods = '{pods}' WHERE workload_id = '{WORK}'",
        )

    def pod(self, rank, node, *, attempt=1, name=None, labels=True, devices="", workload=WORK):
        metadata = {"name": name or f"{workload}-{attempt}-{rank}"}
        if labels:
            metadata["labels"] = {
                "app.kubernetes.io/managed-by": "muster",
                "muster.dev/instance": self.instance,
                "muster.dev/workload": workload,
                "muster.dev/attempt": str(attempt),
                "muster.dev/rank": str(rank),
            }
            metadata["annotations"] = {"muster.dev/devices": devices}
        container = {"name": "c", "image": "a/b:1"}
        spec = {"schedulerName": "muster", "containers": [container]}
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        with self.kube.client() as admin:
            admin.demand("POST", path, {"metadata": metadata, "spec": spec})
            if node:
                target = {"apiVersion": "v1", "kind": "Node", "name": node}
                body = {"metadata": {"name": metadata["name"]}, "target": target}
                admin.demand("POST", f"{path}/{metadata['name']}/binding", body)

    def both(self, **of_second):
        self.pod(0, FIRST, devices="GPU-a")
        self.pod(1, SECOND, **{"devices": "GPU-a", **of_second})

    def found(self, identity="checker"):
        kubeconfig = self.kube.kubeconfig(identity)
        work = check_pods(self.database.url(), kubeconfig, self.instance, settle_seconds=0)
        return [f"{one.subject}: {one.detail}" for one in asyncio.run(work).violations]


@pytest.fixture
def planted(kube, database, kube_namespace):
    return Planted(kube, database, kube_namespace)


def test_a_ledger_and_its_pods_agree(planted):
    planted.both()

    assert planted.found() == []


def test_a_pod_that_is_missing(planted):
    planted.pod(0, FIRST)

    assert planted.found() == [
        f"{WORK}-1-1: is missing: the ledger has it on {SECOND}, no pod is there"
    ]


def test_a_pod_that_is_doubled(planted):
    planted.both()
    planted.pod(1, SECOND, name="again")

    [told] = planted.found()
    assert told.startswith(f"{WORK}-1-1: is doubled: 2 live pods, ")


def test_pods_of_two_attempts_and_one_that_the_ledger_does_not_know(planted):
    planted.both()
    planted.pod(0, THIRD, attempt=2)

    assert planted.found() == [
        f"{WORK}: is doubled: live pods of attempts 1 and 2",
        f"{planted.namespace}/{WORK}-2-0: is on {THIRD}, but the ledger has no row for it",
    ]


def test_a_pod_on_another_node(planted):
    planted.pod(0, FIRST)
    planted.pod(1, THIRD)

    assert planted.found() == [
        f"{planted.namespace}/{WORK}-1-1: is on {THIRD}, the ledger has it on {SECOND}"
    ]


def test_a_pod_of_our_name_that_is_not_ours(planted):
    planted.pod(0, FIRST)
    planted.pod(1, SECOND, labels=False)

    told = planted.found()

    assert [one.partition(": is ")[2].partition(":")[0] for one in told] == ["missing", "not ours"]


def test_a_pod_of_our_name_in_another_namespace_is_no_difference(planted):
    planted.both()
    elsewhere = f"{planted.namespace}-b"
    with planted.kube.client() as admin:
        make_namespace(admin, elsewhere)
    planted.namespace = elsewhere
    planted.pod(0, FIRST, labels=False)

    assert planted.found() == []


def test_more_devices_than_the_ledger_gave(planted):
    planted.both(devices="GPU-a,GPU-b")

    assert planted.found() == [f"{planted.namespace}/{WORK}-1-1: has 2 devices, the ledger 1"]


def test_one_device_in_two_pods(planted):
    planted.both()
    planted.database.execute(w.allocation_row(WORK, rank=2, node=FIRST, gpu=1))
    planted.pod(2, FIRST, devices="GPU-a")

    [told] = planted.found()
    assert told.startswith(f"{FIRST}/GPU-a: is held by ")


def test_a_difference_that_goes_away_is_none(planted):
    planted.pod(0, FIRST)

    async def late():
        url, kubeconfig = planted.database.url(), planted.kube.kubeconfig("checker")
        checking = asyncio.create_task(
            check_pods(url, kubeconfig, planted.instance, settle_seconds=60)
        )
        await asyncio.sleep(1)
        await asyncio.to_thread(planted.pod, 1, SECOND)
        return await checking

    result = asyncio.run(late())
    assert (result.ok, result.checked) == (True, 4)


def test_what_cannot_be_read_is_told_and_is_no_health(planted, tmp_path: Path):
    wrong = tmp_path / "wrong"
    wrong.write_text("[1, 2")
    dead = tmp_path / "dead"
    text = planted.kube.kubeconfig("checker").read_text()
    server = next(line for line in text.splitlines() if "server:" in line)
    dead.write_text(text.replace(server.split("server:")[1].strip(), "https://127.0.0.1:1"))

    refused = tmp_path / "refused"
    refused.write_text(re.sub("token: .*", "token: nobody", text))

    for kubeconfig in (wrong, tmp_path / "none", dead, refused):
        work = check_pods(planted.database.url(), kubeconfig, "default", settle_seconds=0)
        with pytest.raises(CannotCheck, match=str(kubeconfig)):
            asyncio.run(work)


def test_the_command_tells_a_difference_and_ends_with_1(planted, capsys, monkeypatch):
    """Database and API server are real; of the log nothing is needed here."""

    async def gathered(*_):
        return Evidence()

    monkeypatch.setattr("operations.check.runner.gather", gathered)
    monkeypatch.setattr("operations.check.runner.judge", lambda _: [])
    monkeypatch.setattr("operations.check.pods.SETTLE_SECONDS", 0.0)
    monkeypatch.setenv("MUSTER_DATABASE_URL", planted.database.url())
    monkeypatch.setenv("MUSTER_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("MUSTER_KUBE_INSTANCE", planted.instance)
    arguments = ["--kubeconfig", str(planted.kube.kubeconfig("checker"))]
    monkeypatch.setattr(sys, "argv", ["muster-ops", "check", *arguments])
    planted.pod(0, FIRST)

    missing = ended(capsys, main)
    planted.pod(1, SECOND)
    whole = ended(capsys, main)

    assert (missing.code, whole.code) == (1, 0)
    assert f"I16 {WORK}-1-1: is missing" in missing.out
