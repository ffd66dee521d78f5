"""Who submits first is first, also within a millisecond."""

from shared.core.queueing import submission_times
from shared.core.queueing.submission_times import LEAD_MS_MAX, SubmissionTimes

NOW_MS = 1_700_000_000_000


def test_each_time_of_a_team_is_later_than_the_one_before():
    times = SubmissionTimes()

    given = [times.next("red", NOW_MS + late) for late in (0, 0, 0, 1, 7, 7)]

    assert [0, 1, 2, 3, 7, 8] == [one - NOW_MS for one in given]


def test_teams_do_not_delay_each_other():
    times = SubmissionTimes()

    assert NOW_MS == times.next("red", NOW_MS) == times.next("blue", NOW_MS)


def test_times_are_never_further_ahead_of_the_clock_than_they_may():
    times = SubmissionTimes()

    last = [times.next("red", NOW_MS) for _ in range(LEAD_MS_MAX + 5)][-1]
    after_a_step_back = times.next("red", NOW_MS - 3_600_000)

    assert NOW_MS + LEAD_MS_MAX == last
    assert NOW_MS - 3_600_000 + LEAD_MS_MAX == after_a_step_back


def test_of_too_many_teams_the_times_are_forgotten(monkeypatch):
    monkeypatch.setattr(submission_times, "TEAMS_MAX", 2)
    times = SubmissionTimes()
    for team in ("red", "blue", "green"):
        times.next(team, NOW_MS)

    assert NOW_MS + 1 == times.next("green", NOW_MS)
    assert NOW_MS == times.next("red", NOW_MS)
