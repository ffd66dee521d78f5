"""I22: the nine states of GPUs that monitoring tells sum to the capacity, as the ledger has it.

One reading of /metrics is of one moment: in it the sum is held to the capacity, in thousandths of
a GPU. Ledger and metrics are read one after the other while both move, so a difference between
these counts only if it stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Final

from operations.check.database import read_queries
from operations.check.model import CannotCheck, Findings, Result, Row
from operations.check.pods import settled

GPU_MILLI: Final = 1_000
HELD: Final = frozenset({"used", "unused", "unmeasured", "starting"})
"""What attempts hold; what is stopped is draining, as are GPUs that no workload holds."""
STATES: Final = HELD | {"kept", "switching", "draining", "unhealthy", "free"}
STATE: Final = "muster_gpu_state"
CAPACITY: Final = "muster_gpu_capacity"
READ_SECONDS_MAX: Final = 20
QUERIES: Final = {
    "gpus": """
        SELECT n.body::json ->> 'flavor' AS flavor, count(g.gpu) AS gpus
        FROM placement.node n LEFT JOIN placement.gpu g ON g.node = n.name
        WHERE n.present GROUP BY 1""",
    "held": """
        SELECT n.body::json ->> 'flavor' AS flavor, sum(a.milli)::bigint AS milli
        FROM placement.allocation a JOIN placement.node n ON n.name = a.node
        WHERE a.gpu >= 0 AND n.present GROUP BY 1""",
}
Amounts = Mapping[str, Mapping[str, int]]
"""Thousandths of a GPU by flavor and state; the capacity has the state ""."""


async def check_gpu_states(url: str, monitoring: str, *, settle_seconds: float = 30.0) -> Result:
    """The verdict on I22; `monitoring`: the address at which it serves /metrics.

    Raises:
        CannotCheck: database or metrics cannot be read, or the metrics are not of monitoring.
    """
    proved = Findings()

    async def compared() -> Findings:
        rows = await read_queries(url, QUERIES)
        told = amounts_of(await _metrics(monitoring))
        proved.merge(unequal(told))
        return differences(told, rows)

    findings = await settled(compared, settle_seconds)
    findings.violations += dict.fromkeys(proved.violations)  # each once
    return findings.result("I22", "used + unused + ... + free = capacity")


async def _metrics(address: str) -> str:
    import aiohttp

    time_out = aiohttp.ClientTimeout(total=READ_SECONDS_MAX)
    try:
        async with (
            aiohttp.ClientSession(timeout=time_out) as session,
            session.get(address.rstrip("/") + "/metrics", raise_for_status=True) as response,
        ):
            return await response.text()
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise CannotCheck(
            f"monitoring at {address}: {type(error).__name__}: {error}; is its address right?"
        ) from error


def amounts_of(text: str) -> Amounts:
    """What the text format of Prometheus tells of states and capacity.

    Raises:
        CannotCheck: there is neither, or a value is no number of thousandths.
    """
    from prometheus_client.parser import text_string_to_metric_families

    found: dict[str, dict[str, int]] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        if family.name in {STATE, CAPACITY}:
            for one in family.samples:
                labels = one.labels
                found[labels["flavor"]][labels.get("state", "")] = _milli(one.value)
    if not found:
        raise CannotCheck(f"there is no {STATE}: these are not the metrics of monitoring")
    return found


def _milli(value: float) -> int:
    try:
        milli = Decimal(repr(value)) * GPU_MILLI
        if milli == int(milli):
            return int(milli)
    except (InvalidOperation, ValueError, OverflowError):
        pass
    raise CannotCheck(f"{value} GPUs are no whole number of thousandths")


def unequal(told: Amounts) -> Findings:
    """Flavors of which a state is missing or negative, or the sum is not the capacity."""
    findings = Findings()
    for flavor, states in told.items():
        findings.checked += 1
        parts = {name: milli for name, milli in states.items() if name}
        missing = sorted(STATES ^ parts.keys())
        if missing:
            findings.add(flavor, f"states are not those nine: {', '.join(missing)}")
        if min(parts.values(), default=0) < 0:
            findings.add(flavor, f"a state is negative: {dict(sorted(parts.items()))}")
        total, capacity = sum(parts.values()), states.get("", 0)
        if total != capacity:
            findings.add(flavor, f"states sum to {total} milli-GPU, the capacity is {capacity}")
    return findings


def differences(told: Amounts, rows: Mapping[str, Sequence[Row]]) -> Findings:
    """Flavors of which the ledger has another capacity, or holds what no state tells."""
    findings = Findings()
    gpus = {row["flavor"]: GPU_MILLI * row["gpus"] for row in rows["gpus"]}
    held = {row["flavor"]: row["milli"] for row in rows["held"]}
    for flavor in sorted(gpus.keys() | told.keys()):
        findings.checked += 1
        states = told.get(flavor, {})
        capacity = states.get("", 0)
        if capacity != gpus.get(flavor, 0):
            text = f"{capacity} milli-GPU are told, the ledger has {gpus.get(flavor, 0)}"
            findings.add(flavor, text)
        least = sum(states.get(name, 0) for name in HELD)
        most = least + states.get("draining", 0)
        if not least <= held.get(flavor, 0) <= most:
            text = (
                f"the ledger holds {held.get(flavor, 0)} milli-GPU, the states {least} to {most}"
            )
            findings.add(flavor, text)
    return findings
