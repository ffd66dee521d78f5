"""The unit of work: memory, and what the batch in hand writes.

Begin with `desk.py`: charge and release, facts, commands and deadlines go through it once.
`ledger.py` is the one write of the ledger, `store.py` rebuilds memory at start, `agreement.py`
compares the two.
"""
