"""The demo: `python -m operations.demo` on a system that is up (`make demo`).

`story` is the demo of three minutes: eight scenes that borrow, reclaim, drain, kill and check.
`quick` is the short one (`make demo QUICK=1`): 2,000 workloads of every kind, then a report.

Reading order: `organisation` (teams, queues, quotas from the fleet), `load` (one recipe for each
kind of work), `doors` (how it is sent), `site` (the local system), then `story/` or `quick`.
"""
