"""Run all of Muster on one machine without Docker: broker, database and every service.

`python -m deploy.local up` is the way in (`__main__`). Reading order: `processes` (one child
process), `kafka` and `postgres` (the two real servers), `services` (the table of what runs),
`system` (start, restart, stop), `supervisor` (the daemon around it).
"""
