"""Devices of their own that pods name: they are pinned before any pod of the gang is bound."""

import pytest

from services.binder.gang import BIND_DEADLINE_MS
from services.binder.gang_operations import next_operations
from shared.events.pods import BindRefused
from shared.ports.cluster import PodResult
from tests.unit.binder.test_gang import NOW, a_gang, fact_of, pod_of, verbs


def pinning(gang, version=10):
    """A gang whose only pod was created and names devices of its own."""
    (operation,) = [one for _, one in next_operations(gang, NOW)]
    pod = pod_of(uid="u0", resource_version=version, node="", unpinned=True)
    gang.answered(0, operation, PodResult(status=201, pod=pod), NOW)
    (operation,) = [one for _, one in next_operations(gang, NOW)]
    return operation


def test_a_pod_that_names_devices_is_pinned_with_its_shares_before_it_is_bound():
    gang = a_gang()

    operation = pinning(gang)
    gang.answered(0, operation, PodResult(status=200), NOW)

    assert (operation.verb, operation.uid, operation.pod) == ("pin", "u0", gang.pods[0])
    assert verbs(gang) == [("bind", "w1-1-0")]


def test_a_pod_that_is_seen_to_have_its_devices_is_not_pinned_again():
    gang = a_gang()
    pinning(gang)

    gang.observed("MODIFIED", pod_of(uid="u0", resource_version=11, node=""), NOW)

    assert verbs(gang) == [("bind", "w1-1-0")]


def test_no_pod_of_a_gang_is_bound_before_all_have_their_devices():
    gang = a_gang(size=2)
    for rank in range(2):
        pod = pod_of(rank, uid=f"u{rank}", resource_version=9, node="", unpinned=rank == 1)
        gang.observed("ADDED", pod, NOW)

    assert verbs(gang) == [("pin", "w1-1-1")]


def test_devices_that_pass_are_waited_for_and_named_when_time_is_over():
    gang = a_gang()
    operation = pinning(gang)
    gang.deadline_ms = NOW + BIND_DEADLINE_MS
    held = PodResult(status=503, message="gpu-3 is in the claim red/w0-1-0")

    gang.answered(0, operation, held, NOW)
    waiting = verbs(gang)
    gang.expire(NOW + BIND_DEADLINE_MS)
    gang.observed("DELETED", pod_of(uid="u0", resource_version=12, node=""), NOW)

    assert waiting == []
    assert fact_of(gang).message.endswith("within 30 s: gpu-3 is in the claim red/w0-1-0")


@pytest.mark.parametrize("status", [404, 422])
def test_devices_that_cannot_be_had_refuse_the_gang_with_the_reason(status):
    gang = a_gang()
    operation = pinning(gang)

    gang.answered(
        0, operation, PodResult(status=status, reason="DeviceTaken", message="held"), NOW
    )
    gang.observed("DELETED", pod_of(uid="u0", resource_version=12, node=""), NOW)

    fact = fact_of(gang)
    assert isinstance(fact, BindRefused)
    assert (fact.reason, fact.node) == ("DeviceTaken", "n1")
    assert fact.message == "devices of w1-1-0 on n1: held"
