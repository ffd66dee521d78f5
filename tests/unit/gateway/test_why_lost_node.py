"""What `why` says of work on a node that is lost."""

import pytest

from services.gateway.why.why import _current


def row(reason, state="evicting"):
    return {
        "state": state,
        "reason": reason,
        "message": "m",
        "pod_reason": "",
        "version": 4,
        "changed_at_ms": 1,
    }


def test_on_a_lost_node_it_says_what_frees_the_devices():
    said = _current(row("node-lost"), (), ())

    assert said.next_step == (
        "it queues again once its pods are known to have stopped: when the node is back, or is"
        " deleted, or is fenced (muster admin nodes fence), or has the taint"
        " node.kubernetes.io/out-of-service"
    )


@pytest.mark.parametrize("reason", ["drained", "preempted"])
def test_of_any_other_eviction_it_says_that_it_queues_again(reason):
    assert "it queues again by itself" == _current(row(reason), (), ()).next_step
