"""How good it is to put one pod into each condition of a node or shared GPU: arrays of scores.

A score is a number with the values of the policies as digits: the key of each follows from the
spans of those after it in the list, so that an earlier one outweighs them all. Below the digits,
`TIE` leaves room for what decides among equals (core/scoring/policies).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.core.model.demand import PodDemand
from shared.core.scoring.cells import REFUSED, TIE, Ints
from shared.core.scoring.policies import POLICIES
from shared.core.scoring.policy import (
    CPU_STEP_MILLI,
    SHARED_CPU_STEP_MILLI,
    Floats,
    Learned,
    ScoringPolicy,
    gpu_places,
    node_places,
    opened,
)
from shared.core.scoring.share_values import MILLI_STEP

Bools = NDArray[np.bool_]


def keys_of(policies: Sequence[type[ScoringPolicy]]) -> tuple[int, ...]:
    """By policy what one step of its value counts. The last has `TIE`, then each spans its digits.

    Raises:
        ValueError: The digits of all policies do not fit into a score.
    """
    keys, key = [], TIE
    for policy in reversed(policies):
        keys.append(key)
        key <<= (policy.most - policy.least).bit_length()
    if key > -REFUSED:
        raise ValueError(f"policies need {key.bit_length() - 1} bits, and a score has 62")
    return tuple(reversed(keys))


KEYS: Final = keys_of(POLICIES)


class Scorer:
    """The policies for one learned mix and fleet."""

    def __init__(self, learned: Learned) -> None:
        self._policies = [policy(learned) for policy in POLICIES]

    def of_nodes(self, allowed: Bools, conditions: Ints, demand: PodDemand) -> Ints:
        """Of rows as in `node_places`; `REFUSED` without room, or of a class not `allowed`."""
        places = node_places(conditions, demand)
        number, free, _, step = conditions.T
        fits = allowed[number] & (free >= opened(demand))
        fits &= (step + 1) * CPU_STEP_MILLI > demand.cpu_milli
        values = (policy.of_nodes(places, demand) for policy in self._policies)
        return np.where(fits, _summed(values, len(fits)), REFUSED)

    def of_gpus(self, allowed: Bools, conditions: Ints, demand: PodDemand) -> Ints:
        """The same of rows as in `gpu_places`."""
        places = gpu_places(conditions, demand)
        number, free, _, step = conditions.T
        fits = allowed[number] & ((free + 1) * MILLI_STEP > demand.milli)
        fits &= (step + 1) * SHARED_CPU_STEP_MILLI > demand.cpu_milli
        values = (policy.of_gpus(places, demand) for policy in self._policies)
        return np.where(fits, _summed(values, len(fits)), REFUSED)


def _summed(values: Iterator[Ints | Floats | None], count: int) -> Ints:
    total: Ints = np.zeros(count, dtype=np.int64)
    for policy, key, value in zip(POLICIES, KEYS, values, strict=True):
        if value is not None:
            total += key * np.clip(value, policy.least, policy.most).astype(np.int64)
    return total
