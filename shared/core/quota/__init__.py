"""What each queue may take: the tree, borrowing and lending, use over time, debts, budgets.

Begin with `tree.py`: cohorts and queues with nominal quota and limits for each flavor. `limits.py`
counts, `fair_share.py` orders queues by their weighted share, `deficits.py` and `usage_history.py`
remember, `budget.py` and `cost.py` are money and GPU-hours, `reasons.py` says why quota is short.
"""
