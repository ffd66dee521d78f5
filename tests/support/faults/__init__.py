"""Faults of processes and stores for `tests/e2e/fault_test.py`: begin at `acts.py`."""
