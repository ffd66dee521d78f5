"""Why a workload was not placed: what was missing, by how much, and what would help.

`explain` asks in this order and stops at the first answer: do its filters leave nodes
(`no_node.py`), is there quota (`no_quota.py`), room for one pod (`no_room.py`, `no_share.py`),
room for the gang together (`no_gang.py`, `not_together.py`, `nearest.py`). `survey.py` counts for
all.
"""

from shared.core.placement.explain.explain import explain

__all__ = ["explain"]
