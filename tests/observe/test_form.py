"""The form of dashboards, by a JSON Schema that is made of Grafana's own types.

`deploy/grafana/schema/form.ts` says which of them; `make grafana-schema` makes the schema again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Final

import pytest
from jsonschema import Draft7Validator

from deploy.local.cache import CHECKOUT
from tests.observe.test_dashboards import DOCUMENTS

FILE: Final = CHECKOUT / "deploy" / "grafana" / "schema" / "dashboard.schema.json"
FORM: Final = Draft7Validator(json.loads(FILE.read_text()))
Json = dict[str, Any]


def _with(kind: str, change: Callable[[Json], object]) -> Json:
    """A dashboard with a panel of this kind that is changed."""
    for document in map(deepcopy, DOCUMENTS):
        panel = next((one for one in document["panels"] if one["type"] == kind), None)
        if panel is not None:
            change(panel)
            return dict(document)
    raise AssertionError(kind)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one["uid"])
def test_a_dashboard_has_the_form_of_grafanas_types(document: Json) -> None:
    assert [f"{one.json_path}: {one.message}" for one in FORM.iter_errors(document)] == []


@pytest.mark.parametrize(
    "document",
    [
        DOCUMENTS[0] | {"graphToolTip": 1},
        DOCUMENTS[0] | {"graphTooltip": 3},
        DOCUMENTS[0] | {"tags": "muster"},
        _with("timeseries", lambda panel: panel.update(type="time-series")),
        _with("timeseries", lambda panel: panel.update(descripton="x")),
        _with("timeseries", lambda panel: panel["gridPos"].update(w="12")),
        _with("timeseries", lambda panel: panel["options"]["tooltip"].update(mode="several")),
        _with("timeseries", lambda panel: panel["fieldConfig"]["defaults"].update(units="s")),
        _with(
            "timeseries", lambda panel: panel["fieldConfig"]["defaults"]["custom"].update(width=1)
        ),
        _with("stat", lambda panel: panel["options"].update(displayMode="basic")),
        _with("heatmap", lambda panel: panel["options"]["color"].pop("exponent")),
        _with("status-history", lambda panel: panel["options"]["legend"].pop("calcs")),
    ],
    ids=[
        "a key that is misspelt",
        "a number that is none of its kinds",
        "a text for a list",
        "a kind of panel that there is not",
        "a key of a panel that is misspelt",
        "a text for a number",
        "a word that is none of its kinds",
        "a key of a field that is misspelt",
        "a key that lines do not have",
        "an option of another kind of panel",
        "a scale without its exponent",
        "a legend without its numbers",
    ],
)
def test_what_grafana_would_not_understand_is_refused(document: Json) -> None:
    assert not FORM.is_valid(document)
