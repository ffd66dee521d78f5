"""Quantities of Kubernetes, and what a pod takes of its node by its rule."""

from fractions import Fraction

import pytest

from shared.core.kubernetes.quantity import MIB, MILLI, ONE, at_least, at_most
from shared.core.kubernetes.requests import InitContainer, TakenResources, taken_by


@pytest.mark.parametrize(
    ("text", "unit", "down", "up"),
    [
        ("4", MILLI, 4000, 4000),
        ("500m", MILLI, 500, 500),
        ("0.1", MILLI, 100, 100),
        ("1.", ONE, 1, 1),
        (".5", MILLI, 500, 500),
        ("100u", MILLI, 0, 1),
        ("1n", MILLI, 0, 1),
        ("2Gi", MIB, 2048, 2048),
        ("1500Ki", MIB, 1, 2),
        ("1G", MIB, 953, 954),
        ("1k", ONE, 1000, 1000),
        ("1M", ONE, 10**6, 10**6),
        ("2E", ONE, 2 * 10**18, 2 * 10**18),
        ("1Ei", ONE, 2**60, 2**60),
        ("1e3", ONE, 1000, 1000),
        ("12E2", ONE, 1200, 1200),
        ("5e-1", ONE, 0, 1),
        ("+3", ONE, 3, 3),
        ("-3", ONE, -3, -3),
    ],
)
def test_a_quantity_is_read_exactly_and_rounded_in_the_direction_that_is_asked_for(
    text: str, unit: Fraction, down: int, up: int
):
    assert (down, up) == (at_most(text, unit), at_least(text, unit))


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1gi", "1e", "1e333", "--1", "٣"])
def test_what_is_no_quantity_is_refused_with_its_text(text: str):
    with pytest.raises(ValueError, match="is no quantity"):
        at_most(text, ONE)


def taken(*containers, init=(), overhead=None, whole_pod=None):
    return taken_by(containers, init, overhead=overhead or {}, whole_pod=whole_pod or {})


def init(restarts=False, **requests):
    return InitContainer(requests=requests, restarts=restarts)


def test_containers_add_up_and_a_gpu_is_counted():
    both = taken({"cpu": "1", "memory": "1Gi"}, {"cpu": "250m", "nvidia.com/gpu": "2"})

    assert TakenResources(cpu_milli=1250, memory_bytes=1 << 30, gpus=2) == both


def test_of_init_containers_the_largest_counts_if_it_exceeds_the_others():
    small = taken({"cpu": "2"}, init=[init(cpu="1"), init(cpu="1500m")])
    large = taken({"cpu": "2"}, init=[init(cpu="1"), init(cpu="3")])

    assert (2000, 3000) == (small.cpu_milli, large.cpu_milli)


def test_a_sidecar_runs_beside_the_containers_and_beside_what_starts_after_it():
    beside_mains = taken({"cpu": "2"}, init=[init(restarts=True, cpu="1")])
    beside_later = taken({"cpu": "2"}, init=[init(restarts=True, cpu="1"), init(cpu="4")])
    before = taken({"cpu": "2"}, init=[init(cpu="4"), init(restarts=True, cpu="1")])

    assert (3000, 5000, 4000) == tuple(
        one.cpu_milli for one in (beside_mains, beside_later, before)
    )


def test_overhead_is_added_and_amounts_of_the_whole_pod_stand_for_those_of_containers():
    pod = taken(
        {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"},
        overhead={"cpu": "250m", "memory": "1Mi"},
        whole_pod={"cpu": "1", "nvidia.com/gpu": "9"},
    )

    assert TakenResources(cpu_milli=1250, memory_bytes=(1 << 30) + (1 << 20), gpus=1) == pod


def test_what_two_pods_take_is_the_sum():
    one = TakenResources(cpu_milli=1, memory_bytes=2, gpus=3)

    assert TakenResources(cpu_milli=2, memory_bytes=4, gpus=6) == one + one
