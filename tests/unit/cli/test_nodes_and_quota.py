"""`muster nodes` and `quota`: what there is, and whose it is."""

import json

import pytest

from tests.unit.cli.gateway import Answer


def test_nodes_show_what_is_used(muster, gateway):
    node = {"name": "n1", "flavor": "h100", "gpus": 8, "mig_gpus": 3, "used_gpu_milli": 2500}
    gateway.on("GET /v1/nodes", {"items": [node | {"ready": True}], "next_cursor": ""})

    row = muster("nodes").out.splitlines()[1].split()

    assert row == ["n1", "h100", "yes", "8", "3", "2.5"]


def a_device(index: int, **more) -> dict:
    device = {"index": index, "uuid": f"GPU-{index}", "memory_mib": 81_559, "mig": False}
    return device | {"healthy": True, "used_milli": 0, "used_mask": 0, "workloads": []} | more


def test_a_node_shows_its_gpus_and_who_runs_on_each(muster, gateway):
    devices = [
        a_device(0, mig=True, used_milli=625, workloads=["w1", "w2"]),
        a_device(1, healthy=False),
    ]
    node = {"name": "n1", "flavor": "h100", "cordoned": True, "shunned_until_ms": None}
    gateway.on("GET /v1/nodes/n1", node | {"devices": devices})

    lines = [line.split() for line in muster("nodes", "n1").out.splitlines()]

    assert ["flavor", "h100"] in lines
    assert lines[-2:] == [
        ["0", "MIG", "healthy", "81559", "0.625", "w1,w2"],
        ["1", "whole", "unhealthy", "81559", "0", "-"],
    ]
    assert "GPU-1" in muster("nodes", "n1", "-o", "wide").out
    assert json.loads(muster("nodes", "n1", "-o", "json").out)["devices"] == devices
    assert muster("nodes", "n1", "-o", "name").out == "n1\n"
    assert muster("nodes", "n9").code == 3


def test_a_node_shows_what_slowly_changes_for_the_worse(muster, gateway):
    text = "GPU 1 of node n1: 10 C hotter than its median; look at its cooling"
    trends = [{"trend": "heat", "message": text}, {"trend": "replay", "message": "more"}]
    devices = [a_device(0, trends=[]), a_device(1, trends=trends)]
    node = {"name": "n1", "flavor": "h100", "trend_messages": [text]}
    gateway.on("GET /v1/nodes/n1", node | {"devices": devices})
    gateway.on("GET /v1/nodes", {"items": [node | {"ready": True}], "next_cursor": ""})

    lines = muster("nodes", "n1").out.splitlines()

    assert text in next(line for line in lines if line.startswith("trend_messages"))
    told = [line.split()[:4] for line in lines[-3:]]
    assert told == [
        ["GPU", "MODE", "HEALTH", "TRENDS"],
        ["0", "whole", "healthy", "-"],
        ["1", "whole", "healthy", "heat,replay"],
    ]
    assert text in muster("nodes", "-o", "wide").out


def test_of_workloads_of_other_teams_a_node_shows_how_many_there_are(muster, gateway):
    devices = [
        a_device(0, used_milli=750, workloads=["w1"], workloads_of_others=2),
        a_device(1, used_milli=1000, workloads_of_others=1),
        a_device(2, workloads_of_others=0),
    ]
    gateway.on("GET /v1/nodes/n1", {"name": "n1", "flavor": "h100", "devices": devices})

    lines = muster("nodes", "n1").out.splitlines()[-3:]

    told = [" ".join(line.split()[5:]) for line in lines]
    assert told == ["w1 and 2 of others", "1 of others", "-"]


def test_operators_cordon_and_drain_nodes_and_hear_of_each_that_cannot(muster, gateway):
    for verb in ("cordon", "uncordon", "drain"):
        gateway.on(f"POST /v1/nodes/n2/{verb}", Answer({"name": "n2", "command": verb}, 202))

    drained = muster("admin", "drain", "n1", "n2", "--reason", "new firmware")

    assert (drained.code, drained.out) == (3, "n2: drain requested\n")
    assert gateway.seen[-1].body == {"note": "new firmware"}
    items = [{"name": "n2", "result": "drain requested"}]
    assert {"items": items} == json.loads(muster("admin", "drain", "n2", "-o", "json").out)
    assert muster("admin", "cordon", "n2").out == "n2: cordon requested\n"
    assert muster("admin", "uncordon", "n2").out == "n2: uncordon requested\n"


