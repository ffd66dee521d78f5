"""An upgrade of the chart while work is submitted and runs: `make test-chart-upgrade FROM=REV`.

A release of that revision goes to this checkout and to two gateways, back by `helm rollback`, and
forth again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from tests.chart.conftest import FIRST, FROM, NEXT
from tests.chart.installation import NAMESPACE, TEAM, WAITING, Installation, Object, a_gang
from tests.chart.load import PODS, Load

pytestmark = [
    pytest.mark.kubelet,
    pytest.mark.timeout(900, func_only=True),
    pytest.mark.skipif(FROM not in os.environ, reason="make test-chart-upgrade FROM=REV"),
]
GO = "/tmp/go"
UNTIL_TOLD = f"until test -e {GO}; do sleep 0.1; done; sleep 0.5"


@dataclass
class Upgraded:
    """A release that was upgraded while a gang ran; `before`: its pods then, by name their uid."""

    installation: Installation
    load: Load
    before: dict[str, str]


@pytest.fixture(scope="module")
def upgraded(installation: Installation) -> Upgraded:
    installation.create(a_gang("through", UNTIL_TOLD, PODS))
    installation.wait("Ready", "pod -l job-name=through", TEAM)
    before = uids(installation, "through")
    with Load(installation, "during") as load:
        roll(installation)
        installation.run("helm", "rollback", "muster", "1", "-n", NAMESPACE, *WAITING)
        assert images(installation) == {FIRST}
        roll(installation)
    return Upgraded(installation, load, before)


def roll(installation: Installation) -> None:
    installation.upgrade("image.tag=next", "gateway.replicas=2")
    assert images(installation) == {NEXT}


def test_tables_are_migrated_before_the_first_new_process(upgraded: Upgraded) -> None:
    done = "events --field-selector reason=Completed,involvedObject.name=muster-prepare-2"
    (migrated,) = upgraded.installation.get(done, NAMESPACE)
    started = [one["metadata"]["creationTimestamp"] for one in processes(upgraded.installation)]

    assert migrated["lastTimestamp"] <= min(started)


def test_work_that_runs_is_not_touched(upgraded: Upgraded) -> None:
    installation = upgraded.installation
    assert uids(installation, "through") == upgraded.before
    for pod in upgraded.before:
        installation.run("kubectl", "-n", TEAM, "exec", pod, "--", "touch", GO)

    installation.wait("Complete", "job/through", TEAM)


def test_nothing_is_lost_and_nothing_runs_twice(upgraded: Upgraded) -> None:
    installation, load = upgraded.installation, upgraded.load
    installation.wait("Complete", "job --all", TEAM)
    with installation.client(installation.gateways()[0]) as client:
        ended = [client.wait(one, timeout_seconds=180) for one in load.accepted]
        known = [one["id"] for one in client.workloads()]

    assert load.jobs
    assert {one["status"].get("failed") for one in installation.get("jobs", TEAM)} == {None}
    assert {(one["state"], one["attempt"]) for one in ended} == {("succeeded", 1)}
    others = {"first": 1, "through": PODS}
    pods = installation.get("pods -l job-name", TEAM)
    assert len(pods) == sum(others.values()) + PODS * len(load.jobs)
    assert len(known) == len(set(known)) == len(others) + len(load.jobs) + len(load.accepted)
    print(f"{len(load.jobs)} jobs, {len(load.accepted)} by HTTP, {load.refused} sent again")


def test_the_invariants_hold(upgraded: Upgraded) -> None:
    told = upgraded.installation.run("helm", "test", "muster", "-n", NAMESPACE)

    assert "Succeeded" in told


def processes(installation: Installation) -> list[Object]:
    return installation.get(
        "pods -l muster-process,app.kubernetes.io/component!=prepare", NAMESPACE
    )


def images(installation: Installation) -> set[str]:
    """Of the processes, but for those that end."""
    return {
        pod["spec"]["containers"][0]["image"]
        for pod in processes(installation)
        if "deletionTimestamp" not in pod["metadata"]
    }


def uids(installation: Installation, job: str) -> dict[str, str]:
    """Of the pods of a Job, by name."""
    pods = installation.get(f"pods -l job-name={job}", TEAM)
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}
