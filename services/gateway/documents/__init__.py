"""The documents of the organisation and the keys of its teams, as the gateway stores them.

Begin with `documents.py`; `document_rules.py` says what must hold for each of them, and
`organisation.py` keeps them in memory, at most a second old.
"""
