"""The scheduling cycle: what waits is tried in order, and is placed or told why not.

Begin with `scheduling_cycle.py`: `SchedulingCycle.run` is the list of steps. `attempts.py` is one
try of one workload, `request_classes.py` which requests are tried as one, `inadmissible.py` what
makes a refused class admissible again (`freed_room.py`: which room), `avoided.py` which nodes one
workload goes round, `growth.py` makes running gangs larger.
"""
