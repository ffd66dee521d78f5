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


def test_a_test_is_no_kind_that_a_document_names() -> None:
    assert "test" not in KINDS
    assert "failed" in KINDS
