"""The example load: `python -m operations.demo` on a system that is up (`make demo`).

Reading order: `organisation` (teams, queues, quotas from the fleet), `load` (2,000 workloads of
every kind), `display`, `run`.
"""
