"""Placement without its service, for operators: plans and replays of what was recorded.

`defragmentation.py` reads the rows and plans moves; `replay.py` decides recorded batches again.
"""
