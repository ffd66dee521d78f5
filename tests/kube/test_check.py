"""`muster-ops check --kubeconfig`: each difference between ledger and API server is found."""

import asyncio
import itertools
import os
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deploy.kube.nodes import node_name
from operations.check.api_pods import ApiClaim, ApiPod
from operations.check.claims import check_claims, differences
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
GONE = "22222222-2222-4222-8222-222222222222"
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
        self.planted = []
        pods = written(tuple(bound_pod(rank, namespace) for rank in range(2)))
        database.execute(
            "ALTER TABLE placement.allocation DISABLE TRIGGER ALL",
            w.allocation_row(WORK, rank=0, node=FIRST),
            w.allocation_row(WORK, rank=1, node=SECOND),
            w.attempt_row(WORK, "running", size=2),
            f"UPDATE binder.attempt SET pods = '{pods}' WHERE workload_id = '{WORK}'",
        )

    def labels(self, rank, attempt=1, workload=WORK):
        return {
            "app.kubernetes.io/managed-by": "muster",
            "muster.dev/instance": self.instance,
            "muster.dev/workload": workload,
            "muster.dev/attempt": str(attempt),
            "muster.dev/rank": str(rank),
        }

    def pod(
        self, rank, node, *, attempt=1, name=None, labels=True, devices="", workload=WORK, claim=""
    ):
        metadata = {"name": name or f"{workload}-{attempt}-{rank}"}
        if labels:
            metadata["labels"] = self.labels(rank, attempt, workload)
            metadata["annotations"] = {"muster.dev/devices": devices}
        container = {"name": "c", "image": "a/b:1"}
        spec = {"schedulerName": "muster", "containers": [container]}
        if claim:
            spec["resourceClaims"] = [{"name": "gpus", "resourceClaimName": claim}]
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        with self.kube.client() as admin:
            admin.demand("POST", path, {"metadata": metadata, "spec": spec})
            if node:
                target = {"apiVersion": "v1", "kind": "Node", "name": node}
                body = {"metadata": {"name": metadata["name"]}, "target": target}
                admin.demand("POST", f"{path}/{metadata['name']}/binding", body)

    def claimed(self, rank, node, *devices, owner=True, reserved=True, name=None, claim=True):
        """A pod that names a claim, bound, and the claim as an administrator plants it."""
        pod = f"{WORK}-1-{rank}"
        name = name or pod
        if owner:
            self.pod(rank, node, claim=name)
        with self.kube.client() as admin:
            pods = f"/api/v1/namespaces/{self.namespace}/pods"
            uid = admin.request("GET", f"{pods}/{pod}")[1].get("metadata", {}).get("uid", "")
            if claim:
                self._plant(admin, name, devices, (pod, uid), owner=owner, reserved=reserved)

    def _plant(self, admin, name, devices, pod, *, owner, reserved):
        path = f"/apis/resource.k8s.io/v1/namespaces/{self.namespace}/resourceclaims"
        reference = {"apiVersion": "v1", "kind": "Pod", "name": pod[0], "uid": pod[1] or GONE}
        labels = self.labels(int(pod[0][-1])) if owner or not pod[1] else {}
        metadata = {"name": name, "labels": labels, "finalizers": ["example.org/kept"]}
        if labels:
            metadata["ownerReferences"] = [reference]
        exactly = {"deviceClassName": "gpu.nvidia.com", "count": max(1, len(devices))}
        spec = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
        admin.demand("POST", path, {"metadata": metadata, "spec": spec})
        self.planted.append(f"{path}/{name}")
        if devices:
            results = [
                {"request": "gpus", "driver": "gpu.nvidia.com", "pool": node, "device": device}
                for node, device in devices
            ]
            status: dict[str, Any] = {"allocation": {"devices": {"results": results}}}
            if reserved:
                status["reservedFor"] = [{"resource": "pods", "name": pod[0], "uid": pod[1]}]
            admin.demand("PATCH", f"{path}/{name}/status", {"status": status})

    def owns_too(self, claim, pod):
        path = f"/apis/resource.k8s.io/v1/namespaces/{self.namespace}/resourceclaims/{claim}"
        with self.kube.client() as admin:
            found = admin.demand("GET", f"/api/v1/namespaces/{self.namespace}/pods/{pod}")
            owners = admin.demand("GET", path)["metadata"]["ownerReferences"]
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod}
            owners.append({**owner, "uid": found["metadata"]["uid"]})
            admin.demand("PATCH", path, {"metadata": {"ownerReferences": owners}})

    def found_in_claims(self):
        kubeconfig = self.kube.kubeconfig("checker")
        work = check_claims(self.database.url(), kubeconfig, self.instance, settle_seconds=0)
        return [f"{one.subject}: {one.detail}" for one in asyncio.run(work).violations]

    def let_go(self):
        with self.kube.client() as admin:
            for path in self.planted:
                admin.request("PATCH", path, {"metadata": {"finalizers": None}})
                admin.request("DELETE", path)

    def both(self, **of_second):
        self.pod(0, FIRST, devices="GPU-a")
        self.pod(1, SECOND, **{"devices": "GPU-a", **of_second})

    def found(self, identity="checker"):
        kubeconfig = self.kube.kubeconfig(identity)
        work = check_pods(self.database.url(), kubeconfig, self.instance, settle_seconds=0)
        return [f"{one.subject}: {one.detail}" for one in asyncio.run(work).violations]


