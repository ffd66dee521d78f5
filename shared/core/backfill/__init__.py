"""Reserved starts: which nodes are kept for what waits longest, and from when.

Begin with `backfill.py`: the first gangs of a flavor get a reservation (`promise.py`,
`earliest.py`) on the `timeline.py` of expected ends; `kept_quota.py` keeps quota likewise.
`estimates.py` says how long work lasts, `eta.py` when a workload will start, `spare_room.py` keeps
long work off a few nodes so that wide and brief work finds room.
"""
