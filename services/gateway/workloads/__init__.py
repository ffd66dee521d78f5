"""Workloads as they are read, and the commands to them.

Begin with `workload_reads.py` and `commands.py`.
"""
