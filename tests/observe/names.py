"""Names of metrics: those that there are, and those that an expression of PromQL asks for."""

import re
from collections.abc import Iterable
from typing import Final

from shared.core.telemetry.exposition import XID_TOTAL
from shared.core.telemetry.metrics import DEVICE_METRICS, OWN_METRICS

_ROW: Final = re.compile(r"^\| `(?P<name>\w+)` \| (?P<kind>\w+) \|", re.MULTILINE)
_PARTS: Final = ("_bucket", "_sum", "_count")
_WORD: Final = re.compile(r"(?<![\w$:])(?:muster|DCGM_FI)_\w+")
_RECORDED: Final = re.compile(r"\bmuster:[\w:]+")
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


def of_devices() -> frozenset[str]:
    """Metrics on /metrics of a node agent."""
    return frozenset({*DEVICE_METRICS, *OWN_METRICS, XID_TOTAL})


def documented(document: str) -> frozenset[str]:
    """Names of series by docs/metrics.md, those of the parts of histograms included."""
    names: set[str] = set()
    for row in _ROW.finditer(document):
        name = row["name"]
        parts = _PARTS if row["kind"] == "histogram" else ("",)
        names |= {name + part for part in parts}
    return frozenset(names)


def asked_for(expression: str) -> frozenset[str]:
    """Metrics that an expression names; not what recording rules made."""
    return frozenset(_WORD.findall(_STRING.sub('""', _RECORDED.sub("", expression))))


def recorded(expression: str) -> frozenset[str]:
    """Results of recording rules that an expression names."""
    return frozenset(_RECORDED.findall(_STRING.sub('""', expression)))


def unknown(expressions: Iterable[str], known: frozenset[str]) -> frozenset[str]:
    """Metrics that are asked for and not there."""
    return frozenset().union(*map(asked_for, expressions)) - known
