"""Nodes that take no new work, change their mode, or gave other GPUs than the ledger says.

`drains.py` is cordon, drain and fence, `shunning.py` quarantine, `switching.py` MIG mode,
`takeovers.py` what kubelets chose, `kept_room.py` what long work leaves alone.
"""
