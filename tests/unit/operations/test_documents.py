"""Generated documents: fresh or said to be stale, and complete."""

import re
from pathlib import Path

import pytest

from operations.documents import __main__ as documents
from operations.documents import decisions, lifecycle, metrics, settings, workload
from shared.core.model.lifecycle import TRANSITIONS, State
from shared.core.model.nouns import (
    GpuChoice,
    GpuRequest,
    PodSet,
    Slice,
    TopologyRequest,
    WorkloadSpec,
)
from shared.runtime.settings import Settings


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(documents, "CHECKOUT", tmp_path)
    assert documents.main(["--write"]) == 0
    return tmp_path


def test_what_was_written_is_fresh(checkout: Path):
    assert 0 == documents.main(["--check"])


def test_a_changed_a_missing_and_a_superfluous_file_are_stale(
    checkout: Path, capsys: pytest.CaptureFixture[str]
):
    (checkout / "docs/metrics.md").write_text("other")
    (checkout / "docs/settings.md").unlink()
    (checkout / documents.SCHEMAS / "muster.old.type.v1.json").write_text("{}")

    assert 1 == documents.main(["--check"])

    stale = [line.split()[0] for line in capsys.readouterr().err.splitlines()]
    old = f"{documents.SCHEMAS}/muster.old.type.v1.json"
    assert ["docs/metrics.md", "docs/settings.md", old] == stale


def test_nothing_is_written_over_a_broken_promise(
    checkout: Path, capsys: pytest.CaptureFixture[str]
):
    path = checkout / documents.SCHEMAS / "muster.node.removed.v1.json"
    before = path.read_text().replace('"cell"', '"shard"')
    path.write_text(before)

    assert 1 == documents.main(["--write"])

    assert before == path.read_text()
    assert "shard was removed" in capsys.readouterr().err


def test_every_transition_is_drawn_and_no_other():
    lines = {line.strip() for line in lifecycle.render().splitlines()}

    for one in State:
        for after in State:
            assert (after in TRANSITIONS[one]) == (f"{one} --> {after}" in lines)


def test_every_common_setting_is_described():
    text = settings.render()

    for name in Settings.model_fields:
        assert f"| `MUSTER_{name.upper()}` |" in text
    assert "| `MUSTER_KAFKA_BOOTSTRAP` | (required) |" in text


def test_metrics_of_modules_and_gauges_are_listed_with_their_labels():
    text = metrics.render()

    assert "| `muster_commit_seconds` | histogram | service |" in text
    assert "| `muster_gpu_allocated` | gauge | flavor |" in text
    assert "| `muster_refusals_total` | counter | by, reason |" in text


def test_every_decision_is_listed_by_its_title_with_its_status():
    lines = decisions.render().splitlines()
    ninth = "| [9](0009-integer-units.md) | Amounts are integers in named units | accepted |"

    assert len(list(decisions.FOLDER.glob("0*.md"))) == sum("](0" in line for line in lines)
    assert ninth in lines


@pytest.mark.parametrize("first", ["# Layers", "# 2. Layers", "# 1. ", ""])
def test_a_decision_that_does_not_begin_with_its_number_and_title_is_named(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "0001-layers.md").write_text(f"{first}\n")
    monkeypatch.setattr(decisions, "FOLDER", tmp_path)

    with pytest.raises(ValueError, match=r"0001-layers.md does not begin with `# 1\. TITLE`"):
        decisions.render()


def test_a_decision_without_a_status_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "0001-layers.md").write_text("# 1. Layers\n\n## Context\n")
    monkeypatch.setattr(decisions, "FOLDER", tmp_path)

    with pytest.raises(ValueError, match=r"0001-layers.md has no line `Status: \.\.\.`"):
        decisions.render()


SECTIONS = {
    "## The submission": WorkloadSpec,
    "## `pod_sets[]`": PodSet,
    "## `pod_sets[].gpu`": GpuRequest,
    "## `pod_sets[].slices[]`": Slice,
    "## `gpu_choice`": GpuChoice,
    "## `topology`": TopologyRequest,
}


def test_every_field_of_a_submission_has_a_row_with_its_type_and_meaning():
    sections = {text.split("\n")[0]: text for text in workload.render().split("\n## ")}

    for title, struct in SECTIONS.items():
        rows = [row for row in sections[title.removeprefix("## ")].splitlines() if "| `" in row]
        assert [f"`{name}`" for name in struct.__struct_fields__] == [
            row.split(" | ")[0].removeprefix("| ") for row in rows
        ]
        for row in rows:
            cells = row.replace("\\|", "").strip("|").split("|")
            assert 5 == len(cells), row
            assert all(cells[cell].strip() for cell in (1, 3, 4)), row


@pytest.mark.parametrize(
    "row",
    [
        "| `name` | text | at most 63 characters, [pattern 1](#patterns) | (required) |",
        '| `spread` | one of `none`, `preferred`, `required` |  | `"none"` |',
        "| `pod_sets` | list of object | 1 to 16 entries | one, its defaults |",
        "| `min_count` | integer or null | 1 to 4,096 | `null` |",
        "| `gpu` | object |  | its defaults |",
        "| `command` | list of text | at most 256 entries; each at most 4,096 characters | `[]` |",
        "| `model_parameters_billions` | number or null | above 0, at most 1,000,000 | `null` |",
        "| `pods` | integer | 1 to 4,096 | (required) |",
        "| `preemptible` | true or false |  | `true` |",
    ],
)
def test_a_row_tells_type_bounds_and_default(row: str):
    assert row in workload.render()


def test_patterns_are_listed_by_their_numbers():
    text = workload.render()

    named = {int(number) for number in re.findall(r"\[pattern (\d+)\]", text)}
    listed = {int(number) for number in re.findall(r"^\| (\d+) \| `\^", text, re.MULTILINE)}
    assert named == listed
    assert "(mission" not in text
