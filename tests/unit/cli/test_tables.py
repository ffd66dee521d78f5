"""Tables on real terminals: no id, state or number is cut, columns are left out by rank."""

import re

import pytest

from muster.cli.tables import Column, lines_of
from tests.support.terminal import terminal
from tests.unit.cli.builders import ID, JOB, accepted, workload, write

WIDTHS = (80, 100, 160)
NAME = "llama-70b-pretraining-of-the-night-shift"
REASON = "InsufficientCapacity"
NEVER_CUT = ("ID", "STATE", "GPUS")
HEADINGS = {
    80: ["ID", "NAME", "STATE", "GPUS"],
    100: ["ID", "NAME", "STATE", "GPUS", "AGE"],
    160: ["ID", "NAME", "TEAM", "KIND", "STATE", "GPUS", "PRIORITY", "AGE", "REASON"],
}


def plain(texts: list[str]) -> list[list[str]]:
    """Words of each line, without colours."""
    return [re.sub(r"\x1b\[\d+m", "", text).split() for text in texts]


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_queue_keeps_ids_states_and_numbers_whole_and_within_the_terminal(
    muster, gateway, monkeypatch, columns
):
    asked: dict = {"name": NAME, "gpu_milli": 1_024_000, "reason": REASON, "priority": 1_000_000}
    gateway.on("GET /v1/workloads", {"items": [workload("cancelling", **asked)]})

    with terminal(monkeypatch, columns) as screen:
        done = muster("queue")

    heading, row = plain(screen.lines)
    assert HEADINGS[columns] == heading
    assert [ID, "cancelling", "1024"] == [row[heading.index(one)] for one in NEVER_CUT]
    assert "PRIORITY" not in heading or "1000000" in row
    assert max(len(" ".join(line)) for line in (heading, row)) <= columns
    assert ("Left out at 80 columns: TEAM, KIND, PRIORITY, AGE, REASON" in done.err) == (
        columns == 80
    )


@pytest.mark.parametrize("columns", WIDTHS)
def test_nodes_and_quotas_keep_states_and_numbers_whole(muster, gateway, monkeypatch, columns):
    node = {
        "name": "gpu-h100-sxm5-80gb-rack-0117-node-0004",
        "flavor": "h100-sxm5-reserved",
        "product": "NVIDIA-H100-80GB-HBM3",
        "draining": True,
        "gpus": 8,
        "used_gpu_milli": 7625,
    }
    amounts = {"gpu_milli": 123_456_789}
    names = ("total_used", "total_nominal", "borrowed", "lent", "borrowing_limit")
    flavor = {"flavor": "h100-sxm5-reserved", **dict.fromkeys(names, amounts)}
    queue = {"name": "foundation-models", "team": "foundation", "held": True, "flavors": [flavor]}
    gateway.on("GET /v1/nodes", {"items": [node]})
    gateway.on("GET /v1/queues", {"items": [queue]})

    with terminal(monkeypatch, columns) as nodes:
        muster("nodes")
    with terminal(monkeypatch, columns) as quotas:
        muster("quota")

    row = plain(nodes.lines)[1]
    assert {node["name"], "draining", "8", "7.625"} <= set(row)
    row = plain(quotas.lines)[1]
    assert {"foundation-models", "held"} <= set(row)
    assert 2 <= row.count("123456.789")
    assert not any("…" in line for line in (*nodes.lines, *quotas.lines))


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_submission_shows_its_id_whole(muster, gateway, monkeypatch, tmp_path, columns):
    gateway.on("POST /v1/workloads", accepted())

    with terminal(monkeypatch, columns) as screen:
        muster("submit", "-f", write(tmp_path, JOB | {"name": "n" * 63}))

    assert ID in screen.text


def test_wide_leaves_nothing_out_on_a_terminal(muster, gateway, monkeypatch):
    said = "no node has 8 free GPUs; " * 10
    gateway.on("GET /v1/workloads", {"items": [workload("queued", message=said, attempt=3)]})

    with terminal(monkeypatch, 80) as screen:
        done = muster("queue", "-o", "wide")

    assert said.strip() in screen.text
    assert "" == done.err


def test_a_terminal_gets_colours_unless_no_color_is_set(muster, gateway, monkeypatch):
    gateway.on("GET /v1/workloads", {"items": [workload("failed")]})

    with terminal(monkeypatch, 160) as coloured:
        muster("queue")
    monkeypatch.setenv("NO_COLOR", "1")
    with terminal(monkeypatch, 160) as without:
        muster("queue")

    assert "\x1b[31mfailed" in coloured.text
    assert "\x1b" not in without.text


def _lines(items: list[dict], columns: tuple[Column, ...], width: int | None) -> list[str]:
    return lines_of(items, columns, width=width, style=lambda _word, text: text)[0]


def test_the_lowest_rank_that_fits_is_kept_and_free_text_gives_up_what_is_too_much():
    columns = (
        Column("ID", lambda one: one["id"]),
        Column("NAME", lambda one: one["name"], free=True),
        Column("LONG", lambda one: "l" * 30, rank=1),
        Column("AGE", lambda one: "7m", rank=2, right=True),
    )
    item = {"id": "i" * 27, "name": "n" * 40}

    assert ["ID", "NAME", "LONG", "AGE"] == _lines([item], columns, None)[0].split()
    assert ["ID", "NAME", "AGE"] == _lines([item], columns, 80)[0].split()
    assert ["i" * 27, "n" * 20 + "…"] == _lines([item], columns, 50)[1].split()
    assert ["i" * 27, "n" * 11 + "…"] == _lines([item], columns, 10)[1].split()


def test_columns_stand_below_each_other_for_every_script_and_escapes_do_nothing():
    columns = (Column("NAME", lambda one: one["name"]), Column("GPUS", lambda one: "8"))
    names = [{"name": "東京"}, {"name": "a\x1b[2Jb"}, {"name": "plain"}]

    lines = _lines(names, columns, 80)

    assert ["NAME    GPUS", "東京    8", "a?[2Jb  8", "plain   8"] == lines
