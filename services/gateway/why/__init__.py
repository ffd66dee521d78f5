"""Why a workload stands where it stands, when it starts, and what was preempted for it.

Begin with `why.py` over `wait_context.py`; `headline` picks the one cause to put first, `eta.py`
the times.
"""
