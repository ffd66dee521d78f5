"""Digests of what the handlers emit and write over random histories: code may move, they may not.

A digest covers each unit of work that quota, placement, preemption and admission would commit:
outbox rows with their ids, headers and bytes, audit rows, SQL with its arguments. `python -m
tests.golden check` compares all with `digests.json`; `record` writes that file anew, in the commit
that changes a decision, a message or a sentence on purpose.
"""
