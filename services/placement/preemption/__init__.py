"""Plans of the preemption service, carried out on the ledger.

Begin with `evictions.py`; `plan_checks.py` says whether a plan still holds, `moves.py` lets
work go on elsewhere.
"""