def test_operators_restore_gpus_and_hear_of_each_that_is_healthy(muster, gateway):
    problem = {"status": 409, "title": "gpu-healthy", "detail": "gpu: 4 of node n2 is healthy"}
    gateway.on("POST /v1/nodes/n1/restore", Answer({"name": "n1", "command": "restore"}, 202))
    gateway.on("POST /v1/nodes/n2/restore", Answer(problem, 409))

    restored = muster("admin", "restore", "n1", "--gpu", "3", "--gpu", "4", "--note", "replaced")
    refused = muster("admin", "restore", "n2", "--gpu", "4")

    assert (restored.code, restored.out) == (
        0, "n1/3: restore requested\nn1/4: restore requested\n",
    )  # fmt: skip
    sent = [one.body for one in gateway.seen]
    assert sorted(one["gpu"] for one in sent) == [3, 4, 4]
    assert sent[0]["note"] == "replaced"
    assert (refused.code, "gpu: 4 of node n2 is healthy" in refused.err) == (5, True)
    assert muster("admin", "restore", "n1").code == 2


def test_who_fences_nodes_vouches_for_it(muster, gateway, monkeypatch):
    gateway.on("POST /v1/nodes/n2/fence", Answer({"name": "n2", "command": "fence"}, 202))
    answers = iter(["y", "", "yes"])
    asked = []

    def answer(question):
        asked.append(question)
        return next(answers)

    unasked = muster("admin", "nodes", "fence", "n2")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", answer)
    unsure = [muster("admin", "nodes", "fence", "n2") for _ in range(2)]
    before = len(gateway.seen)
    sure = muster("admin", "nodes", "fence", "n2", "--note", "power is cut")
    vouched = muster("admin", "nodes", "fence", "n2", "--yes")

    assert (unasked.code, "--yes" in unasked.err) == (2, True)
    assert [(2, True)] * 2 == [(one.code, "nothing was fenced" in one.err) for one in unsure]
    assert before == 0
    assert "off for certain: n2" in sure.err
    assert (sure.code, sure.out) == (0, "n2: fence requested\n")
    assert [{"note": "power is cut"}, {"note": ""}] == [one.body for one in gateway.seen]
    assert (len(asked), vouched.code) == (3, 0)


def test_a_fenced_node_is_shown_as_such(muster, gateway):
    node = {"name": "n1", "flavor": "h100", "gpus": 8, "used_gpu_milli": 0, "ready": False}
    node |= {"cordoned": True, "fenced": True, "draining": False, "shunned_until_ms": None}
    gateway.on("GET /v1/nodes", Answer({"items": [node], "next_cursor": ""}))

    assert "fenced" in muster("nodes").out.splitlines()[1].split()


def test_nodes_on_which_nothing_starts_say_until_when_and_why(muster, gateway):
    text = "node n1 is shunned for 60 s, because 2 workloads did not start there within 120 s"
    node = {"name": "n1", "flavor": "h100", "gpus": 8, "used_gpu_milli": 0, "ready": True}
    shun = {"shunned_until_ms": 1_790_000_000_000, "shun_message": text}
    gateway.on("GET /v1/nodes", {"items": [node | shun], "next_cursor": ""})

    table, wide = muster("nodes").out, muster("nodes", "-o", "wide").out

    assert "shunned until 2026-09-" in " ".join(table.split())
    assert "because 2 workloads" in " ".join(wide.split())


