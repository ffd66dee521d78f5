"""What a decision costs where fleets take turns, so that none of them stays in the cache."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from shared.core.kernels import BackEnd
from shared.core.kernels.compiled import Compiled, no_requests
from shared.core.kernels.indexes import CONDITIONS_USED, LINES_USED
from shared.core.learned_counts import REFRESH_MAX
from tests.benchmarks.openb import TracePod
from tests.benchmarks.throughput import stream
from tests.support.kernel_churn import Churn

TURN: Final = 16
"""Decisions in a fleet before the next one is asked."""
CALLS: Final = 200


def in_turns_us(
    churns: Sequence[Churn], pods: Sequence[TracePod], name: str, decisions: int
) -> float:
    """Mean CPU time of a decision where every fleet decides `TURN` at a time.

    Every fleet makes so many that it learns its mix anew as often as any other, and as many
    before, unmeasured.
    """
    rounds = -(-max(decisions // len(churns), 2 * REFRESH_MAX) // TURN)
    for _ in range(2):
        for churn in churns:
            churn.reset()
        for _ in range(rounds):
            for churn in churns:
                churn.step(stream(name, pods, churn.draw, TURN))
    calls = rounds * len(churns) * call_seconds(churns[0].kernel)
    seconds = sum(churn.seconds for churn in churns) - calls
    return 1e6 * seconds / sum(churn.decided for churn in churns)


def call_seconds(kernel: BackEnd) -> float:
    """Of a call with nothing to decide."""
    start = time.thread_time()
    for _ in range(CALLS):
        kernel.run(no_requests(0))
    return (time.thread_time() - start) / CALLS


def bytes_of(churn: Churn) -> int:
    """Of what a decision may look at: state, trees of the index, scores of what is in use."""
    state, kernel = churn.fleet.state, churn.kernel
    size = sum(array.nbytes for array in (state.nodes, state.gpus, state.held))
    if isinstance(kernel, Compiled):
        index, shapes = kernel.index, len(churn.fleet.shapes)
        size += index.tree.nbytes + index.behind.nbytes
        size += shapes * int(index.sizes[CONDITIONS_USED]) * index.scores.itemsize
        size += shapes * int(index.sizes[LINES_USED]) * (index.tops.itemsize + index.seen.itemsize)
    return size
