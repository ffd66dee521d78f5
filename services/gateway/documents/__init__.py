"""The documents of the organisation and the keys of its teams, as the gateway stores them.

Begin with `documents.py`; `organisation.py` keeps them in memory, at most a second old.
"""
