"""The fleet with everything that is held on it, indexed so that no decision looks at all of it.

Begin with `state.py`: `ClusterState` holds nodes (`node_state.py`), tells them by the class that
static filters see (`node_class.py`), keeps the free capacity of each class on free lists
(`capacity_index.py`, `free_list.py`) and the fabric as a tree (`topology.py`). It tells the
indexes of a flavor of every change. `statement.py` is a transaction with undo: a search tries
things here and takes them back.
"""
