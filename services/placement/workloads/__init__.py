"""What happens to one workload: its transitions, its end, its owner's commands, its size.

Begin with `transitions.py` and `attempt_end.py`.
"""
