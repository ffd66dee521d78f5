"""Parts of a GPU: shares of one team, and MIG instances by their exact positions."""

from __future__ import annotations

from shared.core.model.decision import Reason, Refusal
from shared.core.model.nouns import GpuChoice, GpuShare, Placement
from shared.core.model.units import Resources
from shared.core.placement.place import PlacementRequest, helps, place
from tests.support.placing import (
    cluster,
    gpus_of,
    mig,
    node,
    placed,
    pods,
    refused,
    share,
    where,
    whole,
    workload,
)


def test_a_share_goes_to_the_tightest_gpu_of_its_team() -> None:
    fleet = cluster(node("a", gpus=3))
    for milli in (300, 800):
        placed(fleet, workload(pods(share(milli))))

    answer = placed(fleet, workload(pods(share(200, 10))))

    assert answer.pods[0].shares == (GpuShare(index=1, mask=0, milli=200, memory_mib=10),)


def test_a_gpu_is_shared_by_one_team_only() -> None:
    fleet = cluster(node("a", gpus=2))
    first = placed(fleet, workload(pods(share(300)), team="red"))
    second = placed(fleet, workload(pods(share(300)), team="blue"))

    assert gpus_of(first) != gpus_of(second)
    refused(fleet, workload(pods(share(300)), team="green"))


def test_memory_of_a_shared_gpu_is_never_over_sold() -> None:
    fleet = cluster(node("a", gpus=1, gpu_memory_mib=100))
    placed(fleet, workload(pods(share(100, 60))))

    refused(fleet, workload(pods(share(100, 41))))
    placed(fleet, workload(pods(share(100, 40))))
    assert helps(fleet, ["a"], workload(pods(share(100, 0))))
    assert not helps(fleet, ["a"], workload(pods(share(100, 1))))


def test_the_last_share_makes_the_gpu_whole_again() -> None:
    fleet = cluster(node("a", gpus=1))
    asked = workload(pods(share(300)))
    answer = placed(fleet, asked)

    fleet.release("red", answer.pods, asked.spec.pod_sets)

    placed(fleet, workload(pods(whole(1)), team="blue"))


def test_instances_are_placed_by_exact_position_and_charged_by_slices() -> None:
    fleet = cluster(node("a", gpus=1, mig=(0,)))

    assert placed(fleet, workload(pods(mig("3g.40gb")))).pods[0].shares == (
        GpuShare(index=0, mask=0xF0, milli=500, memory_mib=40_960),
    )
    answer = placed(fleet, workload(pods(mig("4g.40gb"))))
    assert answer.pods[0].shares[0].mask == 0x0F
    assert answer.charge.gpu_milli == 500


def test_several_instances_of_a_pod_on_one_gpu_are_one_row() -> None:
    fleet = cluster(node("a", gpus=2, mig=(0, 1)))

    answer = placed(fleet, workload(pods(mig("3g.40gb", 3))))

    assert [each.mask.bit_count() for each in answer.pods[0].shares] == [8, 4]
    assert answer.charge.gpu_milli == 1500
    refused(fleet, workload(pods(mig("3g.40gb", 2))))


def test_a_used_gpu_is_filled_before_an_empty_one_is_opened() -> None:
    fleet = cluster(*(node(f"n{number}", gpus=1, mig=(0,)) for number in range(6)))
    first = placed(fleet, workload(pods(mig("1g.10gb"))))

    for _ in range(6):
        assert where(placed(fleet, workload(pods(mig("1g.10gb"))))) == where(first)


def test_a_whole_gpu_of_mig_slices_on_an_a30_is_a_thousand_milli() -> None:
    fleet = cluster(node("a", gpus=1, mig=(0,), product="NVIDIA-A30", gpu_memory_mib=24_576))

    for _ in range(2):
        assert placed(fleet, workload(pods(mig("2g.12gb")))).charge.gpu_milli == 500
    refused(fleet, workload(pods(mig("1g.6gb"))))


def test_an_ambiguous_profile_goes_where_quota_can_pay_for_it() -> None:
    dear = node("dear", gpus=1, mig=(0,), product="A100-40GB", gpu_memory_mib=40_960)
    cheap = node("cheap", gpus=1, mig=(0,), product="A100-80GB")
    preferring = GpuChoice(preferred_products={"A100-40GB": 1})
    asked = workload(pods(mig("1g.10gb")), choice=preferring)

    assert placed(cluster(dear, cheap), asked).charge.gpu_milli == 250
    tight = PlacementRequest(
        workload=asked, flavors=("a100",), headroom={"a100": Resources(gpu_milli=125)}
    )
    answer = place(cluster(dear, cheap), tight)
    assert isinstance(answer, Placement)
    assert where(answer) == ["cheap"]
    none = place(cluster(dear), tight)
    assert isinstance(none, Refusal)
    assert none.reason is Reason.WAITING_FOR_QUOTA
