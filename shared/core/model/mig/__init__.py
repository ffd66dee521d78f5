"""MIG as the products define it: profiles, legal starts, and what each position leaves open.

`table.py` is the geometry of one board, `tables.py` those of the products, `reported.py` a board
as its agent reports it, `profiles.py` what a name says.
"""
