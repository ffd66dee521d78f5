"""What a dashboard is made of: panels with expressions, in Muster's words; `grafana.py` writes it.

Every panel says what it shows and in which unit. Rates are taken over `$__rate_interval`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

FLAVOR: Final = 'flavor=~"$flavor"'
TEAM: Final = 'team=~"$team"'
HOSTNAME: Final = 'hostname=~"$hostname"'


class Shape(StrEnum):
    """How a panel draws, by Grafana's name of it."""

    LINES = "timeseries"
    NUMBER = "stat"
    BARS = "bargauge"
    TABLE = "table"
    HEATMAP = "heatmap"
    HISTORY = "status-history"


class Unit(StrEnum):
    """By Grafana's ids."""

    COUNT = "short"
    SECONDS = "s"
    HOURS = "h"
    SHARE = "percentunit"
    PERCENT = "percent"
    CELSIUS = "celsius"
    WATTS = "watt"
    KILOWATT_HOURS = "kwatth"
    MEBIBYTES = "mbytes"
    MEBIBYTES_PER_HOUR = "suffix: MiB/h"
    MEGAHERTZ = "suffix: MHz"
    BYTES_PER_SECOND = "Bps"
    PER_SECOND = "ops"
    FLAG = "bool_on_off"
    DOLLARS = "currencyUSD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """An expression of PromQL; `legend` names its series by their labels."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture. `width` of 24, in the grid of Grafana."""

    title: str
    description: str
    unit: Unit
    queries: tuple[Query, ...]
    shape: Shape = Shape.LINES
    width: int = 12
    height: int = 8
    stacked: bool = False
    share_max: float | None = None
    """Upper end of the axis; None: as the numbers are."""
    interval: str = ""
    """Least step between two points, such as 1h; empty: as the screen has room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A choice at the top: the values of a label of a metric, several at once or all."""

    name: str
    metric: str
    text: str


FLAVORS: Final = Variable(name="flavor", metric="muster_gpu_capacity", text="Flavor")
TEAMS: Final = Variable(name="team", metric="muster_team_gpu_allocated", text="Team")
HOSTNAMES: Final = Variable(name="hostname", metric="DCGM_FI_DEV_GPU_TEMP", text="Node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A page of panels with an address that stays."""

    uid: str
    title: str
    description: str
    panels: tuple[Panel, ...]
    variables: tuple[Variable, ...] = (FLAVORS, TEAMS)


def query(expression: str, legend: str = "") -> Query:
    """A query; line ends and runs of spaces in the expression are one space."""
    return Query(expression=" ".join(expression.split()), legend=legend)


def rate(metric: str, by: str, selector: str = "") -> str:
    """Events per second by labels."""
    return f"sum by ({by}) (rate({metric}{{{selector}}}[$__rate_interval]))"


def increase(metric: str, by: str, selector: str = "") -> str:
    """Events since the point before, by labels."""
    return f"sum by ({by}) (increase({metric}{{{selector}}}[$__rate_interval]))"


def quantile(part: float, metric: str, by: str = "", selector: str = "") -> str:
    """A quantile of a histogram, by labels."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({part}, {rate(f'{metric}_bucket', labels, selector)})"
