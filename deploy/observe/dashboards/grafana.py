"""Dashboards as the JSON that Grafana loads (schema version 39, Grafana 10.4 and later)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from deploy.observe.dashboards.model import Dashboard, Panel, Shape, Unit, Variable

SCHEMA_VERSION: Final = 39
COLUMNS: Final = 24
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
ALL: Final = ".*"
Json = dict[str, Any]


def rendered(dashboard: Dashboard) -> str:
    """The text of its file."""
    return json.dumps(document(dashboard), indent=2, ensure_ascii=False) + "\n"


def document(dashboard: Dashboard) -> Json:
    """The dashboard in Grafana's form."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["muster"],
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_source(), *map(_variable, dashboard.variables)]},
        "annotations": {"list": []},
        "links": [_others()],
        "panels": list(_panels(dashboard.panels)),
    }


def _source() -> Json:
    return {
        "name": "datasource",
        "label": "Prometheus",
        "type": "datasource",
        "query": "prometheus",
        "hide": 0,
        "multi": False,
        "includeAll": False,
        "refresh": 1,
    }


def _variable(variable: Variable) -> Json:
    values = f"label_values({variable.metric}, {variable.name})"
    return {
        "name": variable.name,
        "label": variable.text,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": values, "refId": "StandardVariableQuery"},
        "hide": 0,
        "multi": True,
        "includeAll": True,
        "allValue": ALL,
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "refresh": 2,
        "sort": 1,
    }


def _others() -> Json:
    return {
        "title": "Muster",
        "type": "dashboards",
        "tags": ["muster"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    }


def _panels(panels: Sequence[Panel]) -> Iterator[Json]:
    """From left to right, in rows as high as their highest."""
    left = top = height = 0
    for number, panel in enumerate(panels, 1):
        if left + panel.width > COLUMNS:
            left, top, height = 0, top + height, 0
        place = {"x": left, "y": top, "w": panel.width, "h": panel.height}
        left, height = left + panel.width, max(height, panel.height)
        yield _panel(panel, number) | {"gridPos": place}


def _panel(panel: Panel, number: int) -> Json:
    found: Json = {
        "id": number,
        "type": panel.shape.value,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "targets": list(_targets(panel)),
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": OPTIONS[panel.shape],
        "transformations": TABLE if panel.shape is Shape.TABLE else [],
    }
    return found | ({"interval": panel.interval} if panel.interval else {})


def _targets(panel: Panel) -> Iterator[Json]:
    now = panel.shape in {Shape.TABLE, Shape.BARS, Shape.NUMBER}
    forms = {Shape.TABLE: "table", Shape.HEATMAP: "heatmap"}
    for letter, one in zip("ABCDEFGH", panel.queries, strict=False):
        yield {
            "refId": letter,
            "datasource": SOURCE,
            "editorMode": "code",
            "expr": one.expression,
            "legendFormat": one.legend or "__auto",
            "instant": now,
            "range": not now,
            "format": forms.get(panel.shape, "time_series"),
        }


def _defaults(panel: Panel) -> Json:
    defaults: Json = {"unit": panel.unit.value, "color": _color(panel), "min": 0}
    if panel.unit in {Unit.SECONDS, Unit.COUNT, Unit.CELSIUS}:
        del defaults["min"]  # debts, clocks and errors may be below 0
    if panel.share_max is not None:
        defaults["max"] = panel.share_max
    if panel.shape is Shape.LINES:
        defaults["custom"] = _lines(panel)
    if panel.shape is Shape.HISTORY:
        defaults["thresholds"] = SHARES
    return defaults


def _color(panel: Panel) -> Json:
    return {"mode": "thresholds" if panel.shape is Shape.HISTORY else "palette-classic"}


def _lines(panel: Panel) -> Json:
    return {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 40 if panel.stacked else 5,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
    }


SHARES: Final[Json] = {
    "mode": "absolute",
    "steps": [
        {"color": "red", "value": None},
        {"color": "orange", "value": 0.3},
        {"color": "green", "value": 0.6},
    ],
}
TABLE: Final[list[Json]] = [
    {"id": "merge", "options": {}},
    {
        "id": "organize",
        "options": {"excludeByName": {"Time": True, "job": True, "instance": True}},
    },
]
_HEAT: Final[Json] = {
    "mode": "scheme",
    "scheme": "Oranges",
    "steps": 64,
    "exponent": 0.5,
    "fill": "dark-orange",
    "reverse": False,
}
_REDUCED: Final[Json] = {"calcs": ["lastNotNull"], "fields": "", "values": False}
OPTIONS: Final[Mapping[Shape, Json]] = {
    Shape.LINES: {
        "legend": {
            "displayMode": "table",
            "placement": "right",
            "calcs": ["lastNotNull", "max"],
            "showLegend": True,
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    Shape.NUMBER: {
        "reduceOptions": _REDUCED,
        "orientation": "auto",
        "textMode": "auto",
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
    },
    Shape.BARS: {
        "reduceOptions": _REDUCED,
        "orientation": "horizontal",
        "displayMode": "basic",
        "showUnfilled": True,
    },
    Shape.TABLE: {"showHeader": True, "cellHeight": "sm"},
    Shape.HEATMAP: {
        "calculate": False,
        "color": _HEAT,
        "yAxis": {"unit": "s"},
        "cellGap": 1,
        "tooltip": {"mode": "single", "yHistogram": False},
        "legend": {"show": True},
    },
    Shape.HISTORY: {
        "showValue": "auto",
        "rowHeight": 0.9,
        "colWidth": 0.9,
        "legend": {"displayMode": "list", "placement": "bottom", "calcs": [], "showLegend": True},
        "tooltip": {"mode": "single", "sort": "none"},
    },
}
