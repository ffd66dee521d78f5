"""Who is waited for is whose kubelet has something to do."""

import pytest

from tests.kube.kubelet_reminder import expected


def pod(phase="Running", node="n1", *, ends=False, going=False):
    annotations = {"muster.dev/duration-seconds": "2"} if ends else {}
    metadata = {"annotations": annotations}
    if going:
        metadata["deletionTimestamp"] = {}
    spec = {"nodeName": node} if node else {}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize(
    ("found", "waited_for"),
    [
        (pod("Pending"), True),
        (pod("Pending", node=""), False),
        (pod(), False),
        (pod(ends=True), True),
        (pod("Succeeded", ends=True), False),
        (pod("Failed"), False),
        (pod("Failed", going=True), True),
        (pod(going=True), True),
    ],
)
def test_a_kubelet_starts_ends_and_lets_go(found, waited_for):
    assert expected(found) == waited_for
