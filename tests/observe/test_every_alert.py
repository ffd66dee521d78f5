"""Every alert fires and is over, on a running system with faults, by a real Alertmanager.

The times of the rules are shortened (`chaos/shortened.py`), all else is as in operation. It takes
about four minutes: `make alert-test`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.observe import chaos, live
from tests.observe.chaos import shortened, work
from tests.observe.test_rules import ALERTS, rules
from tests.support.system import Stage
from tests.support.webhooks import KEY, Receiver

NAMES: Final = [one["alert"] for one in ALERTS]
GROUP: Final = live.GROUP | {"count": 6, "nodes_per_rack": 1}
"""Racks of a node: a gang of eight fits into none."""
CALM_SECONDS: Final = 5
CALM_SECONDS_MAX: Final = 40
"""A rate is known from two scrapes on: until then an alert may be pending."""


def test_there_is_a_fault_for_every_alert() -> None:
    assert sorted(NAMES) == sorted(name for one in chaos.FAULTS for name in one.alerts)


@pytest.mark.parametrize("rule", rules(), ids=lambda one: one.get("alert") or one["record"])
def test_only_times_of_a_rule_are_shortened(rule: dict[str, Any]) -> None:
    def without_numbers(text: str) -> str:
        return re.sub(r"\d+[smhd]?", "N", text)

    found = shortened.shortened_rule(rule)

    assert without_numbers(found["expr"]) == without_numbers(rule["expr"])
    assert {**found, "expr": "", "for": ""} == {**rule, "expr": "", "for": ""}


@pytest.mark.parametrize(
    ("expression", "short"),
    [
        ("increase(a_total[1h]) > 100", "increase(a_total[15s]) > 100"),
        ("a unless a offset 10m", "a unless a offset 15s"),
        ("rate(a[5s]) > 85", "rate(a[5s]) > 85"),
        ("muster_idle_workload_seconds > 1800", "muster_idle_workload_seconds > 10"),
        ("max by (x) (a_seconds) > 900", "max by (x) (a_seconds) > 10"),
    ],
)
def test_ranges_offsets_and_limits_of_seconds_are_times(expression: str, short: str) -> None:
    assert shortened.shortened_expression(expression) == short


@pytest.fixture(scope="module")
def scene(
    tmp_path_factory: pytest.TempPathFactory, prometheus: Path, alertmanager: Path
) -> Iterator[chaos.Scene]:
    del prometheus, alertmanager
    folder = tmp_path_factory.mktemp("chaos")
    rules = shortened.write(folder / "rules")
    with live.running(folder, group=GROUP, rules=rules) as running:
        yield asyncio.run(_gone_through(running))


async def _gone_through(running: live.Live) -> chaos.Scene:
    """All faults, after a look at what fires without one."""
    stage, hook = Stage(running.system), Receiver()
    scene = chaos.Scene(live=running, stage=stage, hook=hook)
    secrets = running.system.folder / "data" / "notifications" / "notification-secrets"
    secrets.mkdir(parents=True, exist_ok=True)
    (secrets / "key").write_text(KEY)
    await hook.start()
    await stage.connect()
    try:
        url = f"http://127.0.0.1:{hook.port}/"
        await live.organise(stage, work.QUEUES, {"url": url})
        await work.fill(scene, 0)
        await asyncio.sleep(CALM_SECONDS)
        scene.fired_before = await _left_without_a_fault(running)
        await chaos.run(scene)
    finally:
        await stage.disconnect()
        await hook.stop()
    return scene


async def _left_without_a_fault(running: live.Live) -> set[str]:
    """Names of alerts that are pending or fire and do not end by themselves."""
    deadline = time.monotonic() + CALM_SECONDS_MAX
    while alerts := live.ask(running.observing, "alerts")["alerts"]:
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(1)
    return {one["labels"]["alertname"] for one in alerts}


@pytest.mark.alone
@pytest.mark.timeout(600)
class TestLive:
    def test_nothing_fires_before_the_first_fault(self, scene: chaos.Scene) -> None:
        assert scene.fired_before == set()

    @pytest.mark.parametrize("alert", NAMES)
    def test_it_fires_while_its_fault_lasts_and_is_over_after_it(
        self, scene: chaos.Scene, alert: str
    ) -> None:
        assert alert in scene.fired
        assert alert in scene.resolved

    def test_what_is_told_is_filled_in(self, scene: chaos.Scene) -> None:
        told = [one["annotations"] for one in scene.live.told]

        assert all(text and "<" not in text for one in told for text in one.values())
