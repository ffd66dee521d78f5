"""`muster usage`: GPU-hours and their cost as a table, as JSON, and as a harmless CSV."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from muster import Client
from tests.unit.cli.gateway import Answer

HOUR = 3_600_000


def an_item(name: str, used: int, unused: int, unmeasured: int, **more):
    amounts = {"used_gpu_ms": used, "unused_gpu_ms": unused, "unmeasured_gpu_ms": unmeasured}
    return {
        "name": name,
        "team": "vision",
        "workload_name": "train",
        "allocated_gpu_ms": used + unused + unmeasured,
        **amounts,
        "cost_microdollars": 12_345_678,
        "unused_microdollars": 5_000,
        **more,
    }


def a_report(*items, left_out: int = 0):
    total = an_item("", 3 * HOUR, HOUR, HOUR // 2)
    for name in ("name", "team", "workload_name"):
        del total[name]
    return {
        "by": "workload",
        "since": "2026-11-01",
        "until": "2026-12-01",
        "items": list(items),
        "left_out": left_out,
        "total": total,
    }


def test_a_table_tells_hours_use_and_cost_with_their_total(muster, gateway):
    gateway.on("GET /v1/usage", a_report(an_item("w1", 3 * HOUR, HOUR, HOUR // 2), left_out=7))

    done = muster("usage", "--by", "workload", "--since", "2026-11-01", "-t", "vision")

    heading, one, total = (line.split() for line in done.out.splitlines())
    assert ["WORKLOAD", "TEAM", "NAME", "GPU-H", "USED", "UNUSED", "UNMEASURED"] == heading[:7]
    numbers = ["4.50", "3.00", "1.00", "0.50", "75", "%", "12.35", "0.01"]
    assert ["w1", "vision", "train", *numbers] == one
    assert ["TOTAL", *numbers] == total
    assert "7 more are left out" in done.err
    (asked,) = gateway.requests("GET /v1/usage")
    assert {"by": "workload", "since": "2026-11-01", "team": "vision", "limit": "1000"} == (
        asked.query
    )


def test_a_label_is_named_behind_its_key(muster, gateway):
    gateway.on("GET /v1/usage", {**a_report(), "by": "label"})

    muster("usage", "--by", "label:cost/center", "--since", "2026-11-01")

    (asked,) = gateway.requests("GET /v1/usage")
    assert ("label", "cost/center") == (asked.query["by"], asked.query["label"])


def a_charge(**more):
    return {
        **an_item("", 3 * HOUR, HOUR, HOUR // 2),
        "day": "2026-12-31",
        "workload_id": "w1",
        "workload_name": "=1+1",
        "queue": "q",
        "namespace": "ns",
        "flavor": "h100",
        "purchase": "reserved",
        "price_microdollars_per_gpu_hour": 2_500_000,
        "attempts": 2,
        "labels": {"project": '@x,"y"', "cost": "c"},
        **more,
    }


def test_focus_tells_all_pages_of_charges_by_its_columns(muster, gateway):
    pages = [
        {"items": [a_charge()], "next_cursor": "next"},
        {
            "items": [a_charge(purchase="spot", workload_name="", day="2028-02-29")],
            "next_cursor": "",
        },
    ]
    gateway.on("GET /v1/usage/charges", *pages)

    out = muster("usage", "-o", "focus", "--since", "2026-12-01", "-t", "vision").out

    first, second = csv.DictReader(io.StringIO(out), strict=True)
    assert ["Committed", "Dynamic"] == [one["PricingCategory"] for one in (first, second)]
    assert ("w1", "w1") == (second["ResourceId"], second["ResourceName"])
    assert MANDATORY <= first.keys()
    own = {one for one in first if one.startswith("x_")}
    assert {"x_Queue", "x_Namespace", "x_Attempts", "x_Purchase"} < own
    expected = {
        "BillingPeriodStart": "2026-12-01T00:00:00Z",
        "BillingPeriodEnd": "2027-01-01T00:00:00Z",
        "ChargePeriodStart": "2026-12-31T00:00:00Z",
        "ChargePeriodEnd": "2027-01-01T00:00:00Z",
        "ConsumedQuantity": "4.500000",
        "ListUnitPrice": "2.500000",
        "ResourceName": "'=1+1",
        "SubAccountId": "vision",
        "x_GpuHoursUsed": "3.000000",
    }
    assert expected == {name: first[name] for name in expected}
    assert {"12.345678"} == {
        first[name] for name in ("ListCost", "ContractedCost", "BilledCost", "EffectiveCost")
    }
    assert first["ProviderName"] == first["PublisherName"] == first["InvoiceIssuerName"] != ""
    assert ["cost", "project"] == list(json.loads(first["Tags"]))
    assert '@x,"y"' == json.loads(first["Tags"])["project"]
    assert ("2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z", "2028-03-01T00:00:00Z") == tuple(
        second[name] for name in ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodEnd")
    )
    assert "next" == gateway.requests("GET /v1/usage/charges")[1].query["cursor"]


MANDATORY = {
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "ServiceCategory",
    "ServiceName",
}
"""Columns that every FOCUS 1.2 file has. Source: FOCUS 1.2, "Feature level: Mandatory"."""


@pytest.mark.parametrize(("by", "owners"), [("team", []), ("queue", ["TEAM"]), ("day", [])])
def test_an_item_is_named_once(muster, gateway, by, owners):
    """By team there is no second column of teams, and names are those of workloads alone."""
    gateway.on("GET /v1/usage", {**a_report(an_item("x", HOUR, 0, 0)), "by": by})

    heading = muster("usage", "--by", by).out.splitlines()[0].split()

    assert [by.upper(), *owners, "GPU-H"] == heading[: len(owners) + 2]


def test_a_time_ago_is_a_day(muster, gateway):
    gateway.on("GET /v1/usage", a_report())

    done = muster("usage", "--since", "30d")
    bad = muster("usage", "--since", "soon")

    month_ago = (datetime.now(UTC) - timedelta(days=30)).date().isoformat()
    assert month_ago == gateway.requests("GET /v1/usage")[0].query["since"]
    assert "No GPU was held" in done.err
    assert (2, True) == (bad.code, "--since must be like" in bad.err)


def test_a_cell_of_csv_is_never_a_formula_and_sums_are_kept(muster, gateway):
    hostile = [f"{sign}cmd|' /C calc'!A0" for sign in "=+-@\t"]
    items = [an_item(name, HOUR, 1, 0, workload_name='=1+1","x\ny') for name in hostile]
    gateway.on("GET /v1/usage", a_report(*items))

    out = muster("usage", "-o", "csv").out

    rows = list(csv.DictReader(io.StringIO(out), strict=True))
    assert [f"'{name}" for name in hostile] == [row["name"] for row in rows]
    assert all(row["workload_name"] == '\'=1+1","x\ny' for row in rows)
    assert {"1.000000", "0.000000"} == {row[f"{part}_gpu_hours"] for row in rows for part in (
        "allocated", "used", "unused", "unmeasured",
    )}  # fmt: skip
    assert ("12.345678", "0.005000") == (rows[0]["cost_dollars"], rows[0]["unused_dollars"])


def test_json_is_the_answer_and_names_are_names(muster, gateway):
    report = a_report(an_item("w1", 1, 2, 3))
    gateway.on("GET /v1/usage", report)

    assert report == json.loads(muster("usage", "-o", "json").out)
    assert "w1\n" == muster("usage", "-o", "name").out
    with Client(gateway.address, "mk_test") as client:
        assert report == client.usage(by="day", until="2026-12-01")
    assert "day" == gateway.requests("GET /v1/usage")[-1].query["by"]


def test_a_day_that_is_none_is_told_with_its_rule_and_exit_code_5(muster, gateway):
    errors = [
        {"field": "since", "value": "2026-13-01", "rule": "must be a day such as 2026-11-01"}
    ]
    problem = {"type": "about:blank", "title": "x", "status": 400, "code": "invalid"}
    gateway.on(
        "GET /v1/usage",
        Answer(problem | {"errors": errors}, 400, kind="application/problem+json"),
    )

    done = muster("usage", "--since", "2026-13-01")

    assert 5 == done.code
    assert all(text in done.err for text in errors[0].values())
