"""Amounts in words."""

import pytest

from shared.core.model.amounts import amount, exceeded, fits, text
from shared.core.model.units import UNLIMITED, Resources


@pytest.mark.parametrize(
    ("unit", "value", "words"),
    [
        ("gpu", 4000, "gpu=4"),
        ("gpu", 125, "gpu=0.125"),
        ("cpu", 1500, "cpu=1.5"),
        ("memory", 16_384, "memory=16384Mi"),
        ("cpu", UNLIMITED, "cpu=unlimited"),
    ],
)
def test_an_amount_reads_in_its_unit(unit, value, words):
    assert text(unit, value) == words


def test_a_refusal_names_only_what_is_exceeded():
    words = exceeded("team-fraud", (1000, 2000, 5), (4000, 0, 0), (4000, 8000, UNLIMITED))

    assert words == "exceeded quota: team-fraud, requested: gpu=1, used: gpu=4, limited: gpu=4"


def test_several_units_stand_side_by_side():
    words = exceeded("q", (1000, 0, 20), (0, 0, 0), (500, 0, 10))

    assert words == (
        "exceeded quota: q, requested: gpu=1,memory=20Mi, used: gpu=0,memory=0Mi, "
        "limited: gpu=0.5,memory=10Mi"
    )


def test_nothing_exceeded_is_nothing_said():
    assert exceeded("q", (1, 1, 1), (0, 0, 0), (1, 1, 1)) == ""


def test_a_unit_that_is_not_asked_for_is_never_in_the_way():
    assert fits((0, 1, 0), (9, 0, 9), (5, 1, 5))
    assert not fits((1, 1, 0), (9, 0, 9), (5, 1, 5))


def test_unlimited_holds_anything():
    assert fits(
        (UNLIMITED, 1, 1),
        (UNLIMITED, 5, 5),
        amount(Resources(gpu_milli=UNLIMITED, cpu_milli=UNLIMITED, memory_mib=UNLIMITED)),
    )
