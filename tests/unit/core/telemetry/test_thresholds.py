"""Values over time against thresholds: what is told, when, and how often."""

import pytest

from shared.core.health.events import HealthEventKind as Kind
from shared.core.telemetry.readings import (
    CLOCK_REASONS,
    PCIE_REPLAYS,
    TEMPERATURE,
    Answering,
    GpuReading,
    NodeReading,
)
from shared.core.telemetry.thresholds import (
    FAN,
    HOUR_MS,
    IDLE_BIT,
    LINK_ERRORS,
    LINK_FAILURES,
    MINUTE_MS,
    SLOWDOWN,
    ThresholdLimits,
    Thresholds,
)

NOW = 1_700_000_000_000 // HOUR_MS * HOUR_MS
STEP_MS = 30_000


class Board:
    """One GPU that is read every half minute."""

    def __init__(self, limits=None):
        self.thresholds = Thresholds(limits or ThresholdLimits())
        self.at_ms = NOW
        self.told = []

    def read(self, minutes=0.0, *, answering=Answering.YES, **values):
        """The same values for so long; once for 0 minutes."""
        names = {
            "celsius": TEMPERATURE,
            "slowdown": SLOWDOWN,
            "reasons": CLOCK_REASONS,
            "fan": FAN,
        }
        named = {names.get(name, name): value for name, value in values.items()}
        for _ in range(max(1, round(minutes * MINUTE_MS / STEP_MS))):
            gpu = GpuReading(index=1, uuid="u", values=named, answering=answering)
            found = self.thresholds.crossed(NodeReading(at_ms=self.at_ms, gpus=(gpu,)))
            self.told += [(one.kind, one.code, self.at_ms - NOW) for one in found]
            self.at_ms += STEP_MS

    @property
    def kinds(self):
        return [kind for kind, _, _ in self.told]


@pytest.fixture
def board():
    return Board()


def test_heat_that_lasts_is_told_with_its_temperature(board):
    board.read(1.5, celsius=86)
    board.read(celsius=85)
    board.read(2, celsius=87)
    assert not board.told
    board.read(celsius=87.4)

    assert [(Kind.HOT, 87, 4 * MINUTE_MS)] == board.told


def test_a_device_near_its_slowdown_threshold_is_hot_below_the_limit_of_others(board):
    board.read(3, celsius=70, slowdown=76)
    assert not board.told
    board.read(3, celsius=70, slowdown=75)

    assert [Kind.HOT] == board.kinds


def test_ten_minutes_at_the_slowdown_threshold_are_overheating(board):
    board.read(10, celsius=90, slowdown=90)
    assert [Kind.HOT] == board.kinds
    board.read(celsius=90, slowdown=90)

    assert [Kind.HOT, Kind.OVERHEATED] == board.kinds


def test_what_lasts_is_told_once_an_hour(board):
    board.read(125, celsius=90)

    assert [Kind.HOT] * 3 == board.kinds
    assert [HOUR_MS] * 2 == [b[2] - a[2] for a, b in zip(board.told, board.told[1:], strict=False)]


@pytest.mark.parametrize(
    ("fan", "celsius", "told"), [(0, 61, True), (0, 60, False), (1, 80, False)]
)
def test_a_fan_that_stands_still_is_told_while_it_is_warm(board, fan, celsius, told):
    board.read(3, fan=fan, celsius=celsius)

    assert [Kind.FAN_STOPPED] * told == board.kinds


@pytest.mark.parametrize("bit", [0x8, 0x20, 0x40])
def test_more_than_a_tenth_of_ten_minutes_slowed_down_is_told(board, bit):
    board.read(9, reasons=0)
    board.read(1, reasons=bit)
    assert not board.told, "a tenth is not more than a tenth"
    board.read(9, reasons=0)
    board.read(1.5, reasons=bit)

    assert [(Kind.THROTTLED, 15)] == [(kind, code) for kind, code, _ in board.told]


@pytest.mark.parametrize("reasons", [0x4, 0x2, 0x80, 0x8 | IDLE_BIT])
def test_other_reasons_and_an_idle_device_are_no_throttling(board, reasons):
    board.read(40, reasons=reasons)

    assert not board.told


def test_more_than_half_of_thirty_minutes_is_another_sign(board):
    board.read(13, reasons=0)
    board.read(16, reasons=0x40)
    assert [Kind.THROTTLED] == board.kinds
    board.read(2, reasons=0x40)

    assert [Kind.THROTTLED, Kind.THROTTLED_LONG] == board.kinds


def test_replays_are_counted_within_an_hour():
    board = Board(ThresholdLimits(replays_per_hour=100))
    for minute in range(120):
        board.read(**{PCIE_REPLAYS: minute})
        board.at_ms += STEP_MS
    assert not board.told
    board.read(**{PCIE_REPLAYS: 60 + 101})

    assert [(Kind.PCIE_REPLAYS, 101)] == [(kind, code) for kind, code, _ in board.told]


def test_a_counter_that_begins_anew_has_not_grown():
    board = Board(ThresholdLimits(replays_per_hour=100))
    board.read(**{PCIE_REPLAYS: 500, LINK_ERRORS[0]: 50})
    board.read(**{PCIE_REPLAYS: 7, LINK_ERRORS[0]: 0})
    board.read(**{PCIE_REPLAYS: 107, LINK_ERRORS[0]: 0})
    assert not board.told
    board.read(**{PCIE_REPLAYS: 108})

    assert [(Kind.PCIE_REPLAYS, 101)] == [(kind, code) for kind, code, _ in board.told]


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((one, Kind.NVLINK_ERRORS) for one in LINK_ERRORS), (LINK_FAILURES[0], Kind.NVLINK_FAILED)],
)
def test_new_errors_of_links_are_told_and_old_ones_are_not(board, name, kind):
    board.read(**{name: 5})
    assert not board.told
    board.read(**{name: 8})

    assert [(kind, 3)] == [(one, code) for one, code, _ in board.told]


def test_a_board_without_values_and_one_that_does_not_answer_cross_nothing(board):
    board.read(10)
    board.read(10, answering=Answering.LOST, celsius=100)

    assert not board.told


def test_a_site_has_limits_of_its_own():
    board = Board(ThresholdLimits(hot_celsius=95))
    board.read(5, celsius=94)

    assert not board.told
