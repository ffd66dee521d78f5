"""A real Prometheus on a running system with faults: every panel and alert is answered with data.

Grafana itself is not run: its variables are filled in as it would (`expressions.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.local.processes import wait_until
from deploy.local.system import LocalSystem
from deploy.observe.expressions import expressions, plain
from deploy.observe.servers import Observing
from tests.observe import live, names
from tests.observe.test_dashboards import DOCUMENTS
from tests.observe.test_rules import ALERTS, rules
from tests.support.system import Stage

pytestmark = pytest.mark.timeout(480)
TURNS: Final = 2
XID_EVENT: Final = 8
ONLY_WITH_A_FAULT_OF_MUSTER: Final = frozenset(
    {"muster_dead_letters_total", "muster_reloads_total", "muster_decisions_raised_total"}
)
"""Counters that appear with the first; panels show 0 before."""
LABEL_VALUES_MAX: Final = 200
SILENT_SECONDS_MAX: Final = 60.0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, prometheus: Path) -> Iterator[live.Live]:
    with live.running(tmp_path_factory.mktemp("live")) as found:
        board = found.agents["agent-a"].stand_in
        board.happen(3, XID_EVENT, 79)
        board.write(gpu__1__temperature=93)
        asyncio.run(_live(found.system))
        yield found


async def _live(system: LocalSystem) -> None:
    stage = Stage(system)
    await stage.connect()
    try:
        await live.organise(stage)
        for turn in range(TURNS):
            await live.live(stage, turn)
    finally:
        await stage.disconnect()


def _silent(observing: Observing, asked: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """(where, expression) of those that are answered with no number, after a while either."""
    deadline = time.monotonic() + SILENT_SECONDS_MAX
    while asked := [one for one in asked if not live.answered(observing, one[1])]:
        if time.monotonic() > deadline:
            break
        time.sleep(1)
    return asked


def test_every_target_answers(running: live.Live) -> None:
    wanted = {("muster", "up", ""), ("muster-agents", "up", ""), ("muster-holders", "up", "")}

    def answers() -> bool:  # on a busy machine a scrape may take longer than it has
        targets = live.ask(running.observing, "targets")["activeTargets"]
        return wanted == {
            (one["labels"]["job"], one["health"], one["lastError"]) for one in targets
        }

    wait_until(answers, seconds=60, what=f"targets {wanted}")


def test_every_panel_is_answered_with_data(running: live.Live) -> None:
    observing = running.observing
    asked = [(f"{uid}: {title}", plain(one)) for uid, title, one in expressions(DOCUMENTS)]

    silent = _silent(observing, asked)
    print(f"{len(asked) - len(silent)} of {len(asked)} expressions of panels have data")

    assert silent == []


def test_every_metric_of_an_alert_is_there(running: live.Live) -> None:
    observing = running.observing
    asked = frozenset().union(*(names.asked_for(one["expr"]) for one in rules()))
    wanted = sorted(asked - ONLY_WITH_A_FAULT_OF_MUSTER)

    silent = _silent(observing, [(one, one) for one in wanted])
    print(f"{len(wanted) - len(silent)} of {len(wanted)} metrics of alerts have data")

    assert silent == []
    for one in ALERTS:
        live.ask(observing, "query", query=one["expr"])


async def test_a_broken_gpu_is_told_with_what_helps(
    running: live.Live,
) -> None:
    observing = running.observing

    def found() -> list[dict[str, Any]]:
        alerts: list[dict[str, Any]] = live.ask(observing, "alerts")["alerts"]
        firing = (one for one in alerts if one["state"] == "firing")
        return [one for one in firing if one["labels"]["alertname"] == "GpuXid"]

    await live.until(lambda: bool(found()), "GpuXid fires")
    (alert,) = found()

    assert alert["annotations"]["summary"] == "XID 79 (class node) on GPU 3 of node agent-a"
    assert alert["annotations"]["command"] == "muster nodes agent-a"
    names_of = {one["labels"]["alertname"] for one in live.ask(observing, "alerts")["alerts"]}
    assert "GpuHot" in names_of, "pending for two minutes"


def test_rules_are_loaded_and_each_is_healthy(running: live.Live) -> None:
    observing = running.observing
    groups = live.ask(observing, "rules")["groups"]
    loaded = [rule for group in groups for rule in group["rules"]]

    assert len(loaded) == len(rules())
    assert {(one["health"], one.get("lastError", "")) for one in loaded} == {("ok", "")}


def test_no_label_has_more_values_than_it_may(running: live.Live) -> None:
    observing = running.observing
    for label in ("team", "queue", "workload", "flavor", "reason", "rule"):
        values = live.ask(observing, f"label/{label}/values")

        assert 0 < len(values) <= LABEL_VALUES_MAX, label


async def test_an_alert_reaches_its_receiver_and_resolves(
    running: live.Live, alertmanager: Path
) -> None:
    assert running.observing.tells, alertmanager

    def told(status: str) -> list[dict[str, Any]]:
        return [
            one
            for one in running.told
            if one["labels"]["alertname"] == "GpuUncorrectableEcc" and one["status"] == status
        ]

    board = running.agents["agent-a"].stand_in
    board.set({"gpu.2.field.4": 2})
    await live.until(lambda: bool(told("firing")), "it is told")
    board.set({"gpu.2.field.4": 0})
    await live.until(lambda: bool(told("resolved")), "it is told that it is over")

    (alert, *_) = told("firing")
    assert alert["labels"]["hostname"] == "agent-a"
    assert alert["annotations"]["cost"] == "2 errors"
    assert alert["annotations"]["command"].startswith("muster nodes agent-a")