def test_a_node_with_disputed_gpus_says_how_many_and_why(muster, gateway):
    text = "pod w1-1-0: it has 1 GPU by its kubelet and 2 by the ledger"
    node = {"name": "n1", "flavor": "h100", "gpus": 8, "used_gpu_milli": 0, "ready": True}
    one, two = ({"disputed_gpus": gpus, "dispute_message": text} for gpus in ([3], [3, 4]))
    items = [node | one, node | two | {"name": "n2"}, node | two | {"name": "n3", "ready": False}]
    gateway.on("GET /v1/nodes", {"items": items, "next_cursor": ""})

    _, *table = muster("nodes").out.splitlines()
    wide = " ".join(muster("nodes", "-o", "wide").out.split())

    assert ["1 GPU disputed", "2 GPUs disputed"] == [
        words
        for words, line in zip(("1 GPU disputed", "2 GPUs disputed"), table, strict=False)
        if words in line
    ]
    assert " no " in table[2]
    assert text in wide


UNLIMITED = 2**62


def amounts(gpu_milli: int) -> dict:
    return {"gpu_milli": gpu_milli, "cpu_milli": 4000, "memory_mib": 2048}


FLAVOR = {
    "flavor": "h100",
    "nominal": {"gpu_milli": 32_000, "cpu_milli": UNLIMITED, "memory_mib": UNLIMITED},
    "borrowing_limit": None,
    "lending_limit": None,
    "used": amounts(34_500),
    "borrowed": amounts(2_500),
    "lent": amounts(0),
    "available": amounts(1_000),
    "total_nominal": {"gpu_milli": 32_000, "cpu_milli": UNLIMITED, "memory_mib": UNLIMITED},
    "total_used": amounts(34_500),
}
BUDGET = {
    "month": "2026-11",
    "percent": 81,
    "spent_gpu_milli_hours": 81_300,
    "limit_gpu_milli_hours": 100_000,
    "spent_microdollars": 0,
    "limit_microdollars": None,
}
MONEY = {"limit_gpu_milli_hours": None, "spent_microdollars": 1_200_500_000}


@pytest.mark.parametrize(
    ("percent", "at_limit", "said"),
    [
        (100, "nominal", "100/100 GPU-h, nothing is borrowed"),
        (100, "spot", "100/100 GPU-h, only spot is used"),
        (140, "stop", "100/100 GPU-h, nothing is started"),
        (140, "warn", "100/100 GPU-h"),
        (99, "stop", "100/100 GPU-h"),
    ],
)
def test_what_holds_once_a_budget_is_spent_stands_beside_it(
    muster, gateway, percent, at_limit, said
):
    spent = {"percent": percent, "at_limit": at_limit, "spent_gpu_milli_hours": 100_000}
    queue = {"name": "q", "flavors": [FLAVOR], "budget": BUDGET | spent}
    gateway.on("GET /v1/queues", {"items": [queue], "next_cursor": ""})

    row = muster("quota").out.splitlines()[1].replace("100.0/", "100/")

    assert row.rstrip().endswith(f"{percent}% of 2026-11: {said}")


def test_when_a_budget_will_be_spent_is_told_until_it_is(muster, gateway):
    forecast = {"whole_spent_at_ms": 1_764_201_600_000, "at_limit": "warn"}
    budgets = [BUDGET | forecast, BUDGET | forecast | {"percent": 100}]
    queues = [{"name": "q", "flavors": [FLAVOR], "budget": one} for one in budgets]
    gateway.on("GET /v1/queues", {"items": queues, "next_cursor": ""})

    rows = muster("quota", "-o", "wide").out.splitlines()[1:]

    assert [True, False] == ["spent by 11-27 00:00 UTC" in row for row in rows]


