"""Use over time in the service: exact from facts, told once a minute, the same after a restart."""

from services.quota.handler import QuotaHandler
from services.quota.history import TELL_INTERVAL_MS, History
from shared.core.quota.usage_history import GPU_SECOND, UsageHistory
from shared.events.quotas import QueueUsageTold
from tests.unit.quota.support import Ledger, a_workload, queue_document, writes

DAY_MS = 86_400_000


class Rows:
    """A reader of the rows that were written last."""

    def __init__(self, rows):
        self.rows = rows

    async def fetch(self, sql, *arguments):
        return self.rows if "queue_usage" in sql else []


def rows_of(write):
    queues, half_life_ms, origins, weighted, changed_at_ms = write
    return [
        {
            "queue": queue,
            "half_life_ms": half_life_ms,
            "origin": origin,
            "weighted": number,
            "changed_at_ms": changed_at_ms,
        }
        for queue, origin, number in zip(queues, origins, weighted, strict=True)
    ]


def told(ledger, now_ms):
    ledger.now_ms = now_ms
    due = [one for one in ledger.handler.due(now_ms) if one.event.payload.kind == "usage"]
    outcome = ledger.handler.decide(due, now_ms)
    return [one.payload for one in outcome.emits if isinstance(one.payload, QueueUsageTold)]


def test_what_a_queue_used_is_told_exactly():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1", gpus=4))
    ledger.place("w1", gpus=4, at_ms=20_000)
    ledger.succeed("w1", at_ms=20_000 + DAY_MS)

    (fact,) = told(ledger, 20_000 + DAY_MS)

    wanted = UsageHistory()
    wanted.change("q", 20_000, 4000)
    wanted.change("q", 20_000 + DAY_MS, -4000)
    assert fact.gpu_seconds == wanted.at("q", 20_000 + DAY_MS) // GPU_SECOND
    assert 0.95 * 4 * 86_400 < fact.gpu_seconds < 4 * 86_400
    assert (fact.queue, fact.at_ms) == ("q", 20_000 + DAY_MS)


def test_work_without_a_gpu_leaves_no_account_and_stops_nobody():
    history = History(half_life_ms=DAY_MS)

    history.change("q", 20_000, 0)

    assert history.writes() == ()
    assert (history.due_ms(), history.at("q", 20_001)) == (None, 0)


def test_an_attempt_whose_end_was_never_told_ends_with_the_next():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    ledger.place("w1", at_ms=20_000)
    ledger.place("w1", at_ms=3_620_000)

    (fact,) = told(ledger, 7_220_000)

    assert 0.99 * 7_200 < fact.gpu_seconds < 7_200


def test_it_is_told_once_a_minute_as_long_as_it_changes():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    assert told(ledger, 3_600_000) == []

    ledger.place("w1", at_ms=3_600_000)
    first = told(ledger, 3_600_000)
    too_soon = told(ledger, 3_600_000 + TELL_INTERVAL_MS - 1)
    running = told(ledger, 3_600_000 + TELL_INTERVAL_MS)
    ledger.succeed("w1", at_ms=3_690_000)
    ended = told(ledger, 3_600_000 + 2 * TELL_INTERVAL_MS)
    nothing_new = told(ledger, 3_600_000 + 9 * TELL_INTERVAL_MS)

    assert [one.gpu_seconds for one in (*first, *running, *ended)] == [0, 59, 89]
    assert (too_soon, nothing_new) == ([], [])


async def test_a_restart_changes_nothing():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1", gpus=2), a_workload("w2"))
    ledger.place("w1", gpus=2, at_ms=20_000)
    ledger.place("w2", at_ms=40_000)
    ledger.succeed("w1", at_ms=5_000_000)
    alive = list(ledger.handler.memory.records.alive.values())
    (write,) = writes(ledger.outcomes[-1], "INSERT", "queue_usage")

    again = History(ledger.handler._half_life_ms)
    await again.load(Rows(rows_of(write)), alive)

    assert again.tell(9_000_000, 0) == told(ledger, 9_000_000)


async def test_what_ran_before_there_were_rows_counts_from_its_start():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    ledger.place("w1", at_ms=20_000)

    again = History(ledger.handler._half_life_ms)
    await again.load(Rows([]), ledger.handler.memory.records.alive.values())

    assert again.tell(3_620_000, 0) == told(ledger, 3_620_000)


async def test_another_half_life_keeps_what_was_used():
    ledger = Ledger(queue_document())
    ledger.queue(a_workload("w1"))
    ledger.place("w1", at_ms=20_000)
    ledger.succeed("w1", at_ms=20_000 + DAY_MS)
    (write,) = writes(ledger.outcomes[-1], "INSERT", "queue_usage")

    again = History(DAY_MS)
    await again.load(Rows(rows_of(write)), [])

    (fact,) = again.tell(20_000 + DAY_MS, 0)
    assert abs(fact.gpu_seconds - told(ledger, 20_000 + DAY_MS)[0].gpu_seconds) <= 1
    assert abs(again._core.at("q", 20_000 + 2 * DAY_MS) // GPU_SECOND * 2 - fact.gpu_seconds) <= 2
    assert again.writes()  # and the row follows


def test_the_half_life_is_a_setting():
    assert QuotaHandler(half_life_ms=DAY_MS).memory.history._core.half_life_ms == DAY_MS
