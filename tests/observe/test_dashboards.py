"""The dashboards: fresh, in form, and with expressions that Prometheus can read and answer."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from deploy.observe.dashboards import __main__ as written
from deploy.observe.dashboards import grafana
from deploy.observe.dashboards.model import Dashboard, Shape, Unit
from deploy.observe.expressions import expressions, plain
from tests.observe import names
from tests.observe.test_rules import KNOWN, RECORDED

FILES: Final = sorted(written.FOLDER.glob("*.json"))
DOCUMENTS: Final = [json.loads(path.read_text()) for path in FILES]
PANELS: Final = [(one["uid"], panel) for one in DOCUMENTS for panel in one["panels"]]
COLUMNS: Final = 24


def test_the_committed_files_are_those_of_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert written.main(["--check"]) == 0
    assert len(FILES) == 8


def test_a_stale_file_is_named_and_written_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert written.main(["--write"], tmp_path) == 0
    (tmp_path / "muster-fleet.json").write_text("{}")
    (tmp_path / "muster-gone.json").write_text("{}")

    assert written.main(["--check"], tmp_path) == 1
    told = capsys.readouterr().err
    assert "muster-fleet.json is stale" in told
    assert "muster-gone.json is stale" in told
    assert written.main(["--write"], tmp_path) == 0
    assert written.main(["--check"], tmp_path) == 0


def test_each_dashboard_has_an_address_of_its_own_and_a_source_to_choose() -> None:
    assert max(Counter(one["uid"] for one in DOCUMENTS).values()) == 1
    assert [one["uid"] for one in DOCUMENTS] == [path.stem for path in FILES]
    for one in DOCUMENTS:
        assert re.fullmatch(r"[a-z-]{1,40}", one["uid"])
        assert one["templating"]["list"][0]["name"] == "datasource"


@pytest.mark.parametrize("board", written.DASHBOARDS, ids=lambda one: one.uid)
def test_every_choice_is_used_and_every_choice_that_is_used_is_there(board: Dashboard) -> None:
    text = json.dumps(grafana.document(board)["panels"])
    named = {one for one in re.findall(r"\$\{?([a-z_]+)", text) if not one.startswith("__")}

    assert named == {"datasource", *(one.name for one in board.variables)}


@pytest.mark.parametrize(
    "panel", [one for _, one in PANELS], ids=[f"{uid} {one['title']}" for uid, one in PANELS]
)
def test_a_panel_has_title_description_unit_and_queries(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in {one.value for one in Unit}
    assert panel["type"] in {one.value for one in Shape}
    letters = [one["refId"] for one in panel["targets"]]
    assert letters == sorted(set(letters)) != []
    for one in panel["targets"]:
        assert one["datasource"] == grafana.SOURCE
        windows = re.findall(r"(?:rate|increase)\([^()]*\[([^]]+)\]", one["expr"])
        assert set(windows) <= {"$__rate_interval", "$__range"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one["uid"])
def test_panels_lie_side_by_side_and_not_upon_each_other(document: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in document["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({one["id"] for one in document["panels"]}) == len(document["panels"])


def test_expressions_name_metrics_that_there_are() -> None:
    asked = [one for _, _, one in expressions(DOCUMENTS)]

    assert names.unknown(asked, KNOWN | names.of_devices()) == frozenset()
    assert frozenset().union(*map(names.recorded, asked)) <= RECORDED


def test_every_expression_can_be_read(promtool: Path, tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": plain(expression)}
        for number, (_, _, expression) in enumerate(expressions(DOCUMENTS))
    ]
    file = tmp_path / "panels.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))

    done = subprocess.run(
        [promtool, "check", "rules", "--lint=none", file],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


def test_the_node_shows_all_that_an_agent_tells() -> None:
    text = (written.FOLDER / "muster-node.json").read_text()

    assert {one for one in names.of_devices() if one not in text} == {"muster_gpu_xid_total"}
