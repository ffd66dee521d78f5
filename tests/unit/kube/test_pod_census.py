"""The judges of the kill test on Kubernetes see what is doubled, in part or whole."""

import json

import pytest

from tests.kube.pod_census import doubles, partly_bound, whole


def pod(node="n1", phase="Running", gpu=0, milli=1000, size=2, *, going=False):
    metadata = {
        "annotations": {
            "muster.dev/size": str(size),
            "muster.dev/shares": json.dumps([{"index": gpu, "milli": milli}]),
        }
    }
    if going:
        metadata["deletionTimestamp"] = {}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("found", "count"),
    [
        ({("w1", 1): [pod(gpu=0), pod(gpu=1)], ("w2", 1): [pod(gpu=2)]}, 0),
        ({("w1", 1): [pod(phase="Failed")], ("w1", 2): [pod()]}, 0),
        ({("w1", 1): [pod(node="")], ("w1", 2): [pod()]}, 0),
        ({("w1", 1): [pod(gpu=0, going=True)], ("w1", 2): [pod(gpu=1)]}, 1),
        ({("w1", 1): [pod(milli=600)], ("w2", 1): [pod(milli=400)]}, 0),
        ({("w1", 1): [pod(milli=600)], ("w2", 1): [pod(milli=600)]}, 1),
    ],
)
def test_what_is_doubled_is_seen(found, count):
    assert len(doubles(found)) == count


@pytest.mark.parametrize(
    ("pods", "partial"),
    [
        ([pod(), pod()], False),
        ([pod(node=""), pod(node="")], False),
        ([pod(), pod(node="", phase="Pending")], True),
        ([pod()], True),
        ([pod(), pod(node="", going=True)], False),
        ([pod(phase="Succeeded"), pod()], False),
    ],
)
def test_a_gang_that_is_bound_in_part_is_seen(pods, partial):
    assert bool(partly_bound({("w1", 1): pods})) == partial


@pytest.mark.parametrize(
    ("pods", "is_whole"),
    [
        ([pod(), pod()], True),
        ([pod()], False),
        ([pod(), pod(phase="Pending")], False),
        ([pod(), pod(going=True)], False),
    ],
)
def test_a_gang_is_whole_when_all_of_it_runs(pods, is_whole):
    found = {("w1", 1): [pod(going=True), pod(going=True)], ("w1", 2): pods}

    assert whole(found, "w1") == is_whole
    assert not whole(found, "w2")
