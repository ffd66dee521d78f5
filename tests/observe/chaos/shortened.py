"""The rules of deploy/prometheus with shorter times, so that a fault of seconds is enough.

Three substitutions, and nothing else of an expression changes: `for`, ranges and offsets, and the
seconds that a metric of seconds is compared with are at most so long as said here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.observe.servers import RULES

FOR_SECONDS_MAX: Final = 2
RANGE_SECONDS_MAX: Final = 15
"""Fifteen scrapes: what is counted within them is seen, and forgotten soon."""
COMPARED_SECONDS_MAX: Final = 10
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_RANGE: Final = re.compile(r"(?<=\[)\d+[smhd](?=\])|(?<=offset )\d+[smhd]")
_COMPARED: Final = re.compile(r"(?<=_seconds) > \d+|(?<=_seconds\)) > \d+")


def shortened_expression(expression: str) -> str:
    """The same of less time."""
    found = _RANGE.sub(lambda one: _at_most(one[0], RANGE_SECONDS_MAX), expression)
    return _COMPARED.sub(
        lambda one: f" > {min(int(one[0].removeprefix(' > ')), COMPARED_SECONDS_MAX)}", found
    )


def shortened_rule(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule of less time; names, labels and annotations are as they were."""
    found = rule | {"expr": shortened_expression(rule["expr"])}
    if "for" in rule:
        found["for"] = _at_most(rule["for"], FOR_SECONDS_MAX)
    return found


def write(folder: Path) -> Path:
    """All rules, shortened, in files of the same names; the folder."""
    folder.mkdir(parents=True)
    for path in RULES.glob("*.yml"):
        document = yaml.safe_load(path.read_text())
        for group in document["groups"]:
            group["rules"] = [shortened_rule(one) for one in group["rules"]]
        (folder / path.name).write_text(yaml.safe_dump(document, sort_keys=False, width=1_000))
    return folder


def _at_most(duration: str, seconds: int) -> str:
    return f"{min(int(duration[:-1]) * _UNITS[duration[-1]], seconds)}s"
