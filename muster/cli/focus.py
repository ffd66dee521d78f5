"""Charges as FOCUS 1.2 tells them: a row for each workload, flavor, purchase, price and day.

Columns are those of https://focus.finops.org, own ones begin with `x_`. The site is its own
provider, publisher and issuer, so that what is billed is what is charged.
"""

from __future__ import annotations

import csv
import json
from collections.abc import AsyncIterator, Mapping
from datetime import date, timedelta
from typing import Any, Final, TextIO

from muster.cli.usage_cells import harmless, micro, microhours

Json = dict[str, Any]
PRICING: Final = {
    "on-demand": "Standard",
    "owned": "Standard",
    "reserved": "Committed",
    "spot": "Dynamic",
}
"""PricingCategory by purchase."""
OWN: Final = {
    "x_GpuHoursUsed": "used_gpu_ms",
    "x_GpuHoursUnused": "unused_gpu_ms",
    "x_GpuHoursUnmeasured": "unmeasured_gpu_ms",
}


async def write(charges: AsyncIterator[Json], site: str, into: TextIO) -> None:
    """All charges as CSV; what a spreadsheet takes for a formula begins with an apostrophe."""
    writer: csv.DictWriter[str] | None = None
    async for charge in charges:
        row = row_of(charge, site)
        if writer is None:
            writer = csv.DictWriter(into, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow({name: harmless(text) for name, text in row.items()})


def row_of(charge: Json, site: str) -> dict[str, str]:
    """A charge by column."""
    hours = micro(microhours(charge["allocated_gpu_ms"]))
    price = micro(charge["price_microdollars_per_gpu_hour"])
    cost = micro(charge["cost_microdollars"])
    return {
        "BillingAccountId": site,
        "BillingAccountName": site,
        "BillingAccountType": "Site",
        "BillingCurrency": "USD",
        **_periods(date.fromisoformat(charge["day"])),
        "ChargeCategory": "Usage",
        "ChargeClass": "",
        "ChargeDescription": f"{charge['flavor']} held by {_name(charge)}",
        "ChargeFrequency": "Usage-Based",
        "ConsumedQuantity": hours,
        "ConsumedUnit": "Hours",
        "PricingQuantity": hours,
        "PricingUnit": "Hours",
        "PricingCategory": PRICING[charge["purchase"]],
        "ListUnitPrice": price,
        "ContractedUnitPrice": price,
        **dict.fromkeys(("ListCost", "ContractedCost", "BilledCost", "EffectiveCost"), cost),
        **dict.fromkeys(("ProviderName", "PublisherName", "InvoiceIssuerName"), site),
        "InvoiceId": "",
        "ResourceId": charge["workload_id"],
        "ResourceName": _name(charge),
        "ResourceType": "Workload",
        **_service(charge),
        "Tags": json.dumps(charge["labels"], sort_keys=True),
        **{name: micro(microhours(charge[part])) for name, part in OWN.items()},
        "x_Queue": charge["queue"],
        "x_Namespace": charge["namespace"],
        "x_Purchase": charge["purchase"],
        "x_Attempts": str(charge["attempts"]),
    }


def _periods(day: date) -> Mapping[str, str]:
    """The month that is billed and the day that is charged, each without its end."""
    month = day.replace(day=1)
    return {
        "BillingPeriodStart": _midnight(month),
        "BillingPeriodEnd": _midnight((month + timedelta(days=32)).replace(day=1)),
        "ChargePeriodStart": _midnight(day),
        "ChargePeriodEnd": _midnight(day + timedelta(days=1)),
    }


def _midnight(day: date) -> str:
    return f"{day.isoformat()}T00:00:00Z"


def _service(charge: Json) -> Mapping[str, str]:
    flavor, price = charge["flavor"], charge["price_microdollars_per_gpu_hour"]
    return {
        "ServiceCategory": "AI and Machine Learning",
        "ServiceSubcategory": "AI Platforms",
        "ServiceName": "Muster",
        "SkuId": flavor,
        "SkuMeter": "GPU-hours",
        "SkuPriceId": f"{flavor}/{charge['purchase']}/{price}",
        "SkuPriceDetails": "{}",
        "SubAccountId": charge["team"],
        "SubAccountName": charge["team"],
        "SubAccountType": "Team",
    }


def _name(charge: Json) -> str:
    return str(charge["workload_name"] or charge["workload_id"])
