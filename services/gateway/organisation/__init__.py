"""How the documents of the organisation change: routes, merging, guards, rehearsal, deletion.

Begin with `organisation_routes.py` and `writing.py`, which commits the next version of a document.
"""
