"""The state of the cell in memory, and the unit of work in hand.

Begin with `cell_state.py`: what a workload takes and gives back goes through it once.
`unit_of_work.py` is what the batch in hand tells and writes, `deadlines.py` what is due by time,
`ledger.py` the one write of the ledger; `store.py` rebuilds memory at start, `agreement.py`
compares the two.
"""
