"""Room for what waits, by evictions or moves of what runs.

`eligibility` says what may be evicted for a workload, `victims` finds the cheapest set of them,
`moves` lets work go on elsewhere instead, `defragmentation` finds the fewest moves for one blocked
gang. `crowd.py`: equal workloads that wait are one preemptor batch. Begin with `victims`.
"""

from shared.core.preemption.crowd import crowd_of, may_crowd, parts_of

__all__ = ["crowd_of", "may_crowd", "parts_of"]
