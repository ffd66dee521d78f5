"""Promised starts and the quota that is kept for them, in one cell.

`promises.py` keeps nodes for the heads that found no room, `heads.py` says which those
are, `quota_heads.py` for which workloads quota is kept and `kept_quota.py` what is left for
others; `headroom.py` is what a workload may be charged now. The decisions are those of
`shared/core/backfill`.
"""
