"""The read model: facts become the rows that reads and event streams look at.

Begin with `projection.py`; `projection_sql.py` has the one statement by table and batch.
"""
