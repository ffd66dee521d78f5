"""The parts of a gateway process that all its handlers share.

Begin with `door.py`: what a handler gets; `committer.py` makes submissions durable in groups,
`hub.py` feeds event streams, `endpoint.py` is one route at work.
"""
