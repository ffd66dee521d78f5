"""Options of `muster-ops`: what is refused before anything is read."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from operations.cli import app


@pytest.mark.parametrize(
    "words",
    [
        ["check"],
        ["defragment", "train-7"],
        ["dlq", "list"],
        ["replay", "philly"],
        ["replay", "kalos"],
        ["replay", "openb", "--nodes", "nodes.csv", "--pods", "pods.csv"],
    ],
)
def test_a_format_that_there_is_not_is_refused_and_not_taken_as_table(
    words, tmp_path: Path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(app, [*words, "-o", "jsn"])

    assert 2 == done.exit_code
    assert "must be table or json (given: jsn)" in done.output
