"""What one cell holds in memory, each part with its rows in PostgreSQL.

Begin with `records.py` (workloads that are not over), `fleet.py` (nodes as reported), `usage.py`
(quota as it is charged) and `queue_order.py` (the order across queues); `reservations.py` is room
that is being vacated for a preemptor.
"""
