"""Submissions by HTTP: form and owner are checked here, the verdict is admission's.

Begin with `submissions.py`; `what_if.py` is the dry run.
"""
