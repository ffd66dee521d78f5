"""Which destination is told of what."""

import pytest

from shared.core.notifications.events import KINDS, NoticeKind, Severity, wanted


@pytest.mark.parametrize(
    ("events", "min_severity", "of_team", "expected"),
    [
        ((), "info", "", True),
        (("failed",), "info", "", True),
        (("preempted",), "info", "", False),
        ((), "warning", "", True),
        ((), "critical", "", False),
        ((), "info", "vision", True),
        ((), "info", "speech", False),
    ],
)
def test_a_destination_is_told_what_its_document_wants(
    events: tuple[str, ...], min_severity: str, of_team: str, expected: bool
) -> None:
    told = wanted(
        NoticeKind.FAILED,
        Severity.WARNING,
        "vision",
        events=events,
        min_severity=min_severity,
        of_team=of_team,
    )
    assert expected is told


@pytest.mark.parametrize(
    ("of_team", "team", "expected"),
    [("", "", True), ("vision", "vision", True), ("", "vision", False), ("vision", "", False)],
)
def test_a_week_is_told_of_the_own_team_or_of_the_fleet(
    of_team: str, team: str, expected: bool
) -> None:
    told = wanted(
        NoticeKind.REPORT_WEEKLY,
        Severity.INFO,
        team,
        events=("report-weekly",),
        min_severity="info",
        of_team=of_team,
    )
    assert expected is told


def test_a_test_is_no_kind_that_a_document_names() -> None:
    assert "test" not in KINDS
    assert "failed" in KINDS
