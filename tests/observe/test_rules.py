"""Rules of Prometheus: each alert fires and stays silent, names what there is, and helps."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from deploy.local.cache import CHECKOUT
from services.monitoring.gauges.holders import HOLDER
from tests.observe import names

FOLDER: Final = CHECKOUT / "deploy" / "prometheus"
RULES: Final = sorted((FOLDER / "rules").glob("*.yml"))
TESTS: Final = sorted((FOLDER / "tests").glob("*.yml"))
KNOWN: Final = names.documented((CHECKOUT / "docs" / "metrics.md").read_text()) | {HOLDER}
COMMANDS: Final = (CHECKOUT / "docs" / "cli.md").read_text()
ANNOTATIONS: Final = {"summary", "since", "cost", "command"}
SEVERITIES: Final = {"critical", "warning", "info"}


def rules() -> list[dict[str, Any]]:
    documents = [yaml.safe_load(path.read_text()) for path in RULES]
    return [rule for one in documents for group in one["groups"] for rule in group["rules"]]


ALERTS: Final = [one for one in rules() if "alert" in one]
RECORDED: Final = {one["record"] for one in rules() if "record" in one}


def cases() -> list[tuple[str, bool]]:
    """(alert, whether it is to fire) of every case."""
    documents = [yaml.safe_load(path.read_text()) for path in TESTS]
    asked = [
        test for one in documents for case in one["tests"] for test in case["alert_rule_test"]
    ]
    return [(one["alertname"], bool(one["exp_alerts"])) for one in asked]


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_alerts_fire_and_stay_silent_as_they_should(path: Path, promtool: Path) -> None:
    done = subprocess.run(
        [promtool, "test", "rules", path], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_finds_no_fault(promtool: Path) -> None:
    done = subprocess.run(
        [promtool, "check", "rules", "--lint-fatal", *RULES],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_firing_and_a_silent_case() -> None:
    wanted = {(one["alert"], fires) for one in ALERTS for fires in (True, False)}

    assert wanted == set(cases())
    assert len({one["alert"] for one in ALERTS}) == len(ALERTS)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda one: one["alert"])
def test_an_alert_says_what_since_when_at_what_cost_and_what_helps(alert: dict[str, Any]) -> None:
    assert set(alert["annotations"]) == ANNOTATIONS
    assert alert["labels"]["severity"] in SEVERITIES
    assert alert["labels"]["audience"] in {"team", "operator"}
    commands = re.findall(r"muster(?:-ops)? [a-z]+(?: [a-z]+)?", alert["annotations"]["command"])
    assert commands
    for command in commands:
        words = command.split()
        pattern = rf"`{words[0]} (?:[a-z|\\\\]+\|)?{words[1]}\b"
        inner = rf"{words[0]} [a-z]+ (?:[a-z|\\\\]+)?{words[-1]}"
        known = re.search(pattern, COMMANDS) or re.search(inner, COMMANDS)
        assert known or command in COMMANDS, command


def test_rules_name_metrics_that_there_are() -> None:
    expressions = [one["expr"] for one in rules()]

    assert names.unknown(expressions, KNOWN | names.of_devices()) == frozenset()
    assert frozenset().union(*map(names.recorded, expressions)) <= RECORDED
    assert all(re.fullmatch(r"muster:\w+:\w+", one) for one in RECORDED)


def test_a_metric_that_is_not_there_is_seen() -> None:
    known = frozenset({"muster_a_total", "muster_h_bucket"})
    expression = 'sum by (muster) (rate(muster_a_total{x="muster_q"}[5m])) / muster_b > up'

    assert names.unknown([expression], known) == {"muster_b"}
    assert names.asked_for("histogram_quantile(0.9, sum by (le) (muster_h_bucket))") == {
        "muster_h_bucket"
    }
    assert names.recorded("muster:team_use:ratio1h < 0.3") == {"muster:team_use:ratio1h"}


def test_names_in_the_document_are_those_of_series() -> None:
    assert {"muster_gpu_state", "muster_queue_wait_seconds_bucket"} <= KNOWN
    assert "muster_queue_wait_seconds" not in KNOWN
