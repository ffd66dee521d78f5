"""What is foretold of starts is scored against what happens."""

from prometheus_client import REGISTRY

from services.monitoring import scores
from services.monitoring.memory import Seen
from shared.core.eta import SAMPLES_MIN
from shared.core.value import replace
from shared.events.workloads import WorkloadPlaced
from tests.unit.monitoring import builders as b
from tests.unit.monitoring.test_monitoring import Monitoring

SECOND_MS = 1_000


def waited(known: scores.Scores, seconds: int, *, promised_ms: int = 0, **changed) -> list:
    """One workload is queued and placed so long after; its scores."""
    one = Seen(team="vision", queue="q", queued=True)
    known.queued(one, b.queued())
    if promised_ms:
        refused = replace(b.refused(), evidence={"promised_start_ms": promised_ms})
        known.refused(one, refused)
        known.refused(one, replace(refused, evidence={"promised_start_ms": promised_ms + 9}))
    fact = b.placed(at_ms=b.START_MS + seconds * SECOND_MS, **changed)
    assert isinstance(fact, WorkloadPlaced)
    return list(known.placed(one, fact))


def learned(*seconds: int) -> scores.Scores:
    known = scores.Scores()
    for one in seconds:
        waited(known, one)
    return known


def test_nothing_is_foretold_before_enough_like_it_have_started():
    assert [] == waited(learned(*range(SAMPLES_MIN - 1)), 3)


def test_a_start_is_scored_by_the_middle_and_by_where_in_the_range_it_fell():
    for seconds, error, within in ((10, 20, "p50"), (40, 10, "p90"), (90, 60, "later")):
        (score,) = waited(learned(10, 20, 30, 40, 50), seconds)

        assert score == scores.Score("history", error * SECOND_MS, within)


def test_a_range_follows_what_happens():
    known = learned(*[10] * SAMPLES_MIN, *[100] * (2 * scores.AGED))

    (score,) = waited(known, 100)

    assert score == scores.Score("history", 0, "p50")


def test_the_first_promise_is_scored_too():
    (late,) = waited(scores.Scores(), 30, promised_ms=b.START_MS + 10 * SECOND_MS)
    (early,) = waited(scores.Scores(), 30, promised_ms=b.START_MS + 40 * SECOND_MS)

    assert late == scores.Score("promise", 20 * SECOND_MS, "later")
    assert early == scores.Score("promise", 10 * SECOND_MS, "p50")


def test_a_later_attempt_is_no_start():
    assert [] == waited(learned(*[10] * 9), 30, attempt=2)


def test_kinds_are_bounded(monkeypatch):
    monkeypatch.setattr(scores, "KINDS_MAX", 1)
    known = learned(*[10] * 9)
    other = Seen(team="vision", queue="other", queued=True)
    list(known.placed(other, b.placed()))

    assert [] == waited(known, 10)


def counted() -> float:
    labels = {"basis": "history", "within": "p50"}
    return REGISTRY.get_sample_value("muster_eta_starts_total", labels) or 0


def test_the_service_counts_what_it_foretold():
    monitoring = Monitoring()
    before = counted()
    for number in range(SAMPLES_MIN + 1):
        name = f"w{number}"
        monitoring.read(b.queued(name))
        monitoring.read(b.placed(workload_id=name, at_ms=b.START_MS + 5_000))

    assert counted() - before == 1
