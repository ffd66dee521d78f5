"""The parts of a gateway process that all its handlers share.

Begin with `context.py`: what a handler gets; `committer.py` makes submissions durable in groups,
`event_hub.py` feeds event streams, `endpoint.py` is one route at work.
"""
