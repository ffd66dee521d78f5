"""Fleets of the kernels, ready to decide."""

from __future__ import annotations

from random import Random

from shared.core.demand import gang_of
from shared.core.kernels.fleet import Fleet
from shared.core.mix import DemandMix
from shared.core.model import Node
from shared.core.waste import waste_of
from tests.support import placing
from tests.support.kernel_story import FLAVOR, any_workload


def learned_fleet(*nodes: Node, seed: int = 1) -> Fleet:
    """A fleet with the tables of some mix."""
    fleet = Fleet(placing.cluster(*nodes), FLAVOR)
    draw, mix = Random(seed), DemandMix()
    for _ in range(200):
        mix.note(gang_of(any_workload(draw)), placed=True)
    fleet.learn(waste_of(mix.counts, fleet.kinds))
    return fleet