@pytest.fixture
def planted(kube, database, kube_namespace):
    planted = Planted(kube, database, kube_namespace)
    yield planted
    planted.let_go()


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


# ── claims ───────────────────────────────────────────────────────────────────


def test_claims_that_give_the_devices_of_the_ledger_agree(planted):
    planted.claimed(0, FIRST, (FIRST, "gpu-0"))
    planted.claimed(1, SECOND, (SECOND, "gpu-0"))

    assert (planted.found_in_claims(), planted.found()) == ([], [])


def test_a_claim_with_another_device_than_the_ledger(planted):
    planted.claimed(0, FIRST, (FIRST, "gpu-1"))

    assert planted.found_in_claims() == [
        f"{planted.namespace}/{WORK}-1-0: has {FIRST}/1, the ledger {FIRST}/0"
    ]


def test_a_mig_device_is_compared_by_its_first_slice(planted):
    planted.database.execute(
        w.allocation_row(WORK, rank=2, node=FIRST, gpu=3, mask=0b1100),
        w.allocation_row(WORK, rank=3, node=FIRST, gpu=3, mask=0b110000),
    )
    planted.claimed(2, FIRST, (FIRST, "gpu-3-mig-2g20gb-14-2"))
    planted.claimed(3, FIRST, (FIRST, "gpu-3-mig-2g20gb-14-0"))

    assert planted.found_in_claims() == [
        (
            f"{planted.namespace}/{WORK}-1-3: has {FIRST}/3 from slice 0,"
            f" the ledger {FIRST}/3 from slice 4"
        )
    ]


@pytest.mark.parametrize("other", ["gpu-0", "gpu-0-mig-1g10gb-19-0"])
def test_a_device_in_two_claims_of_which_one_is_ours(planted, other):
    planted.claimed(0, FIRST, (FIRST, "gpu-0"))
    planted.claimed(0, FIRST, (FIRST, other), owner=False, name="foreign", reserved=False)

    name = f"{planted.namespace}/"
    assert planted.found_in_claims() == [
        f"{FIRST}/gpu-0: is in two claims: {name}foreign ({other}) and {name}{WORK}-1-0 (gpu-0)"
    ]


def test_pods_that_share_a_gpu_are_compared_one_by_one(planted):
    planted.database.execute(
        w.allocation_row(WORK, rank=2, node=FIRST, gpu=3, mask=0, milli=500),
        w.allocation_row(WORK, rank=3, node=FIRST, gpu=4, mask=0, milli=500),
    )
    planted.claimed(2, FIRST, (FIRST, "gpu-3"))
    planted.pod(3, FIRST)
    planted.owns_too(f"{WORK}-1-2", f"{WORK}-1-3")

    assert planted.found_in_claims() == [
        f"{planted.namespace}/{WORK}-1-2: has {FIRST}/3, the ledger {FIRST}/4"
    ]


def test_a_claim_whose_pod_is_gone(planted):
    planted.claimed(0, FIRST, (FIRST, "gpu-0"), owner=False, reserved=False)

    assert planted.found_in_claims() == [
        f"{planted.namespace}/{WORK}-1-0: its pod is gone, and the claim is not"
    ]


def test_bound_pods_without_a_claim_and_without_devices(planted):
    planted.claimed(0, FIRST, claim=False)
    planted.claimed(1, SECOND)

    assert sorted(planted.found_in_claims()) == [
        f"{planted.namespace}/{WORK}-1-0: is missing: a bound pod names this claim",
        f"{planted.namespace}/{WORK}-1-1: has no devices, and its pod is bound",
    ]


def test_a_claim_that_is_not_reserved_for_its_bound_pod():
    """Of objects as they are read: the controller manager reserves soon what is not."""
    labels = {  # as the binder sets them
        "app.kubernetes.io/managed-by": "muster", "muster.dev/instance": "default",
        "muster.dev/workload": WORK, "muster.dev/attempt": "1", "muster.dev/rank": "0",
    }  # fmt: skip
    metadata = {"namespace": "red", "name": f"{WORK}-1-0", "uid": "u", "labels": labels}
    held = {"driver": "gpu.nvidia.com", "pool": FIRST, "device": "gpu-0"}
    claim = {
        "metadata": {**metadata, "ownerReferences": [{"uid": "u"}]},
        "status": {
            "allocation": {"devices": {"results": [held]}},
            "reservedFor": [{"uid": "other"}],
        },
    }
    named = [{"resourceClaimName": f"{WORK}-1-0"}]
    pod = {"metadata": metadata, "spec": {"nodeName": FIRST, "resourceClaims": named}}
    row = {"workload_id": WORK, "attempt": 1, "rank": 0, "node": FIRST, "gpu": 0, "mask": 255}

    found = differences(
        [row], [msgspec.convert(claim, ApiClaim)], [msgspec.convert(pod, ApiPod)], "default"
    )

    assert [f"{one.subject}: {one.detail}" for one in found.violations] == [
        f"red/{WORK}-1-0: is not reserved for its pod, which is bound"
    ]
