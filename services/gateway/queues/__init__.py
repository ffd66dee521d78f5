"""Queues and cohorts as they are read, and the quota tree of the read model.

Begin with `queue_reads.py` and `quota_tree.py`.
"""
