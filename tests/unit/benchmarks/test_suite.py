"""The suite reads figures and holds them to their ranges; the README says the same."""

import json
from collections.abc import Sequence
from pathlib import Path
from threading import Barrier

import pytest

from tests.benchmarks import readme, suite
from tests.benchmarks.suite import SIDE_BY_SIDE, Figure, load_ranges, look_up, report

DOCUMENT = {"policies": {"muster": {"at": {"130": 95.8}}}, "runs": [{"seconds": 3}]}


def a_figure(**changes) -> Figure:
    known = {"benchmark": "packing", "path": "a", "title": "t", "beside": {}}
    return Figure(**(known | changes))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("policies/muster/at/130", 95.8),
        ("runs/0/seconds", 3),
        ("runs/1/seconds", None),
        ("policies/fgd/at/130", None),
        ("policies/muster", None),
    ],
)
def test_a_figure_is_looked_up_by_its_path(path: str, value: float | None):
    assert look_up(DOCUMENT, path) == value


@pytest.mark.parametrize(
    ("bounds", "value", "holds"),
    [
        ({"at_least": 1.0}, 1.0, True),
        ({"at_least": 1.0}, 0.99, False),
        ({"at_most": 1.0}, 1.01, False),
        ({"at_least": 1.0, "at_most": 2.0}, 1.5, True),
        ({"at_least": 1.0}, None, False),
    ],
)
def test_a_range_has_two_ends(bounds: dict[str, float], value: float | None, holds: bool):
    assert a_figure(**bounds).holds(value) is holds


def test_what_is_missing_or_out_of_range_is_counted(tmp_path: Path):
    (tmp_path / "packing.json").write_text(json.dumps({"a": 1, "b": 5}))
    figures = [
        a_figure(path="a", at_least=1),
        a_figure(path="b", at_most=4),
        a_figure(path="c", at_least=0),
        a_figure(benchmark="never-run", path="a", at_least=0),
    ]

    assert report(figures, tmp_path) == 3


def test_every_figure_belongs_to_a_benchmark_that_is_run():
    short, figures = load_ranges()

    assert {figure.benchmark for figure in figures} <= set(short)
    assert all(figure.at_least is not None or figure.at_most is not None for figure in figures)


def test_what_no_clock_decides_runs_side_by_side_and_the_rest_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    running, most = set[str](), dict[str, int]()
    met = Barrier(2, timeout=10)

    def ran(name: str, _arguments: Sequence[str], _into: Path) -> bool:
        running.add(name)
        if name in SIDE_BY_SIDE:
            met.wait()
        most[name] = len(running)
        if name in SIDE_BY_SIDE:
            met.wait()
        running.remove(name)
        return name != "growth"

    monkeypatch.setattr(suite, "run", ran)
    monkeypatch.setattr("os.cpu_count", lambda: 2)

    failed = suite.run_all({"growth": [], "packing": [], "explain": [], "mig": []}, tmp_path)

    assert failed == 1
    assert most == {"packing": 2, "mig": 2, "growth": 1, "explain": 1}


def test_all_that_run_side_by_side_are_known():
    short, _ = load_ranges()

    assert set(SIDE_BY_SIDE) <= set(short)


def test_the_table_shows_the_full_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "packing.json").write_text(
        json.dumps({"policies": {"muster": {"allocation_percent": {"130": 95.833}}}})
    )
    monkeypatch.setattr(readme, "RESULTS", tmp_path)

    assert "| **95.83 %** | >= 95.8, aim 96.1 | FGD - |" in readme.table(headlines=True)
    assert "published 95.39" not in readme.table(), "what has no wanted figure has no row"


def test_the_table_goes_between_its_marks():
    text = f"before\n{readme.BEGIN}a stale row\n{readme.END}after\n"

    once = readme.written(text)

    assert once.startswith("before\n")
    assert once.endswith("after\n")
    assert "a stale row" not in once
    assert readme.written(once) == once
