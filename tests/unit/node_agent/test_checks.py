"""A site's check of a GPU: its command, its exit code, its time."""

import asyncio
import sys
from typing import Any

import pytest

from services.node_agent.checks import NOT_STARTED, TIMED_OUT, Checks
from services.node_agent.settings import threshold_limits
from shared.adapters.clock import SystemClock
from shared.core.health.events import HealthEventKind as Kind
from shared.core.model.nouns import Gpu, Node
from shared.events.nodes import CheckGpu

GPUS = tuple(Gpu(index=index, uuid=f"GPU-{index}", memory_mib=1) for index in range(2))
NODE = Node(name="n1", flavor="f", product="p", cpu_milli=1, memory_mib=1, gpus=GPUS)


class Probe:
    """Knows the node, and keeps what is told."""

    def __init__(self):
        self.told: list[Any] = []

    def inventory(self):
        return NODE

    def tell(self, events):
        self.told += events


def order(gpu=1, **more):
    expires_at_ms = SystemClock().now_ms() + 60_000
    fields: dict[str, Any] = {"node": "n1", "expires_at_ms": expires_at_ms, "epoch": 1}
    return CheckGpu(gpu=gpu, **(fields | more))


async def told(command, *orders, seconds=20.0, count=1):
    probe: Any = Probe()
    checks = Checks(probe, SystemClock(), command, seconds)
    task = asyncio.create_task(checks.run())
    for one in orders:
        checks.order(one)
    for _ in range(400):
        if len(probe.told) >= count or task.done():
            break
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.wait([task])
    return probe.told


def python(code):
    return f"{sys.executable} -c '{code}'"


async def test_a_command_that_ends_well_is_a_pass_and_knows_its_device():
    seen = 'sys.argv[1:] + [os.environ["CUDA_VISIBLE_DEVICES"]]'
    code = f'import os, sys; sys.exit({seen} != ["1", "GPU-1", "GPU-1"])'
    (event,) = await told(python(code) + " {gpu} {uuid}", order())

    assert (1, "GPU-1", Kind.CHECK_PASSED) == (event.gpu, event.uuid, event.kind)


async def test_another_exit_code_is_a_failure_with_what_was_printed_last():
    code = 'print("bus 80 GB/s,"); print("wanted 460"); print(); raise SystemExit(3)'
    (event,) = await told(python(code), order())

    assert (Kind.CHECK_FAILED, 3, "wanted 460") == (event.kind, event.code, event.detail)


async def test_a_command_that_does_not_end_is_killed_with_all_that_it_started():
    (event,) = await told("sh -c 'sleep 60 & sleep 60'", order(), seconds=0.3)

    assert (Kind.CHECK_FAILED, TIMED_OUT) == (event.kind, event.code)
    assert event.detail == "it did not end within 0 s"


async def test_a_command_that_is_not_there_is_a_failure_that_names_it():
    (event,) = await told("/nowhere/check", order())

    assert (Kind.CHECK_FAILED, NOT_STARTED) == (event.kind, event.code)
    assert event.detail == "/nowhere/check: No such file or directory"


@pytest.mark.parametrize("wrong", [{"gpu": 7}, {"uuid": "GPU-other"}, {"expires_at_ms": 1}])
async def test_what_is_late_or_of_another_device_is_passed_over(wrong):
    events = await told("true", order(**wrong), order(gpu=0))

    assert [0] == [one.gpu for one in events]


async def test_the_same_command_is_carried_out_once_however_often_the_log_is_read():
    same = order()
    events = await told("true", same, same, order(gpu=0), count=2)

    assert [1, 0] == [one.gpu for one in events]


async def test_without_a_command_nothing_is_told():
    assert not await told("", order(), count=0)


def test_a_command_with_an_open_quote_is_refused_with_its_setting():
    probe: Any = Probe()
    with pytest.raises(ValueError, match=r"MUSTER_CHECK_COMMAND: .*No closing quotation"):
        Checks(probe, SystemClock(), "sh -c 'x", 1.0)


def test_thresholds_are_a_json_object_with_known_fields():
    assert 90 == threshold_limits('{"hot_celsius": 90}').hot_celsius
    for text, said in (("{", "truncated"), ('{"x": 1}', "`x`"), ('{"hot_ms": "1"}', "hot_ms")):
        with pytest.raises(ValueError, match=said):
            threshold_limits(text)