def test_quota_shows_a_row_for_each_flavor(muster, gateway):
    queue = {
        "name": "vision",
        "team": "vision",
        "cohort": "all",
        "weight": 3,
        "flavors": [FLAVOR],
        "share_millionths": 78_125,
        "debt_millionths": -31_250,
        "debt_told_at_ms": 5,
        "usage_gpu_seconds": 5_400,
        "usage_half_life_ms": 1,
        "budget": BUDGET,
    }
    other = queue | {"name": "fraud", "share_millionths": UNLIMITED}
    other["budget"] = BUDGET | MONEY | {"limit_microdollars": 2_000_000_000}
    other["debt_told_at_ms"] = None
    gateway.on("GET /v1/queues", {"items": [queue, other], "next_cursor": ""})

    head, row = (line.split() for line in muster("quota", "vision").out.splitlines())
    last = muster("quota", "fraud", "-o", "wide").out

    assert head[-4:] == ["SHARE", "DEBT", "USAGE", "BUDGET"]
    assert row[:7] == ["vision", "vision", "all", "h100", "34.5", "32", "2.5"]
    assert row[-8:-3] == ["7.8%", "-3.1%", "1.5", "81%", "of"]
    assert row[-3:] == ["2026-11:", "81.3/100", "GPU-h"]
    assert " last     - " in last
    assert "81% of 2026-11: $1,200.50/2,000.00" in last
    assert "2 GiB" in last
    assert "unlimited" in last
    assert muster("quota", "nobody").code == 3


@pytest.mark.parametrize(
    ("queue", "state"),
    [
        ({"held": False, "version": 7, "limits_in_force": 7}, "open"),
        ({"held": False, "version": 7, "limits_in_force": 6}, "new"),
        ({"held": True, "version": 7, "limits_in_force": 7}, "held"),
        ({"held": True, "draining": True}, "draining"),
    ],
)
def test_quota_shows_whether_a_queue_takes_work_in(muster, gateway, queue, state):
    items = [{"name": "vision", "flavors": [FLAVOR], **queue}]
    gateway.on("GET /v1/queues", {"items": items, "next_cursor": ""})

    head, row = muster("quota").out.splitlines()

    assert row[head.index("STATE") :].split()[0] == state


def test_quota_shows_cohorts_with_all_their_members_and_what_they_owe_when_asked(muster, gateway):
    pool = FLAVOR | {"total_nominal": amounts(64_000), "total_used": amounts(48_000)}
    cohort = {
        "name": "research",
        "parent": "all",
        "weight": 1,
        "flavors": [pool],
        "share_millionths": 5_000,
        "debt_millionths": 40_000,
        "debt_told_at_ms": 5,
    }
    gateway.on("GET /v1/cohorts", {"items": [cohort], "next_cursor": ""})

    row = muster("quota", "--cohorts").out.splitlines()[1].split()
    wrong = muster("quota", "--cohorts", "-t", "vision")

    assert ["research", "all", "h100", "48", "64"] == row[:5]
    assert ["0.5%", "4.0%", "-", "-"] == row[-4:]
    assert "no cohort 'ml'" in muster("quota", "ml", "--cohorts").err
    assert wrong.code == 2
    assert "--cohorts" in wrong.err


def test_a_queue_without_quota_has_a_row_and_says_what_gives_it_one(muster, gateway):
    vision: dict = {"name": "vision", "team": "vision", "flavors": []}
    queues = [vision, {"name": "fraud", "team": "fraud", "flavors": [FLAVOR]}]
    gateway.on("GET /v1/queues", {"items": queues, "next_cursor": ""})

    one, both = muster("quota", "vision"), muster("quota")

    assert ["vision", "vision", "-"] == one.out.splitlines()[1].split()[:3]
    assert "`flavors` of the queue's document give one" in one.err
    assert ["vision", "fraud"] == [line.split()[0] for line in both.out.splitlines()[1:]]
    assert "" == muster("quota", "fraud").err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["everybody"], "There is no queue 'everybody'; cohorts are shown with --cohorts."),
        (["vision", "--cohorts"], "no cohort 'vision'; queues are shown without --cohorts."),
    ],
)
def test_who_asks_for_the_other_kind_hears_how(muster, gateway, words, told):
    gateway.on("GET /v1/queues", {"items": [{"name": "vision"}], "next_cursor": ""})
    gateway.on("GET /v1/cohorts", {"items": [{"name": "everybody"}], "next_cursor": ""})

    done = muster("quota", *words)

    assert 3 == done.code
    assert told in done.err


def test_without_any_queue_it_says_so(muster, gateway):
    gateway.on("GET /v1/queues", {"items": [], "next_cursor": ""})

    assert "There is no queue yet.\n" == muster("quota").err
