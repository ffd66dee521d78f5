"""The scheduling cycle: what waits is tried in order, and rests with a reason.

Begin with `trials.py`, `Trials.run`; `resting.py` says whom freed room can help, `avoided.py`
which nodes one workload goes round, `growth.py` makes running gangs larger.
"""
