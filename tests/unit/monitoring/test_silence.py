"""Agents that fall silent, and those that tell what cannot be: what monitoring makes of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from prometheus_client import REGISTRY

from services.monitoring.fleet import recent
from shared.events import nodes
from shared.events.topics import HEALTH_FACTS
from tests.unit.monitoring import builders as b
from tests.unit.monitoring.test_monitoring import Monitoring

SECOND = 1_000


class Cell(Monitoring):
    """Agents that report; `at` is the broker's time in seconds."""

    def report(self, *names: str, at: float, ahead_ms: int = 0, **wrong: Any) -> list[Any]:
        logged_ms = b.START_MS + round(at * SECOND)
        messages = []
        for name in names:
            given: dict[str, Any] = {
                "utilization_percent": (50,),
                "memory_used_mib": (1,),
                "temperature_celsius": (40,),
                "power_watts": (300,),
            }
            report = nodes.GpuUsageReported(node=name, at_ms=logged_ms + ahead_ms, **given | wrong)
            message = b.received(report)
            messages.append(msgspec.structs.replace(message, logged_ms=logged_ms))
        outcome = self.handler.decide(messages, b.START_MS)
        self.tables.apply(outcome.writes)
        self.handler.topics()
        assert all(one.topic is HEALTH_FACTS for one in outcome.emits)
        return [(type(one.payload).__name__, one.subject) for one in outcome.emits]

    def all_report(self, until: float, *names: str, since: float = 0) -> list[Any]:
        told = []
        at = since
        while at <= until:
            told += self.report(*names, at=at)
            at += 10
        return told


@pytest.fixture
def cell() -> Cell:
    return Cell()


def test_a_node_that_is_not_heard_is_told_once_and_again_when_it_is(cell):
    cell.all_report(20, "n1", "n2", "n3")

    assert cell.all_report(50, "n2", "n3", since=30) == []
    assert cell.all_report(90, "n2", "n3", since=60) == [("NodeSilent", "n1")]
    assert cell.value("muster_nodes_silent") == 1
    assert cell.report("n1", at=95) == [("NodeHeard", "n1")]
    assert cell.value("muster_nodes_silent") == 0


def test_a_broker_that_was_away_silences_nobody(cell):
    cell.all_report(20, "n1", "n2", "n3")

    told = cell.report("n3", at=900) + cell.report("n2", at=905) + cell.report("n1", at=920)

    assert told == []


def test_while_half_of_the_agents_are_late_none_is_told(cell):
    cell.all_report(20, "n1", "n2")

    assert cell.all_report(200, "n2", since=30) == []


async def test_a_restart_forgets_no_node_and_tells_none_twice(cell):
    cell.all_report(20, "n1", "n2", "n3", "n4", "n5")
    cell.all_report(60, "n2", "n3", "n4", "n5", since=30)
    assert cell.value("muster_nodes_silent") == 1
    await cell.restart()

    assert cell.report("n3", "n4", "n5", at=600) == [], "n2 is not late before it could report"
    assert cell.all_report(640, "n3", "n4", "n5", since=610) == [("NodeSilent", "n2")]
    assert cell.report("n1", at=650) == [("NodeHeard", "n1")]


def test_a_node_that_left_the_cluster_is_waited_for_no_more(cell):
    cell.all_report(20, "n1", "n2", "n3")
    cell.read(nodes.NodeRemoved(node="n1", generation=2))

    assert cell.all_report(200, "n2", "n3", since=30) == []


def test_a_node_that_left_while_it_was_silent_is_silent_no_more(cell):
    cell.all_report(20, "n1", "n2", "n3")
    cell.all_report(90, "n2", "n3", since=30)
    cell.read(nodes.NodeRemoved(node="n1", generation=2))

    assert cell.value("muster_nodes_silent") == 0


def refused(node: str, field: str) -> float:
    labels = {"node": node, "field": field}
    return REGISTRY.get_sample_value("muster_agent_reports_refused_total", labels) or 0


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"utilization_percent": (900,)}, "utilization_percent"),
        ({"power_watts": (1, 2)}, "power_watts"),
        ({"ahead_ms": 180_000}, "at_ms"),
    ],
)
def test_a_report_that_cannot_be_is_counted_by_its_node_and_others_count(cell, wrong, field):
    before = refused("bad", field)
    cell.report("good", at=0)
    cell.report("bad", at=0, **wrong)

    assert refused("bad", field) == before + 1
    assert (list(cell.handler.memory.usage), list(cell.handler.memory.heard)) == (
        ["good"], ["good"],
    )  # fmt: skip


def test_an_agent_whose_clock_is_ahead_does_not_make_others_old(cell):
    """One three minutes ahead made the use of a whole fleet read 0 before."""
    cell.report("n1", at=0)
    cell.report("ahead", at=0, ahead_ms=59_000)
    cell.report("far-ahead", at=0, ahead_ms=180_000)
    cell.report("n1", at=100)

    assert set(recent(cell.handler.memory)) == {"n1", "ahead"}


def test_nodes_that_are_silent_already_count_among_those_that_are_late(cell):
    """One after the other must not become most of the cell."""
    cell.all_report(20, "n1", "n2", "n3", "n4", "n5")
    told = cell.all_report(60, "n2", "n3", "n4", "n5", since=30)
    told += cell.all_report(120, "n3", "n4", "n5", since=70)
    told += cell.all_report(200, "n4", "n5", since=130)

    assert told == [("NodeSilent", "n1"), ("NodeSilent", "n2")]


def test_who_hears_late_of_a_silence_hears_that_the_node_left(cell):
    cell.all_report(20, "n1", "n2", "n3")
    cell.all_report(90, "n2", "n3", since=30)
    outcome = cell.handler.decide([b.received(nodes.NodeRemoved(node="n1", generation=2))], 1)

    assert [(type(one.payload).__name__, one.subject) for one in outcome.emits] == [
        ("NodeHeard", "n1")
    ]


async def test_an_agent_with_a_long_interval_is_not_silent_between_two_reports(cell):
    told = []
    for minute in range(5):
        told += cell.report("slow", at=60 * minute)
        told += cell.all_report(60 * minute + 50, "n1", "n2", since=60 * minute)
        if minute == 2:
            await cell.restart()

    assert told[2:] == [], "its interval is learned of the first gap"
