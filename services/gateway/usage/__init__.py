"""GPU-hours and what they cost, summed up as a caller asks. Begin with `usage_reads.py`."""
