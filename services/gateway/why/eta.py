"""GET of when a workload is likely to start and to end: a range with its basis (mission X2).

A promised start comes first; else what its team's like work waited lately, in its queue and of its
size; else when those that run are expected to have given back enough for all ahead of it. What has
no spread, as that and a promise without history, is told as the earliest start. Lengths: of work
of the same name, what the user said, of work of the same kind and size. What is said of
starts is scored against what happens (`told_starts.py`, `muster_eta_error_seconds`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from services.gateway.app.context import GatewayContext, RequestContext, answer
from services.gateway.queues.quota_tree import flavors_for, lacking, out_of_reach, quota_tree
from services.gateway.queues.standstill import nearly_spent, standstill
from services.gateway.why.eta_views import EarliestView, Eta, RangeView
from services.gateway.why.neighbours import expected_ends, place_in_queue
from services.gateway.workloads.workload_reads import REFUSAL, row_of
from shared.core.backfill.eta import (
    EXPECTED_ENDS,
    QUEUE,
    QUEUE_AND_SIZE,
    SAMPLES_MAX,
    Range,
    after,
    by_ends,
    left_of,
    promised,
    size_class,
    stated,
)
from shared.core.model.charges import least_amount
from shared.core.model.lifecycle import TERMINAL, State
from shared.core.model.nouns import WorkloadSpec
from shared.core.quota.tree import NOTHING

Row = Mapping[str, Any]
LATELY_MAX: Final = 4_000
"""Submissions of the team that are looked at, the newest."""
STARTS: Final = frozenset({State.RECEIVED, State.QUEUED})
RUNS: Final = frozenset({State.PLACED, State.BOUND, State.RUNNING})
_LATELY: Final = (
    "SELECT * FROM (SELECT queue, name, kind, gpu_milli, attempt, state, submitted_at_ms,"  # noqa: S608  # constants
    " placed_at_ms, running_at_ms, ended_at_ms FROM gateway.workload WHERE team = $1"
    f" ORDER BY submitted_at_ms DESC, id DESC LIMIT {LATELY_MAX}) w WHERE placed_at_ms IS NOT NULL"
)
_specs: Final = msgspec.json.Decoder(WorkloadSpec)


async def eta(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """The ranges as of now."""
    columns = "w.*, s.spec, r.detail AS refusal_detail"
    joins = f"{REFUSAL} LEFT JOIN gateway.workload_spec s ON s.id = w.id"
    row = await row_of(gateway, call, columns, joins)
    lately = await gateway.reader.fetch(_LATELY, row["team"])
    now_ms = gateway.clock.now_ms()
    state = State(row["state"] or State.RECEIVED.value)
    unknown = await _unknown(gateway, row, state) if state in STARTS else ""
    start = _start(row, lately, now_ms) if state in STARTS and not unknown else None
    if start is None and not unknown and state is State.QUEUED and row["gpu_milli"]:
        start = await _by_ends(gateway, row, now_ms)
    gateway.told_starts.note(row, start, now_ms)
    start, earliest = _with_spread(start)
    length = _length(row, lately, now_ms) if state in STARTS | RUNS else None
    end = after(start, length) if start is not None and length is not None else None
    if state in RUNS:
        end = length
    no_end = _no_end(row, now_ms) if end is None and length is None else ""
    view = Eta(
        id=row["id"],
        state=state,
        at_ms=now_ms,
        start=_at(start, now_ms),
        earliest_start=_earliest(earliest, now_ms),
        end=_at(end, now_ms),
        message=unknown or _message(state, start or earliest) or no_end,
    )
    return answer(view)


def _with_spread(found: Range | None) -> tuple[Range | None, Range | None]:
    """(a range of what like work took, or else one moment before which it hardly starts).

    Expected ends do not tell which others come first, and a promise alone is one moment.
    """
    if found is None or (found.basis != EXPECTED_ENDS and found.p50_ms < found.p90_ms):
        return found, None
    return None, found


def _earliest(found: Range | None, now_ms: int) -> EarliestView | None:
    if found is None:
        return None
    return EarliestView(at_ms=now_ms + found.p50_ms, basis=found.basis, samples=found.samples)


def _start(row: Row, lately: Sequence[Row], now_ms: int) -> Range | None:
    waited_ms = max(now_ms - row["submitted_at_ms"], 0)
    first = [one for one in lately if one["attempt"] == 1 and one["queue"] == row["queue"]]
    alike = [one for one in first if _size(one) == _size(row)]
    found = None
    for some, basis in ((alike, QUEUE_AND_SIZE), (first, QUEUE)):
        waits = [max(one["placed_at_ms"] - one["submitted_at_ms"], 0) for one in some]
        found = found or left_of(waits[:SAMPLES_MAX], waited_ms, basis)
    promise_ms = _promised_ms(row)
    return promised(promise_ms - now_ms, found) if promise_ms else found


def _promised_ms(row: Row) -> int:
    """The start that placement promised it; 0 for none."""
    detail = msgspec.json.decode(row["refusal_detail"], type=dict) if row["refusal_detail"] else {}
    return int(detail.get("evidence", {}).get("promised_start_ms", 0))


async def _unknown(gateway: GatewayContext, row: Row, state: State) -> str:
    """Why its start is unknown: its queue starts nothing, or others own and use too much.

    "" where there is no such reason.
    """
    queue = (await quota_tree(gateway)).node(row["queue"])
    stopped = standstill(queue, await nearly_spent(gateway, queue))
    if stopped is not None:
        return stopped.message
    if state is not State.QUEUED or _promised_ms(row) or not row["spec"]:
        return ""
    spec = _specs.decode(row["spec"])
    found = out_of_reach(queue, await flavors_for(gateway, queue, spec), least_amount(spec))
    return found.message if found is not None else ""


async def _by_ends(gateway: GatewayContext, row: Row, now_ms: int) -> Range | None:
    """When enough is given back for those ahead in its queue and for it.

    Where a limit of quota stands in the way, only what counts there gives it back, and only what
    is beyond the limit is waited for.
    """
    ahead = await place_in_queue(gateway, row)
    tree = await quota_tree(gateway)
    queue = tree.node(row["queue"])
    spec = _specs.decode(row["spec"]) if row["spec"] else None
    wanted_milli = ahead.gpu_milli_ahead + row["gpu_milli"]
    _, cpu_milli, memory_mib = least_amount(spec) if spec is not None else NOTHING
    request = (wanted_milli, cpu_milli, memory_mib)
    flavors = await flavors_for(gateway, queue, spec)
    lacks = {flavor: lacking(tree, queue, flavor, request) for flavor in flavors}
    ends = await expected_ends(gateway, {flavor: one.queues for flavor, one in lacks.items()})
    left_milli = sum(wanted_milli - one.gpu_milli for one in lacks.values())
    return by_ends(ends, max(wanted_milli - left_milli, 1), now_ms)


def _length(row: Row, lately: Sequence[Row], now_ms: int) -> Range | None:
    """How long it will run, or go on to run."""
    ran_ms = _ran_ms(row, now_ms)
    spec = _specs.decode(row["spec"]) if row["spec"] else None
    ended = [
        one
        for one in lately
        if one["state"] == State.SUCCEEDED.value and one["running_at_ms"] and one["ended_at_ms"]
    ]
    named = [one for one in ended if one["name"] == row["name"]]
    alike = [one for one in ended if one["kind"] == row["kind"] and _size(one) == _size(row)]
    found = left_of(_lengths(named), ran_ms, "name")
    if found is None and spec is not None:
        found = stated((spec.expected_duration_seconds or 0) * 1000, _limit_ms(row, spec), ran_ms)
    return found or left_of(_lengths(alike), ran_ms, "kind and size")


def _ran_ms(row: Row, now_ms: int) -> int:
    runs = row["state"] == State.RUNNING.value
    return max(now_ms - (row["running_at_ms"] or now_ms), 0) if runs else 0


def _limit_ms(row: Row, spec: WorkloadSpec) -> int:
    """How long it may run at most, less what it waited of a limited life; 0: no limit."""
    limits = [spec.max_duration_seconds * 1000] if spec.max_duration_seconds else []
    if spec.time_to_live_seconds:
        waited_ms = (row["running_at_ms"] or row["submitted_at_ms"]) - row["submitted_at_ms"]
        limits.append(max(spec.time_to_live_seconds * 1000 - waited_ms, 1))
    return min(limits, default=0)


def _lengths(ended: Sequence[Row]) -> list[int]:
    lengths = (one["ended_at_ms"] - one["running_at_ms"] for one in ended[:SAMPLES_MAX])
    return [max(one, 0) for one in lengths]


def _size(row: Row) -> int:
    return size_class(row["gpu_milli"] or 0)


def _at(found: Range | None, now_ms: int) -> RangeView | None:
    if found is None:
        return None
    return RangeView(
        p50_ms=now_ms + found.p50_ms,
        p90_ms=now_ms + found.p90_ms,
        basis=found.basis,
        samples=found.samples,
    )


def _message(state: State, start: Range | None) -> str:
    """Why it has no start to come, in words; "" where it has one or runs."""
    if state is State.HELD:
        return "it is held, and starts when somebody releases it"
    if state in TERMINAL:
        return "it has ended, and does not start again"
    if state not in STARTS | RUNS:
        return f"it is {state.value}"
    if state in STARTS and start is None:
        return "too little like it has started lately to say when it will"
    return ""


def _no_end(row: Row, now_ms: int) -> str:
    """Why its end is unknown: it has outlasted the duration that its owner stated, or none was."""
    spec = _specs.decode(row["spec"]) if row["spec"] else None
    ran_seconds = _ran_ms(row, now_ms) // 1000
    limit_seconds = _limit_ms(row, spec) // 1000 if spec is not None else 0
    if 0 < limit_seconds <= ran_seconds:
        return f"it has run for the {limit_seconds} s that it may at most, and is stopped"
    expected = spec.expected_duration_seconds if spec is not None else None
    if expected and expected <= ran_seconds:
        return f"it has run longer than the {expected} s that were expected"
    return "nothing says how long it will run: set expected_duration_seconds"
