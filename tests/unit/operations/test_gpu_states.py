"""I22: the nine states sum to the capacity, and the ledger has the same."""

from __future__ import annotations

import pytest

from operations.check import gpu_states
from operations.check.gpu_states import STATES, amounts_of, differences, unequal
from operations.check.model import CannotCheck
from services.monitoring.gauges.states import GpuState

WHOLE = {
    "used": 0.3,
    "unused": 0.7,
    "unmeasured": 1.25,
    "starting": 1,
    "draining": 0.75,
    "free": 4,
}
ROWS = {"gpus": [{"flavor": "h100", "gpus": 8}], "held": [{"flavor": "h100", "milli": 4_000}]}


def metrics(capacity: float = 8, **changes: float) -> str:
    states = dict.fromkeys(sorted(STATES), 0.0) | WHOLE | changes
    lines = [f'muster_gpu_state{{flavor="h100",state="{k}"}} {v}' for k, v in states.items()]
    return "\n".join(["# TYPE muster_gpu_state gauge", *lines, capacity_of("h100", capacity)])


def capacity_of(flavor: str, gpus: float) -> str:
    return f'# TYPE muster_gpu_capacity gauge\nmuster_gpu_capacity{{flavor="{flavor}"}} {gpus}\n'


def test_the_states_are_those_of_monitoring() -> None:
    assert {one.value for one in GpuState} == STATES


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (metrics(), []),
        (metrics(free=4.001), ["states sum to 8001 milli-GPU, the capacity is 8000"]),
        (metrics(capacity=7), ["states sum to 8000 milli-GPU, the capacity is 7000"]),
        (metrics(free=4.5, kept=-0.5), ["a state is negative"]),
        (metrics(lent=0), ["states are not those nine: lent"]),
        (metrics().replace('state="kept"', 'state="lent"'), ["are not those nine: kept, lent"]),
        (capacity_of("a100", 0), ["states are not those nine"]),
    ],
)
def test_states_of_one_moment_sum_to_the_capacity(text: str, found: list[str]) -> None:
    told = [one.detail for one in unequal(amounts_of(text)).violations]
    assert len(found) == len(told)
    assert all(part in one for part, one in zip(found, told, strict=True))


@pytest.mark.parametrize(
    ("gpus", "held", "found"),
    [
        (8, 3_250, []),
        (8, 4_000, []),
        (8, 3_249, ["the ledger holds 3249 milli-GPU, the states 3250 to 4000"]),
        (8, 4_001, ["the ledger holds 4001 milli-GPU, the states 3250 to 4000"]),
        (9, 4_000, ["8000 milli-GPU are told, the ledger has 9000"]),
    ],
)
def test_the_ledger_has_the_same_capacity_and_holds_what_is_told(
    gpus: int, held: int, found: list[str]
) -> None:
    rows = {
        "gpus": [{"flavor": "h100", "gpus": gpus}],
        "held": [{"flavor": "h100", "milli": held}],
    }
    assert found == [one.detail for one in differences(amounts_of(metrics()), rows).violations]


async def test_a_sum_that_was_wrong_once_is_told_and_a_difference_of_two_sources_if_it_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = [metrics(free=4.001), metrics(capacity=8)]
    rows = [{**ROWS, "held": [{"flavor": "h100", "milli": 1}]}, ROWS]

    async def told(address: str) -> str:
        return texts.pop(0)

    async def read(url: str, queries: object) -> object:
        return rows.pop(0)

    monkeypatch.setattr(gpu_states, "_metrics", told)
    monkeypatch.setattr(gpu_states, "read_queries", read)

    result = await gpu_states.check_gpu_states("db", "monitoring")

    assert ["states sum to 8001 milli-GPU, the capacity is 8000"] == [
        one.detail for one in result.violations
    ]


def test_a_flavor_that_is_not_told_is_found() -> None:
    rows = {name: [*of, {"flavor": "a100", "gpus": 1, "milli": 0}] for name, of in ROWS.items()}
    (found,) = differences(amounts_of(metrics()), rows).violations
    assert ("a100", "0 milli-GPU are told, the ledger has 1000") == (found.subject, found.detail)


@pytest.mark.parametrize("text", ["", "# TYPE up gauge\nup 1\n", metrics(free=4.0001)])
def test_what_are_no_metrics_of_monitoring_says_nothing(text: str) -> None:
    with pytest.raises(CannotCheck):
        amounts_of(text)
