"""What each message does to a cell: one module for each sender.

`../handlers.py` has the list; an action takes the cell, the message and its payload.
"""
