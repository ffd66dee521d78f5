"""Which quota of a namespace admits no further pod."""

import pytest

from shared.core.kubernetes.namespace_quota import NamespaceQuota, full_for
from shared.core.kubernetes.requests import TakenResources

TAKEN = TakenResources(cpu_milli=1_500, memory_bytes=1 << 30, gpus=2)
POD = ("p-0", TAKEN, {"nvidia.com/gpu": "2"})


def quota(resource, hard, used):
    return NamespaceQuota(namespace="red", name="q", hard={resource: hard}, used={resource: used})


@pytest.mark.parametrize(
    ("resource", "hard", "used", "full"),
    [
        ("requests.nvidia.com/gpu", "4", "3", True),
        ("requests.nvidia.com/gpu", "5", "3", False),
        ("requests.nvidia.com/mig-1g.10gb", "0", "0", False),
        ("pods", "3", "3", True),
        ("count/pods", "4", "3", False),
        ("requests.cpu", "4", "2600m", True),
        ("cpu", "4", "2500m", False),
        ("limits.cpu", "1", "0", True),
        ("memory", "2Gi", "1025Mi", True),
        ("limits.memory", "2Gi", "1Gi", False),
        ("requests.storage", "0", "0", False),
    ],
)
def test_a_quota_is_full_where_one_more_pod_is_beyond_it(resource, hard, used, full):
    found = full_for(*POD, [quota(resource, hard, used)])

    assert full is bool(found)


def test_what_is_full_is_named_with_its_numbers_and_the_next_step():
    roomy, small = quota("pods", "9", "1"), quota("requests.nvidia.com/gpu", "4", "3")

    assert full_for(*POD, [roomy, small]) == (
        "ResourceQuota q of namespace red admits no further pod like p-0:"
        " requests.nvidia.com/gpu has hard 4, used 3. Next: raise it, or end work of the namespace"
    )
